"""`pilot review`: a queue of runs for people, blinded evidence, and labels that are only ever added (B14)."""

from __future__ import annotations

from contextlib import closing
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import Final, Literal

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.canonical import Count
from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.analysis import (
    LoadedPlan,
    ReviewCase,
    ReviewedRun,
    ReviewLabel,
    ReviewSampling,
)
from repotrial.conduct._chain import ChainedFile, ChainKind
from repotrial.conduct._frozen import FrozenDocuments, load_documents
from repotrial.conduct._people import PeopleLedger
from repotrial.cost import PriceBook
from repotrial.score import JudgedRun, judge_run, load_taxonomy

LABELS_FILE: Final = "labels.jsonl"

LABELS_BROKEN = ErrorCode(
    "labels-broken",
    EvidenceError,
    "The labels of a pilot do not hold: a line was edited, removed or added.",
    hint="take the file from a backup; a label is changed by giving another one, never by editing",
)
LABELS_UNDER_WAY = ErrorCode(
    "labels-under-way",
    UsageError,
    "Another command writes a label of this pilot at this moment.",
    hint="give the command again",
)
LABEL_REFUSED = ErrorCode(
    "label-refused",
    UsageError,
    "A label does not fit the pilot: its case, its failure mode or its reviewer.",
    hint="`repotrial pilot review DIR` lists the cases; failure modes are in plan/failure-modes.jsonl",
)


