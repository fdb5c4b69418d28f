"""`pilot.toml`: arms, strata, stages, money, rules and assumptions of a pilot (B5, Q2)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, ClassVar, Final, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.seed import ROOT_SEED
from repotrial.contract import ParameterValue, Problem, RunCaps, StrictDocument, build_document_error

PILOT_SCHEMA: Final = "repotrial/pilot@1"

StratumFactor: TypeAlias = Literal["ecosystem", "kind", "test-seconds", "dependencies", "tier"]
"""What tasks may be told apart by (B7, C14)."""
Impact: TypeAlias = Literal["low", "medium", "high"]

PILOT_INVALID = ErrorCode(
    "pilot-invalid",
    ContractError,
    "A pilot has problems that would make it worthless. All of them are listed.",
    hint="mend what is listed; nothing was spent",
)

ArmName = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z0-9]+([._-][a-z0-9]+)*$(?!\n)",
        max_length=60,
        extra={"expected": "a name of lower-case letters and digits, joined by single '-', '_' or '.'"},
    ),
]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
_Repeats = Annotated[int, msgspec.Meta(ge=1, le=100)]
_Money: TypeAlias = Decimal
_Share: TypeAlias = Decimal


class PilotArm(StrictDocument, frozen=True, kw_only=True):
    """One way of working that is compared."""

    name: ArmName
    """How reports call it."""
    agent: _Text
    """As `run start --agent` takes it; a `{contract}` in a script or patch stands for each contract."""
    role: Literal["candidate", "baseline"] = "candidate"
    """Baselines are shown beside the candidates (B8)."""
    version: str | None = None
    """Of the agent; where it is stated and another one is installed, the plan is refused."""
    model: str | None = None
    """The model that it asks."""
    upstream: str | None = None
    """Who answers for the model, as `run start --upstream` takes it; each arm has its own."""
    briefing: str | None = None
    """A file with words that this arm is told after the task."""
    conditions: dict[str, ParameterValue] = msgspec.field(default_factory=dict)
    """In place of those that all arms share: effort, output and context limits, retries."""
    caps: RunCaps | None = None
    """In place of the caps that all arms share."""
    expected_usd: _Money | None = None
    """Presumed cost of one run; the cap stands in where it is left out."""
    author_minutes: Annotated[int, msgspec.Meta(ge=0, le=10**6)] = 0
    """Declared work of the author of a baseline; goes into C_human."""


class StagePlan(StrictDocument, frozen=True, kw_only=True):
    """How often each arm works on each task."""

    stage_2: _Repeats = 1
    """Runs of each arm on each task after stage 2, those of stage 1 included."""
    doubled_share: _Share = Decimal("0.25")
    """Part of the tasks that has two runs in stage 2: without it, the ICC stays as planned."""
    most: _Repeats = 3
    """Most runs of each arm on each task after stage 3."""


class StrataPlan(StrictDocument, frozen=True, kw_only=True):
    """The cells in which tasks are told apart."""

    factors: tuple[StratumFactor, ...] = ("ecosystem", "kind")
    """At most two; the others are margins in reports."""
    smallest_cell: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 4
    """Smaller cells are merged: into the smallest of the same first factor, else into the smallest of all."""
    test_seconds: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = (10, 120)
    """Cut points of the run time of the tests: an assumption."""
    dependencies: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = (10, 50)
    """Cut points of the number of packages: an assumption."""
    tier_lines: tuple[Annotated[int, msgspec.Meta(ge=0)], ...] = (2000, 20000)
    """Cut points of the lines of code, for the complexity tier: an assumption."""


class EnvelopePlan(StrictDocument, frozen=True, kw_only=True):
    """B_run, B_task and B_total over all four cost terms (B4)."""

    run_usd: _Money
    """For one run."""
    task_usd: _Money
    """For all runs on one contract."""
    total_usd: _Money
    """For the pilot."""


class Adjudication(StrictDocument, frozen=True, kw_only=True):
    """What happens with contracts that are known to be flaky; their own verdict stays beside it (B11)."""

    contracts: tuple[str, ...] = ()
    """Their ids; all others are never judged again."""
    passes: _Repeats = 2
    """So many passes make a success."""
    reruns: _Repeats = 3
    """Most judgments of one change, the first included; the same for all arms."""


class StoppingRules(StrictDocument, frozen=True, kw_only=True):
    """When stage 3 may end before its plan does (B13)."""

    looks: tuple[_Share, ...] = (Decimal("0.5"), Decimal("0.75"), Decimal(1))
    """Information fractions: complete tasks of planned tasks."""
    least_tasks: Annotated[int, msgspec.Meta(ge=2)] = 20
    """No look before so many complete tasks."""
    contrast: str | None = None
    """The one contrast that may stop the pilot, for all arms; none if left out."""
    assumptions: tuple[ArmName, ...] = ("planning-values",)
    """Assumptions of the register that the rule rests on: where stage 2 refutes one, the rule is off."""
    is_futility_used: bool = False
    """Whether it may also stop when the repeated interval lies between minus and plus the relevant effect."""
    safety_breaches: Annotated[int, msgspec.Meta(ge=1)] = 1
    """So many runs with a boundary violation stop the pilot."""


class PilotContrast(StrictDocument, frozen=True, kw_only=True):
    """Two arms that are compared, decided in advance."""

    name: ArmName
    """How reports call it."""
    arm: ArmName
    """The first side."""
    against: ArmName
    """The other side; a positive difference is in favor of the first."""


class DecisionRule(StrictDocument, frozen=True, kw_only=True):
    """When to adopt, when not to, and when nothing is decided."""

    contrast: ArmName
    """The contrast that decides."""
    adopt_above: _Share
    """Adopt if the whole interval of the difference lies above it …"""
    most_usd_per_success: _Money
    """… and a success of the first arm costs at most so much."""
    reject_below: _Share = Decimal(0)
    """Do not adopt if the whole interval lies below it; in all other cases nothing is decided."""


class Relaxation(StrictDocument, frozen=True, kw_only=True):
    """A limit that stage 3 lifts (Q16)."""

    field: _Text
    """A cap or a wait: never isolation, secrets or network."""
    value: Annotated[int, msgspec.Meta(ge=1, le=2**53 - 1)]
    """In its place."""
    justification: _Text
    """Why."""


class Assumption(StrictDocument, frozen=True, kw_only=True):
    """What the plan rests on (Q2)."""

    id: ArmName
    """A short name, to which rules refer."""
    text: _Text
    """What is presumed."""
    source: _Text
    """Where it comes from."""
    refuted_by: _Text
    """What would refute it."""


class Risk(StrictDocument, frozen=True, kw_only=True):
    """What may go wrong (B6, Q14)."""

    asset: _Text
    """What is at stake."""
    boundary: _Text
    """The trust boundary that is crossed."""
    threat: _Text
    """How."""
    mitigation: _Text
    """What is done about it."""
    cost_impact: Impact
    """In money."""
    harm: Impact
    """To anything else."""


class PowerAssumptions(StrictDocument, frozen=True, kw_only=True):
    """What power is computed from (B10); the defaults come from 3,543 public trials."""

    rate: _Share = Decimal("0.5")
    """Presumed rate of success."""
    icc: _Share = Decimal("0.65")
    """Presumed correlation of two runs of one arm on one task."""
    pair_correlation: _Share = Decimal("0.65")
    """Presumed correlation of two arms' chances on a task."""
    power: _Share = Decimal("0.8")
    """The registered power."""


