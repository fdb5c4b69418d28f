"""The one model of results: what an analysis says, of a table of trials or of a conducted pilot.

Commands print it, pages read it, `--check` compares it. A figure that the data do not determine is an object
with `kind` and `reason` where a number would stand.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.stats import Incidence

ANALYSIS_SCHEMA: Final = "repotrial/analysis@1"
Number: TypeAlias = float | NotComputable


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """Something that figures were computed from (X5)."""

    name: str
    """How figures refer to it."""
    file: str
    """Where it is, from the directory that was analyzed."""
    digest: str
    """Of its bytes; of several files, of the sorted lines `digest  path` of all of them."""
    files: int = 1
    """How many files it has."""


class IntervalFigure(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="figure"):
    """A value with how sure one can be of it."""

    estimate: Number
    """The point estimate."""
    low: Number
    """Lower end of the interval."""
    high: Number
    """Upper end of the interval."""
    standard_error: Number
    """Over tasks (CR2 for rates); not computable where the method has none."""
    method: str
    """How the interval was computed."""
    n_units: int
    """Trials that entered."""
    n_clusters: int
    """Tasks that entered."""


class SpreadFigure(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts of single trials: an account, not an estimate."""

    outcome: str
    """Of which trials: all, or those that ended so."""
    trials: int
    """How many have the amount."""
    missing: int
    """How many do not have it."""
    lower_quartile: float
    """A quarter lies below (linear interpolation)."""
    median: float
    """Half lies below."""
    upper_quartile: float
    """Three quarters lie below."""
    maximum: float
    """The largest."""
    total: float
    """Their sum."""


class RepeatFigure(msgspec.Struct, frozen=True, kw_only=True):
    """What k trials of one task give."""

    k: int
    """How many."""
    any: IntervalFigure | NotComputable
    """Chance that at least one succeeds (pass@k), a mean over tasks."""
    all: IntervalFigure | NotComputable
    """Chance that all succeed (pass^k), a mean over tasks."""


class ArmFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one arm did."""

    name: str
    """The arm."""
    role: Literal["candidate", "baseline"] = "candidate"
    """Baselines stand outside of the primary family."""
    tasks: int
    """Tasks with trials of the arm."""
    trials: int
    """All its trials: the denominator of the rate."""
    successes: int
    """Trials that succeeded."""
    failures: int
    """Trials that failed."""
    errors: int
    """Trials whose checks did not complete; 0 in the rate."""
    invalid: int
    """Trials of which nothing can be said; 0 in the rate."""
    indeterminate: int = 0
    """Planned trials without an outcome; 0 in the rate, with bounds beside it."""
    rate: IntervalFigure
    """Successes over all trials; tasks are the sampling units."""
    scorable_rate: IntervalFigure | NotComputable
    """Successes over successes, failures and errors: conditional, beside the rate and not in its place."""
    icc: Number
    """Correlation of two trials of one task, by one-way analysis of variance."""
    icc_low: Number
    """Lower end of its interval."""
    icc_high: Number
    """Upper end of its interval."""
    repeats: tuple[RepeatFigure, ...]
    """pass@k and pass^k, for each k up to the most trials that a task has; at most ten of them."""
    cost_per_success: IntervalFigure | NotComputable
    """Cost of all trials over successes, in dollars."""
    cost_usd: tuple[SpreadFigure, ...]
    """Cost of single trials, by outcome."""
    wall_seconds: tuple[SpreadFigure, ...]
    """Time of single trials, by outcome."""
    computed_from: tuple[str, ...]
    """Names of the artefacts."""


class ContrastFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The first arm less the second, over the tasks that both have."""

    name: str
    """How the plan calls it; else both arms."""
    first: str
    """The one side."""
    second: str
    """The other side."""
    family: Literal["primary", "exploratory"]
    """Whether the error rate is held over it and the other primary ones together."""
    tasks: int
    """Tasks of both arms."""
    difference: Number
    """Mean over these tasks of the difference of the task's means."""
    difference_in_tasks: Number
    """The same as a number of these tasks."""
    standard_error: Number
    """Of the difference."""
    low: Number
    """Lower end of its interval, not adjusted for the other contrasts."""
    high: Number
    """Upper end of it."""
    p: Number
    """Two-sided, of Student's paired t; the sequential one for a contrast that could stop the pilot."""
    p_holm: Number
    """The same adjusted for the family, by Holm; not computable outside of it."""
    low_family: Number
    """Lower end of the interval adjusted for the family, by Bonferroni."""
    high_family: Number
    """Upper end of it."""
    after_looks: IntervalFigure | NotComputable
    """The median-unbiased difference of a contrast that could stop the pilot: the plain one is too large."""
    p_sign_flip: Number
    """Two-sided, by flipping the signs of the tasks' differences: beside p, not in its place."""
    is_told_apart: bool
    """Whether the adjusted p-value is at most the level."""
    method: str
    """How the interval was computed."""
    only_first: tuple[str, ...]
    """Tasks that only the first arm has; they enter nothing here."""
    only_second: tuple[str, ...]
    """Tasks that only the second arm has; they enter nothing here."""
    sentence: str
    """What it says, in words."""
    computed_from: tuple[str, ...]
    """Names of the artefacts."""


class TiedGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Arms no two of which can be told apart; an arm may be in several groups."""

    arms: tuple[str, ...]
    """By rate, the best first."""
    sentence: str
    """The same in words."""


class StratumFigures(msgspec.Struct, frozen=True, kw_only=True):
    """How one arm did on the tasks of one stratum."""

    stratum: str
    """The cell of the plan."""
    arm: str
    """The arm."""
    rate: IntervalFigure
    """Successes over all planned trials there."""
    cost_usd: tuple[SpreadFigure, ...]
    """Cost of single trials, by outcome."""
    wall_seconds: tuple[SpreadFigure, ...]
    """Time of single trials, by outcome."""
    caution: str
    """What a reader must not make of so few tasks; empty where they are not few."""


class ArmRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What the sealed runs of an arm show beside their outcomes."""

    arm: str
    """The arm."""
    worst_rate: float
    """If every indeterminate and every doubtful trial had failed (X2)."""
    best_rate: float
    """If every indeterminate trial had succeeded."""
    doubtful: int
    """Successes with a flag that no person has answered; successes in the rate, failures in the worst one."""
    endings: dict[str, int]
    """How trials ended, by cause."""
    failed_gates: dict[str, int]
    """Trials that did not pass each gate."""
    failure_modes: dict[str, int]
    """Trials with each tag."""
    rubric: RubricFigures | NotComputable
    """Four components, over the trials that were judged."""
    time_to_success: Incidence | NotComputable
    """Share of planned trials that succeeded within so many seconds of acting."""
    cost_to_success: Incidence | NotComputable
    """Share of planned trials that succeeded within so many dollars of acting."""
    tokens_per_task: Number
    """Tokens of all counted trials over tasks."""
    phases_usd: dict[str, Number]
    """Total cost by phase: inference, execution, adjudication, provisioning; or why it is not known."""
    computed_from: tuple[str, ...]
    """Names of the artefacts."""


class RubricFigures(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rubric"):
    """The graded rubric (B14): shares of judged trials; gates decide, this only describes."""

    trials: int
    """Trials that were judged."""
    correctness: float
    """Pass the acceptance gate."""
    patch_validity: float
    """Have a valid patch, and no changed file outside of the modules that a contract declares."""
    safety: float
    """Pass the safety gate."""
    efficiency: float
    """Ended within the limits of the run; a limit is a choice of policy (Q10)."""
    score: float
    """Mean of the four: equal weights."""
    score_low: float
    """Under the least favorable weights."""
    score_high: float
    """Under the most favorable weights."""
    coherence: Number
    """Share of changed files that lie in the declared modules (Q1): beside the score, never in it."""


class ContrastBounds(msgspec.Struct, frozen=True, kw_only=True):
    """How far indeterminate trials could move a contrast (X2)."""

    name: str
    """The contrast."""
    worst: Number
    """Difference if those of the first arm had failed and those of the second succeeded."""
    best: Number
    """The reverse."""
    tipping_point: int | NotComputable
    """Fewest of them that, going against the arm in front, leave nothing told apart, unadjusted."""


class PilotFigures(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pilot"):
    """What only a conducted pilot has."""

    pilot: str
    """Its id."""
    flow: dict[str, int]
    """Contracts and trials on their way from the plan to the analysis."""
    arms: tuple[ArmRecord, ...]
    """In the order of the rates."""
    contrasts: tuple[ContrastBounds, ...]
    """In the order of the contrasts."""
    strata: tuple[StratumFigures, ...]
    """By stratum and arm."""
    already_satisfied: tuple[str, ...] | NotComputable
    """Tasks that an arm that does nothing satisfies (Q15)."""
    already_failing: tuple[str, ...] | NotComputable
    """Tasks on which such an arm fails for another reason than the missing change (Q15)."""
    mixed_conditions: dict[str, tuple[str, ...]]
    """Contracts whose runs are not all of one comparability class, with what differs (P30)."""
    deviations: tuple[str, ...]
    """Departures from the protocol (X6)."""
    scope: tuple[str, ...]
    """What the result is about, in sentences (Q19)."""


class Analysis(msgspec.Struct, frozen=True, kw_only=True):
    """All that an analysis found."""

    schema: Literal["repotrial/analysis@1"] = ANALYSIS_SCHEMA
    """Which version of this format."""
    code_version: str
    """The release that computed it."""
    is_witnessed: bool
    """Whether the outcomes come from sealed runs; a table of trials is what its author says."""
    label: str
    """What the reader must know first."""
    decision: str
    """The outcome of the frozen decision rule, in words; or why there is none."""
    level: float
    """Of all intervals; the family's error rate is the rest."""
    tasks: int
    """Tasks of all arms."""
    trials: int
    """Trials of all arms."""
    arms: tuple[ArmFigures, ...]
    """By rate, the best first."""
    contrasts: tuple[ContrastFigures, ...]
    """The primary family first."""
    tied: tuple[TiedGroup, ...]
    """Empty if all arms of the family can be told apart."""
    pilot: PilotFigures | NotComputable
    """What only a conducted pilot has; not computable for a table."""
    notes: tuple[str, ...]
    """What must be known to read the figures."""
    artefacts: tuple[Artefact, ...]
    """What everything was computed from."""
