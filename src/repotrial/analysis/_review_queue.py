"""Which runs people look at: all that are doubtful, and a random sample of the others (B6, B14).

Without the sample, wrong verdicts on unflagged runs could not be estimated. The chance of each run is fixed
by the plan: the sample is drawn from the frozen seed and the frozen order, whatever the run did.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final, Literal, TypeAlias

import msgspec
import numpy as np

from repotrial._core.canonical import Count, canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.errors import RepoTrialError
from repotrial.analysis._plan_document import Pilot
from repotrial.analysis._plan_review import ReviewLabel
from repotrial.analysis._plan_rows import PlannedRow
from repotrial.change import ChangeView, read_change
from repotrial.contract import ContractRecord
from repotrial.policy import find_dependency_files
from repotrial.score import Invalid, JudgedRun, Scorable

REVIEW_STREAM: Final = 2
"""The third stream that is spawned from the seed, after the orders of tasks and of arms."""
_KNOWN_AGENTS: Final = frozenset({"noop", "reference"})
"""What they change is known before the pilot: nothing at all, and the contract's own reference."""
_OF_CONTRACTS: Final = frozenset({"judge-without-twins"})
"""Notes about a contract's checks: the same for every run."""
_DEPENDENCY: Final = "new-dependency"
_ALWAYS: Final = Decimal(1)

ReviewKind: TypeAlias = Literal["borderline", "flagged", "security", "dependency", "sample"]


class ReviewReason(msgspec.Struct, frozen=True, kw_only=True):
    """Why a person is asked about a run."""

    kind: ReviewKind
    message: str


class ReviewedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run of the queue, with what people said of it."""

    case: str
    """Its blind name."""
    run_id: str
    task: str
    arm: str
    repeat: Count
    chance: Decimal
    """How likely it was to be in the queue: 1 if always."""
    reasons: tuple[ReviewReason, ...]
    labels: tuple[ReviewLabel, ...] = ()
    """In the order in which they were given; of one person, the last counts."""

    @property
    def counted_labels(self) -> tuple[ReviewLabel, ...]:
        """The last label of each person, in the order of the persons' first labels."""
        return tuple({label.reviewer: label for label in self.labels}.values())


class ReviewSampling:
    """Who is in the queue: by the frozen plan, and by what a run left."""

    def __init__(self, pilot: Pilot, rows: Sequence[PlannedRow], registration: Digest) -> None:
        """`registration`: digest of the first one, so that blind names outlive amendments."""
        self._pilot = pilot
        self._registration = registration
        self._agents = {arm.name: arm.agent for arm in pilot.arms}
        stream = np.random.SeedSequence(pilot.seed).spawn(REVIEW_STREAM + 1)[REVIEW_STREAM]
        draws = np.random.default_rng(stream).random(len(rows))
        share = float(pilot.review.sample_share)
        self.sample = frozenset(row.run_id for row, draw in zip(rows, draws, strict=True) if draw < share)
        """Planned runs, by id, that people look at if nothing else asks for it."""

    def name_case(self, run_id: str) -> str:
        """The blind name of a run: it does not tell task, arm or repeat, and sorts at random."""
        digest = canonical_digest(["repotrial/case@1", self._registration, run_id])
        return f"case-{digest.removeprefix('sha256:')[:10]}"

    def find_queued(self, row: PlannedRow, run: JudgedRun) -> ReviewedRun | None:
        """The place of a conducted run in the queue; None if no person is asked about it."""
        if self._agents[row.arm] in _KNOWN_AGENTS:
            return None
        reasons, chance = tuple(_iter_reasons(run)), _ALWAYS
        if not reasons:
            # Nothing can be said of an invalid run: it has no verdict that could be wrong.
            if isinstance(run.card.status, Invalid) or row.run_id not in self.sample:
                return None
            reasons = (ReviewReason(kind="sample", message="drawn at random"),)
            chance = self._pilot.review.sample_share
        return ReviewedRun(
            case=self.name_case(row.run_id),
            run_id=row.run_id,
            task=row.task,
            arm=row.arm,
            repeat=row.replicate,
            chance=chance,
            reasons=reasons,
        )


def _iter_reasons(run: JudgedRun) -> Iterator[ReviewReason]:
    for kind, message in (
        *_iter_borderline(run),
        *_iter_flags(run),
        *_iter_security(run),
        *_iter_dependencies(run),
    ):
        yield ReviewReason(kind=kind, message=message)


_Found: TypeAlias = Iterator[tuple[ReviewKind, str]]


def _iter_borderline(run: JudgedRun) -> _Found:
    """Where a repetition, or a little more time, might have had another verdict."""
    status = run.card.status
    for check in run.card.checks:
        if 0 < check.passes < check.attempts:
            yield "borderline", f"{check.check}: passed {check.passes} of {check.attempts} attempts"
    if not isinstance(status, Scorable):
        return
    if status.verdict == "acceptance-error":
        yield "borderline", "a check could not be completed"
    if status.verdict == "success" and status.ended_by != "none":
        yield "borderline", "every gate passes, and the work was ended from outside"


def _iter_flags(run: JudgedRun) -> _Found:
    for note in run.card.review:
        if note.code not in _OF_CONTRACTS and note.code != _DEPENDENCY and not note.is_mentioned_only:
            yield "flagged", f"{note.code}: {note.message}"


def _iter_security(run: JudgedRun) -> _Found:
    for broken in run.card.violations:
        yield "security", f"{broken.rule}: {broken.messages[0] if broken.messages else 'broken'}"
    if not run.card.violations and any(
        gate.name == "safety" and gate.outcome == "failed" for gate in run.card.gates
    ):
        yield "security", "the fourth gate fails"
    end = run.evidence.termination
    if end is not None and end.event.nature == "safety":
        yield "security", "a boundary was violated, and the harness ended the run"


def _iter_dependencies(run: JudgedRun) -> _Found:
    record, view = run.evidence.record, read_view(run)
    if view is not None and isinstance(record, ContractRecord):
        for path in find_dependency_files(view, record.contract.policy.dependencies):
            yield "dependency", f"{path}: says what the project depends on, and is changed"


def read_view(run: JudgedRun) -> ChangeView | None:
    """The change of a run; None if there is none that can be read."""
    change = run.evidence.change
    if not isinstance(change, bytes):
        return None
    try:
        return read_change(change)
    except RepoTrialError:  # no patch at all: the first gate says so
        return None
