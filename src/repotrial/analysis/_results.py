"""The one model of results: what an analysis says, of a table of trials or of a conducted pilot.

Commands print it, pages read it, `--check` compares it. A figure that the data do not determine is an object
with `kind` and `reason` where a number would stand.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis._figures import Artefact, IntervalFigure, Number, RepeatFigure, SpreadFigure
from repotrial.analysis._pilot_results import PilotFigures

ANALYSIS_SCHEMA: Final = "repotrial/analysis@1"


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
