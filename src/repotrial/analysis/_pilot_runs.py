"""A conducted pilot as analysis takes it: frozen rules, planned trials, and the run of each that counts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Self

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes, digest_file
from repotrial.analysis._adjudication import Adjudicated, AdjudicationEnd, adjudicate, is_adjudicated
from repotrial.analysis._contrasts import Contrast
from repotrial.analysis._figures import Artefact
from repotrial.analysis._plan_document import Adjudication
from repotrial.analysis._review_queue import ReviewedRun
from repotrial.analysis._trials import Trial, TrialOutcome
from repotrial.score import JudgedRun, Scorable, find_status, judge_run
from repotrial.trace import RunPaths

_OUTCOMES: Final[dict[str, TrialOutcome]] = {
    "success": "success",
    "failure": "failure",
    "acceptance-error": "error",
    "invalid": "invalid",
}
_MICROSECONDS: Final = 1e6
_OF_CONTRACTS: Final = frozenset({"judge-without-twins"})
"""Flags of a contract's checks: the same for every candidate, so they doubt no single success."""


class PlannedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One planned run, and where it was carried out."""

    task: str
    arm: str
    repeat: int
    stratum: str
    directory: str | None
    """The run directory of the attempt that counts; null if there is none: indeterminate."""
    attempts: int = 1
    """All attempts at it."""
    again: tuple[str, ...] = ()
    """Directories in which its change was judged again (B11)."""
    adjudication_end: AdjudicationEnd | None = None
    """What did not allow another judgment; null if nothing forbade it."""


class FrozenRule(msgspec.Struct, frozen=True, kw_only=True):
    """The decision rule, as it was frozen."""

    contrast: str
    adopt_above: float
    reject_below: float
    most_usd_per_success: float


class ConductedPilot(msgspec.Struct, frozen=True, kw_only=True):
    """All that an analysis of a pilot rests on."""

    id: str
    directory: Path
    """The directories of runs and the documents below are named from here."""
    arms: dict[str, Literal["candidate", "baseline"]]
    idle_arm: str | None
    """The arm that does nothing."""
    contrasts: tuple[Contrast, ...]
    """The registered ones; the one that could stop with its sequential p-value."""
    rule: FrozenRule
    level: float
    """Of intervals: one less the registered error rate."""
    planned: tuple[PlannedTrial, ...]
    """Those that the estimates are of: after a stop, of complete tasks only."""
    beside: tuple[PlannedTrial, ...] = ()
    """Conducted on tasks that a stop left incomplete: shown, and in no estimate."""
    never_started: int = 0
    """Planned trials that a stop left undone: in no rate."""
    shown_apart: int = 0
    """Trials of earlier registrations (C11)."""
    family: int | None = None
    """Number of registered contrasts, over which the level is split; that of the primary ones if null."""
    adjudication: Adjudication = Adjudication()
    """How changes of flaky contracts are judged again."""
    prices: str | None = None
    """The price book's path from the directory; the bundled one if null."""
    documents: dict[str, str]
    """Plan, registration and journal: names, and paths from the directory."""
    removed: dict[str, str]
    """Tasks that were taken out, with the reason."""
    deviations: tuple[str, ...]
    scope: tuple[str, ...]
    reviews: tuple[ReviewedRun, ...] = ()
    """Runs that people were asked about, each with its sampling chance and its labels."""
    under_way: str = ""
    """Of a look before the end: how far the pilot is; it decides nothing. Empty after the end."""

    @classmethod
    def build(cls, **fields: object) -> Self:
        """From plain values, as documents have them."""
        return msgspec.convert(fields, cls, dec_hook=_decode_path)


def _decode_path(kind: type, value: object) -> object:
    if kind is Path and isinstance(value, Path | str):
        return Path(value)
    raise TypeError(f"expected {kind.__name__}, found {value!r}")


class CountedTrial(msgspec.Struct, frozen=True, kw_only=True):
    """A planned trial with its outcome, and its run judged anew."""

    planned: PlannedTrial
    trial: Trial
    run: JudgedRun | None
    is_reviewed: bool = False
    """Whether a person has said something about it."""
    again: tuple[JudgedRun, ...] = ()
    """Its change judged again."""
    adjudicated: Adjudicated | None = None
    """What all judgments come to; null where its contract is not listed as flaky."""

    @property
    def is_indeterminate(self) -> bool:
        """Whether nothing can be said of it; it counts 0, with bounds beside."""
        return self.trial.outcome == "indeterminate"

    @property
    def is_doubtful(self) -> bool:
        """A success whose change has a flag that no person has answered."""
        if self.run is None or self.trial.outcome != "success" or self.is_reviewed:
            return False
        return any(
            note.code not in _OF_CONTRACTS and not note.is_mentioned_only for note in self.run.card.review
        )