class ReviewPlan(StrictDocument, frozen=True, kw_only=True):
    """Which unflagged runs people look at (B14)."""

    sample_share: _Share = Decimal("0.1")
    """The chance of each unflagged run; 0 means that false negatives cannot be estimated."""
    reviewers: Annotated[int, msgspec.Meta(ge=1, le=2)] = 1
    """Labels wanted for each run."""


class Pilot(StrictDocument, frozen=True, kw_only=True):
    """All of `pilot.toml`."""

    FILE: ClassVar = "pilot.toml"

    schema: Annotated[str, msgspec.Meta(pattern=r"^repotrial/pilot@1(\.[0-9]+)?$(?!\n)")]
    """Which version of this format."""
    id: ArmName
    """How reports call the pilot."""
    suite: _Text
    """The suite's file, relative to this one."""
    seed: Annotated[int, msgspec.Meta(ge=0, le=2**53 - 1)] = ROOT_SEED
    """Of the order of tasks and arms; any other than the planned one is a deviation (P8)."""
    isolation: Literal["L3", "L3c", "L2"] = "L3"
    """The sandbox level of all runs."""
    smallest_effect: _Share
    """The smallest difference of rates that would matter."""
    level: _Share = Decimal("0.05")
    """Chance of a false alarm, over all contrasts together."""
    flakiness_tolerance: _Share = Decimal(0)
    """Share of repeated judgments that may differ."""
    prices: str | None = None
    """A price book, relative to this file; the bundled one if left out."""
    thresholds: str | None = None
    """The breakers' thresholds; the bundled ones if left out."""
    conditions: dict[str, ParameterValue] = msgspec.field(default_factory=dict)
    """Effort, output and context limits, retries: the same for all arms unless one says otherwise."""
    caps: RunCaps = RunCaps()
    """Limits of every run in place of the contracts' own."""
    stages: StagePlan = StagePlan()
    """Repeats."""
    strata: StrataPlan = StrataPlan()
    """How tasks are told apart."""
    envelopes: EnvelopePlan
    """What may be spent."""
    adjudication: Adjudication = Adjudication()
    """For flaky contracts alone."""
    stopping: StoppingRules = StoppingRules()
    """Early ends."""
    power: PowerAssumptions = PowerAssumptions()
    """What power rests on."""
    review: ReviewPlan = ReviewPlan()
    """What people look at."""
    decision: DecisionRule
    """What follows from the result."""
    arms: Annotated[tuple[PilotArm, ...], msgspec.Meta(min_length=2)]
    """Who is compared."""
    contrasts: Annotated[tuple[PilotContrast, ...], msgspec.Meta(min_length=1)]
    """What is compared: the family over which the level is split."""
    relaxations: tuple[Relaxation, ...] = ()
    """What stage 3 lifts."""
    assumptions: Annotated[tuple[Assumption, ...], msgspec.Meta(min_length=1)]
    """The register of assumptions."""
    risks: Annotated[tuple[Risk, ...], msgspec.Meta(min_length=1)]
    """The register of risks."""

    def find_contrast(self, name: str) -> PilotContrast:
        """The contrast of a name that is known to exist."""
        return next(contrast for contrast in self.contrasts if contrast.name == name)

    @classmethod
    def build_problem(cls, field: str, message: str, hint: str, *, file: str | None = None) -> Problem:
        """A problem of a pilot."""
        return Problem(
            code="pilot-rule",
            severity="error",
            file=file or cls.FILE,
            field=field,
            message=message,
            hint=hint,
        )

    @staticmethod
    def build_error(problems: Iterable[Problem], *, where: Path) -> ContractError:
        """The error that lists everything that is wrong with a pilot, each with its fix."""
        return build_document_error(PILOT_INVALID, "pilot", problems, where=where)