class LabelEntry(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line of `labels.jsonl`."""

    seq: Count
    """From 0."""
    previous: Digest
    """Digest of the line before."""
    label: ReviewLabel


_KIND: Final = ChainKind(
    model=LabelEntry, schema="repotrial/labels@1", broken=LABELS_BROKEN, busy=LABELS_UNDER_WAY
)


class QueuedCase(msgspec.Struct, frozen=True, kw_only=True):
    """A case in the list of a reviewer: neither arm nor verdict."""

    case: str
    task: str
    kinds: tuple[str, ...]
    """Why a person is asked, in words of the registration."""
    chance: Decimal
    """How likely it was to be asked about."""
    labels: int
    """People who gave one."""
    wanted: int
    """People who are to give one."""


class ReviewQueue(msgspec.Struct, frozen=True, kw_only=True):
    """All of `pilot review`."""

    pilot: str
    sample_share: Decimal
    """The registered chance of an unflagged run."""
    cases: tuple[QueuedCase, ...]
    """In a random order that is always the same."""
    open: int
    """Cases that still want a label; of one reviewer, if one was named."""
    minutes: int
    """What people spent so far."""
    kappa: float | NotComputable
    """Cohen's kappa of two reviewers, over the cases that both labeled."""


class GivenLabel(msgspec.Struct, frozen=True, kw_only=True):
    """What a reviewer says of a case."""

    case: str
    """Its blind name."""
    verdict: Literal["correct", "incorrect", "unclear"]
    """Whether the change does what the task asks for."""
    failure_mode: str | None = None
    """Of failure-modes.jsonl."""
    reviewer: str
    """By whom."""
    reason: str
    """Why."""
    minutes: int
    """Time that it took."""
    is_verdict_seen: bool = False
    """Whether the verdict of the checks was shown before."""


class LabelWritten(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a label."""

    label: ReviewLabel
    human_usd: Decimal | NotComputable
    """What its minutes cost; booked in the pilot's ledger."""


class Review:
    """The queue of one pilot, read once."""

    def __init__(self, directory: Path, documents: FrozenDocuments) -> None:
        self._directory = directory
        self._pilot, self._record, self._journal = documents
        rows, removed = self._record.loaded.rows, self._record.registration.removed_tasks
        self._sampling = ReviewSampling(self._pilot, rows, self._record.registrations[0].digest)
        self._rows = {self._sampling.name_case(row.run_id): row for row in rows if row.task not in removed}

    @classmethod
    def load(cls, directory: Path) -> Review:
        """Read a frozen pilot and its labels, on any machine.

        Raises:
            PILOT_NOT_FROZEN: there is no registration.
            PILOT_BROKEN: a document is not as it was frozen, or a run is not the one that was conducted.
        """
        return cls(directory, load_documents(directory))

    @cached_property
    def runs(self) -> tuple[ReviewedRun, ...]:
        """Every run of the queue with its labels, by its blind name.

        Raises:
            LABELS_BROKEN: the labels do not hold.
        """
        labels = self._read_labels()
        found = (self._judge(case) for case in sorted(self._rows))
        return tuple(
            msgspec.structs.replace(queued, labels=tuple(one for one in labels if one.case == queued.case))
            for queued, _ in filter(None, found)
        )

    def _judge(self, case: str) -> tuple[ReviewedRun, JudgedRun] | None:
        """A case with its run; None if it was not conducted, or no person is asked about it."""
        row = self._rows[case]
        entry = self._record.list_counted(self._journal).get(row.run_id)
        if entry is None or entry.directory is None:
            return None
        run = judge_run(self._directory / LoadedPlan.RUNS / entry.directory)
        queued = self._sampling.find_queued(row, run)
        return None if queued is None else (queued, run)

    def _read_labels(self) -> list[ReviewLabel]:
        with closing(ChainedFile(self._directory / LABELS_FILE, _KIND, is_writable=False)) as file:
            return [entry.label for entry in file.entries]

    def list(self, reviewer: str | None = None) -> ReviewQueue:
        """The queue; `reviewer`: only cases that still want a label of this person."""
        cases = [each for each in self.runs if reviewer is None or self._is_open(each, reviewer)]
        wanted = self._pilot.review.reviewers
        return ReviewQueue(
            pilot=self._pilot.id,
            sample_share=self._pilot.review.sample_share,
            cases=tuple(
                QueuedCase(
                    case=each.case,
                    task=each.task,
                    kinds=tuple(dict.fromkeys(reason.kind for reason in each.reasons)),
                    chance=each.chance,
                    labels=len(each.counted_labels),
                    wanted=wanted,
                )
                for each in cases
            ),
            open=sum(len(each.counted_labels) < wanted for each in cases),
            minutes=sum(label.minutes for each in self.runs for label in each.labels),
            kappa=self._compute_kappa(),
        )

    def _is_open(self, each: ReviewedRun, reviewer: str) -> bool:
        names = [label.reviewer for label in each.counted_labels]
        return reviewer not in names and len(names) < self._pilot.review.reviewers

    def _compute_kappa(self) -> float | NotComputable:
        from repotrial.stats import compute_kappa

        both = [each.counted_labels[:2] for each in self.runs if len(each.counted_labels) > 1]
        # The same person is on the same side of every pair, in whatever order the labels came.
        sides = [sorted(pair, key=lambda label: label.reviewer) for pair in both]
        return compute_kappa([(one.verdict, other.verdict) for one, other in sides])

    def show(self, case: str, *, with_verdict: bool = False) -> ReviewCase:
        """One case, blinded.

        Raises:
            LABEL_REFUSED: there is no such case.
        """
        queued, run = self._find(case)
        return ReviewCase.build(self._pilot, queued, run, with_verdict=with_verdict)

    def _find(self, case: str) -> tuple[ReviewedRun, JudgedRun]:
        found = self._judge(case) if case in self._rows else None
        if found is None:
            raise LABEL_REFUSED.error(f"expected a case of the queue, found {case!r}")
        labels = tuple(label for label in self._read_labels() if label.case == case)
        return msgspec.structs.replace(found[0], labels=labels), found[1]

    def write(self, given: GivenLabel, book: PriceBook) -> LabelWritten:
        """Add a label; an earlier one of the same person stays in the file and does not count any more.

        Raises:
            LABEL_REFUSED: the case, the failure mode, the reviewer or a text does not fit.
            LABELS_UNDER_WAY: another command writes.
        """
        queued, _ = self._find(given.case)
        self._verify(queued, given)
        fields = msgspec.structs.asdict(given)
        label = ReviewLabel(**fields, chance=queued.chance, at_us=SystemClock().now_us())
        with closing(ChainedFile(self._directory / LABELS_FILE, _KIND, is_writable=True)) as file:
            file.append(LabelEntry(seq=len(file.entries), previous=file.head, label=label))
            usd = self._book(book, file)
        vars(self).pop("runs", None)
        known = NotComputable(reason="the price book has no human:minute") if usd is None else usd
        return LabelWritten(label=label, human_usd=known)

    def _book(self, book: PriceBook, file: ChainedFile[LabelEntry]) -> Decimal | None:
        """Book every label; one whose writer was killed before booking it is booked now."""
        people = PeopleLedger(self._directory, self._pilot, book)
        usd = None
        for entry in file.entries:
            label = entry.label
            row = self._rows.get(label.case)
            task = None if row is None else row.task
            usd = people.book(f"label-{entry.seq}", label.minutes, task=task)
        return usd

    def _verify(self, queued: ReviewedRun, given: GivenLabel) -> None:
        if not given.reviewer.strip() or not given.reason.strip():
            raise LABEL_REFUSED.error("expected a reviewer and a reason, found an empty text")
        if given.minutes < 0:
            raise LABEL_REFUSED.error(f"minutes: expected 0 or more, found {given.minutes}")
        known = {mode.id for mode in load_taxonomy()}
        if given.failure_mode is not None and given.failure_mode not in known:
            raise LABEL_REFUSED.error(
                f"expected a failure mode of {', '.join(sorted(known))}, found {given.failure_mode!r}"
            )
        names = {label.reviewer for label in queued.counted_labels}
        wanted = self._pilot.review.reviewers
        if given.reviewer not in names and len(names) >= wanted:
            noun = "reviewer" if wanted == 1 else "reviewers"
            raise LABEL_REFUSED.error(
                f"{queued.case}: expected at most {wanted} {noun}, as registered, found another one"
            )