def judge_planned(pilot: ConductedPilot) -> tuple[CountedTrial, ...]:
    """Judge every planned trial anew from its run directory; nothing is executed."""
    return judge_trials(pilot, pilot.planned)


def judge_trials(pilot: ConductedPilot, planned: Sequence[PlannedTrial]) -> tuple[CountedTrial, ...]:
    """The same for some of them."""
    reviewed = {(one.task, one.arm, one.repeat) for one in pilot.reviews if one.labels}
    return tuple(
        _judge(pilot, one, is_reviewed=(one.task, one.arm, one.repeat) in reviewed) for one in planned
    )


def _judge(pilot: ConductedPilot, planned: PlannedTrial, *, is_reviewed: bool) -> CountedTrial:
    run = None if planned.directory is None else judge_run(pilot.directory / planned.directory)
    again = tuple(judge_run(pilot.directory / name) for name in planned.again)
    adjudicated = None
    if run is not None and is_adjudicated(pilot.adjudication, planned.task, run):
        adjudicated = adjudicate(pilot.adjudication, run, again, planned.adjudication_end)
    trial = Trial(
        task=planned.task,
        arm=planned.arm,
        repeat=planned.repeat,
        outcome=_find_outcome(run, adjudicated),
        # What was never conducted has cost nothing; attempts that do not count are in the flow.
        cost_usd=0.0 if run is None else _find_cost(run),
        wall_seconds=None if run is None else _find_seconds(run),
    )
    return CountedTrial(
        planned=planned,
        trial=trial,
        run=run,
        is_reviewed=is_reviewed,
        again=again,
        adjudicated=adjudicated,
    )


def _find_outcome(run: JudgedRun | None, adjudicated: Adjudicated | None) -> TrialOutcome:
    """B11: the registered rule decides; the contract's own verdict stays beside it."""
    if run is None:
        return "indeterminate"
    own = find_own_outcome(run)
    if adjudicated is None:
        return own
    if adjudicated.outcome == "failure":
        return "failure" if own == "success" else own
    return adjudicated.outcome or "indeterminate"


def find_own_outcome(run: JudgedRun) -> TrialOutcome:
    """What the contract's own checks say of a run."""
    return _OUTCOMES[find_status(run.card)]


def _find_cost(run: JudgedRun) -> float | None:
    cost = run.card.cost.cost_usd
    if isinstance(cost, str):
        return float(cost)
    # An agent that asks no model costs nothing for models: known, not missing.
    return 0.0 if cost.reason == "asks no model" else None


def _find_seconds(run: JudgedRun) -> float | None:
    wall = run.card.cost.wall_us
    return None if isinstance(wall, Unknown) else wall / _MICROSECONDS


def find_ending(trial: CountedTrial) -> str:
    """How a trial ended: one of the competing ends of its curve, or the word for no outcome."""
    if trial.run is None or trial.is_indeterminate:
        return "indeterminate"
    if trial.trial.outcome == "success":
        return "success"
    status = trial.run.card.status
    nature = status.ended_by if isinstance(status, Scorable) else None
    if nature is None:
        end = trial.run.evidence.termination
        nature = None if end is None else end.event.nature
    match nature:
        case "resource":
            return "limit"
        case "safety":
            return "safety"
        case "none":
            return "finished-without-success"
        case _:
            return "crash"


def list_artefacts(pilot: ConductedPilot, trials: Sequence[CountedTrial]) -> tuple[Artefact, ...]:
    """Documents, and for each arm the seals of its runs: a seal covers every file of a run."""
    found = [
        Artefact(name=name, file=file, digest=digest_file(pilot.directory / file))
        for name, file in pilot.documents.items()
        if (pilot.directory / file).is_file()
    ]
    for arm in pilot.arms:
        lines = sorted(_iter_lines(pilot, [one for one in trials if one.planned.arm == arm]))
        digest = digest_bytes("\n".join(lines).encode())
        found.append(Artefact(name=name_runs(arm), file="runs", digest=digest, files=len(lines)))
    return tuple(found)


def name_runs(arm: str) -> str:
    """The artefact of an arm's runs."""
    return f"runs of {arm}"


def _iter_lines(pilot: ConductedPilot, trials: Sequence[CountedTrial]) -> Iterator[str]:
    for one in trials:
        for name in (one.planned.directory, *one.planned.again):
            if name is not None:
                seal = RunPaths(pilot.directory / name).seal
                digest = digest_file(seal) if seal.is_file() else "absent"
                yield f"{digest}  {name}"
