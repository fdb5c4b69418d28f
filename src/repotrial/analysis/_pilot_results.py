"""What only a conducted pilot has: bounds, endings, rubric, errors of the verdicts, strata, scope."""

from __future__ import annotations

from typing import Literal

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis._figures import IntervalFigure, Number, SpreadFigure
from repotrial.analysis._trials import TrialOutcome
from repotrial.stats import Incidence


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
    tool_calls: tuple[SpreadFigure, ...]
    """Tool calls of single trials, by outcome (B16)."""
    failed_check_cycles: tuple[SpreadFigure, ...]
    """Failing test runs of single trials, by outcome (B16)."""
    caution: str
    """What a reader must not make of so few tasks; empty where they are not few."""


class StratumContrast(msgspec.Struct, frozen=True, kw_only=True):
    """A registered contrast on the tasks of one stratum: exploratory, and adjusted for nothing."""

    stratum: str
    """The cell of the plan."""
    first: str
    """The one side."""
    second: str
    """The other side."""
    tasks: int
    """Tasks of both arms there."""
    difference: Number
    """Mean over these tasks of the difference of the task's means."""
    low: Number
    """Lower end of its interval."""
    high: Number
    """Upper end of it."""
    computed_from: tuple[str, ...]
    """Names of the artefacts."""


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
    read_before: Number
    """Share of changed files that were there before and whose content the agent was shown (Q1)."""
    conventions: Number
    """Share of static checks (linters, formats) that pass (Q1)."""


class CappedRate(msgspec.Struct, frozen=True, kw_only=True):
    """How an arm would have done under a stricter cap (B17): counterfactual."""

    arm: str
    """The arm."""
    cap: str
    """The limit of a run, as the contract calls it."""
    share: float
    """Of the cap that was enforced."""
    rate: Number
    """Successes that used at most so much, over all planned trials."""
    label: Literal["provisional"] = "provisional"
    """An agent that knew of the stricter cap might have worked differently (Q18)."""


class LabeledShare(msgspec.Struct, frozen=True, kw_only=True):
    """A share of runs by what people said of them, weighted by the inverse of the chance of being asked."""

    share: IntervalFigure | NotComputable
    """Over runs with a clear label; tasks are resampled."""
    lowest: Number
    """If every unclear, missing or disputed label had spoken against it."""
    highest: Number
    """If each of them had spoken for it."""
    labels: int
    """Runs with a clear label that entered."""


class ModeErrors(msgspec.Struct, frozen=True, kw_only=True):
    """Wrong verdicts by failure mode."""

    mode: str
    """Of failure-modes.jsonl."""
    false_positives: LabeledShare
    """Of rejected runs that carry the mode as a tag: the share that people call correct."""
    false_negatives: LabeledShare
    """Of accepted runs: the share that people call incorrect for this mode."""


class VerdictErrors(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="verdict-errors"):
    """How often the checks were wrong, by the labels of people (X1). A label never changes a verdict."""

    definition: str
    """The direction of both words."""
    asked: int
    """Runs that people were asked about."""
    labeled: int
    """Of them, with a clear label."""
    unclear: int
    """Of them, unclear to a reviewer."""
    disputed: int
    """Of them, with labels that contradict each other."""
    rejected_correct: LabeledShare
    """False positives: of rejected runs the share that is correct."""
    correct_rejected: LabeledShare
    """False positives: of correct runs the share that was rejected."""
    accepted_incorrect: LabeledShare
    """False negatives: of accepted runs the share that is incorrect."""
    incorrect_accepted: LabeledShare
    """False negatives: of incorrect runs the share that was accepted."""
    modes: tuple[ModeErrors, ...]
    """The same by failure mode."""
    rates: dict[str, LabeledShare]
    """By arm: the share of runs that people call correct; beside the rate, never in its place."""
    minutes: int
    """What people spent."""
    minutes_per_finding: Number
    """Minutes for each wrong verdict that was found."""


class Discovery(msgspec.Struct, frozen=True, kw_only=True):
    """What it would take to see one more failure mode (Q20)."""

    modes: dict[str, int]
    """Failure modes that were seen, with the number of trials that show each."""
    chance_of_another: Number
    """That one more trial shows a mode that none has shown, by Good and Turing."""
    usd_for_another: Number
    """Mean cost of a trial over that chance."""


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


class AdjudicatedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a flaky contract that was judged as often as registered (B11)."""

    task: str
    """The contract."""
    arm: str
    """The arm."""
    repeat: int
    """Which of its trials there."""
    own: TrialOutcome
    """What the contract's own checks said the first time."""
    outcome: TrialOutcome
    """What counts."""
    passes: int
    """Judgments in which every check passes."""
    judgments: int
    """All of them, the first included."""
    reason: str
    """How the outcome came about."""


class AdjudicationFigures(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="adjudication"):
    """The registered rule for flaky contracts, and what it changed."""

    rule: str
    """In words; the same for all arms."""
    trials: tuple[AdjudicatedTrial, ...]
    """Every trial that it decided."""
    own_rates: dict[str, float]
    """By arm: the rate without it."""


class PilotFigures(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="pilot"):
    """What only a conducted pilot has."""

    pilot: str
    """Its id."""
    flow: dict[str, int]
    """Contracts and trials on their way from the plan to the analysis."""
    beside: dict[str, dict[str, int]]
    """By arm: outcomes on tasks that a stop left incomplete; in no estimate."""
    adjudication: AdjudicationFigures | NotComputable
    """Changes of flaky contracts judged several times (B11)."""
    arms: tuple[ArmRecord, ...]
    """In the order of the rates."""
    contrasts: tuple[ContrastBounds, ...]
    """In the order of the contrasts."""
    strata: tuple[StratumFigures, ...]
    """By stratum and arm."""
    stratum_contrasts: tuple[StratumContrast, ...] = ()
    """Paired differences by stratum; empty with one stratum."""
    already_satisfied: tuple[str, ...] | NotComputable
    """Tasks that an arm that does nothing satisfies (Q15)."""
    already_failing: tuple[str, ...] | NotComputable
    """Tasks on which such an arm fails for another reason than the missing change (Q15)."""
    verdict_errors: VerdictErrors | NotComputable
    """How often verdicts were wrong, by the labels of people (X1)."""
    counterfactual: tuple[CappedRate, ...]
    """Under stricter caps: provisional, and never compared with the rates (Q18)."""
    discovery: Discovery
    """Failure modes seen, and the cost of one more (Q20)."""
    mixed_conditions: dict[str, tuple[str, ...]]
    """Contracts whose runs are not all of one comparability class, with what differs (P30)."""
    deviations: tuple[str, ...]
    """Departures from the protocol (X6)."""
    scope: tuple[str, ...]
    """What the result is about, in sentences (Q19)."""
