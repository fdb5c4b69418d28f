"""A conducted pilot for analysis: from documents, journal and run directories alone, on any machine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.analysis import (
    ConductedPilot,
    LoadedPlan,
    Pilot,
    PlannedRow,
    Registration,
    RepeatsDecision,
    ReviewedRun,
)
from repotrial.conduct._asked import HeldLook, hold_look, iter_progress
from repotrial.conduct._freeze import compute_code_digest
from repotrial.conduct._frozen import load_documents
from repotrial.conduct._journal import JOURNAL_FILE, Journal
from repotrial.conduct._looks import is_asked, list_looks
from repotrial.conduct._record import PilotRecord
from repotrial.conduct._review import Review
from repotrial.signing import SigningKey

_LAST: Final = 3
_SCOPE: Final = (
    "a failure refutes that an arm can do a task; a success does not confirm that it can do others",
    "agents, models and packages change: figures are of the versions that ran, at the dates above",
)


PILOT_UNFINISHED = ErrorCode(
    "pilot-unfinished",
    UsageError,
    "A pilot is analyzed after its end: earlier looks would find differences that are not there.",
    hint="finish it with `repotrial pilot run`; `repotrial pilot status` shows a band at any time; in stage "
    "3, --look shows figures, spends alpha and is a deviation unless the moment is registered",
)


def load_conducted(directory: Path, look_key: Path | None = None) -> ConductedPilot:
    """Read a frozen pilot and what was conducted of it, on any machine.

    Args:
        directory: The pilot's.
        look_key: The private key that signs a look at a pilot that is under way; None: none is asked for.

    Raises:
        PILOT_NOT_FROZEN: there is no registration.
        PILOT_BROKEN: a document is not as it was frozen, or a run is not the one that was conducted.
        PILOT_INVALID: pilot.toml cannot be read.
        PILOT_UNFINISHED: planned runs are still to be conducted.
        JOURNAL_BROKEN: the journal does not hold.
        LABELS_BROKEN: what reviewers said does not hold.
        LOOK_REFUSED: it is too early for a look.
    """
    documents = load_documents(directory)
    look = None
    if look_key is not None and not documents.journal.has_ended:
        look = hold_look(directory, SigningKey.load(look_key))
        documents = load_documents(directory)
        look = None if documents.journal.has_ended else look  # the registered look ended the pilot
    conducted = _Conducted(directory, *documents, look)
    return conducted.build(Review(directory, documents).runs)


class _Conducted:
    def __init__(
        self, directory: Path, pilot: Pilot, record: PilotRecord, journal: Journal, look: HeldLook | None
    ) -> None:
        self._directory = directory
        self._pilot = pilot
        self._loaded = record.loaded
        self._registration: Registration = record.registration
        self._journal = journal
        self._counted = record.list_counted(journal)
        self._first_counted = record.first_counted
        self._stop = journal.find_last("stop")
        self._look = look

    def build(self, reviews: Sequence[ReviewedRun]) -> ConductedPilot:
        """As analysis takes it."""
        pilot, look, planned = self._pilot, self._look, self._list_rows()
        if look is None:
            self._verify_finished(planned)
        tasks = self._find_tasks(planned)
        rows = [row for row in planned if row.task in tasks]
        left = [row for row in planned if row.task not in tasks and look is None]
        reviews = [one for one in reviews if one.task in tasks]
        decision = pilot.decision
        return ConductedPilot.build(
            id=pilot.id,
            directory=self._directory,
            arms={arm.name: arm.role for arm in pilot.arms},
            idle_arm=next((arm.name for arm in pilot.arms if arm.agent == "noop"), None),
            contrasts=[
                (
                    one.name,
                    one.arm,
                    one.against,
                    self._find_family(one.name),
                    self._list_looks(one.name),
                    look is not None,
                )
                for one in pilot.contrasts
            ],
            family=len(pilot.contrasts),
            adjudication=pilot.adjudication,
            rule={
                "contrast": decision.contrast,
                "adopt_above": float(decision.adopt_above),
                "reject_below": float(decision.reject_below),
                "most_usd_per_success": float(decision.most_usd_per_success),
            },
            level=1 - float(pilot.level),
            planned=[*self._iter_planned(rows)],
            beside=[*self._iter_planned([row for row in left if row.run_id in self._counted])],
            never_started=sum(row.run_id not in self._counted for row in left),
            shown_apart=len(self._journal.conducted) - len(self._counted),
            prices=pilot.prices,
            documents=dict(self._iter_documents()),
            removed=self._registration.removed_tasks,
            deviations=[*self._iter_deviations()],
            scope=[*self._iter_scope()],
            reviews=reviews,
            under_way="" if look is None else look.message,
        )

    def _verify_finished(self, rows: Sequence[PlannedRow]) -> None:
        # Alpha is spent by looking: before the end, only the band of `pilot status` may be read.
        missing = sum(row.run_id not in self._counted for row in rows)
        if self._stop is None and (missing or self._journal.find_last("adaptation") is None):
            lines = "".join(f"\n  {line}" for line in iter_progress(self._directory))
            message = f"expected a pilot that has ended, found {missing} planned runs to conduct:{lines}"
            raise PILOT_UNFINISHED.error(f"{self._directory}: {message}")

    def _list_rows(self) -> list[PlannedRow]:
        """Planned runs in force: without removed tasks, in stage 3 up to the number of repeats decided."""
        entry = self._journal.find_last("adaptation")
        most = 0
        if entry is not None:
            most = msgspec.json.decode(entry.data["decision"], type=RepeatsDecision).repeats or 0
        return [
            row
            for row in self._loaded.rows
            if row.task not in self._registration.removed_tasks
            and (row.stage < _LAST or row.replicate < most)
        ]

    def _find_tasks(self, planned: Sequence[PlannedRow]) -> set[str]:
        """Those that estimates are of: after a stop, and at a look, the complete ones alone."""
        if self._look is not None:
            return set(self._look.tasks)
        tasks = {row.task for row in planned}
        if self._stop is None:
            return tasks
        # What the stop left undone was not planned any more: its tasks are in no rate (B13).
        return tasks - {row.task for row in planned if row.run_id not in self._counted}

    def _find_family(self, contrast: str) -> str:
        """After a stop for one contrast, the others only describe."""
        stop, own = self._stop, self._pilot.stopping.contrast
        is_decided = stop is not None and stop.data["message"].startswith(("efficacy:", "futility:"))
        return "exploratory" if is_decided and contrast != own else "primary"

    def _iter_planned(self, rows: Sequence[PlannedRow]) -> Iterator[dict[str, object]]:
        first = self._first_counted
        for row in rows:
            entry = self._counted.get(row.run_id)
            is_indeterminate = entry is None or "indeterminate" in entry.data
            name = None if entry is None or is_indeterminate else entry.directory
            again = self._journal.judged_again.get(row.run_id, [])
            yield {
                "task": row.task,
                "arm": row.arm,
                "repeat": row.replicate,
                "stratum": row.stratum,
                "directory": None if name is None else f"{LoadedPlan.RUNS}/{name}",
                "attempts": self._journal.count_attempts(row.run_id, since=first) + (entry is not None),
                "again": [f"{LoadedPlan.RUNS}/{one.directory}" for one in again],
                "adjudication_end": self._journal.adjudication_ends.get(row.run_id),
            }

    def _list_looks(self, contrast: str) -> list[float]:
        """Shares of information at which this contrast was looked at, the end included."""
        is_registered = contrast == self._pilot.stopping.contrast
        looks = [one for one in list_looks(self._journal) if is_registered or is_asked(one)]
        if not looks and not is_registered:
            return []
        fractions = sorted({float(one.data["fraction"]) for one in looks})
        is_last = (self._stop is not None or self._look is not None) and bool(fractions)
        return fractions if is_last or (fractions and fractions[-1] >= 1) else [*fractions, 1.0]

    def _iter_documents(self) -> Iterator[tuple[str, str]]:
        yield "pilot", Pilot.FILE
        for name in sorted(path.name for path in (self._directory / LoadedPlan.FOLDER).iterdir()):
            yield f"plan: {name}", f"{LoadedPlan.FOLDER}/{name}"
        for version in range(1, self._registration.version + 1):
            yield f"registration {version}", f"{Registration.FOLDER}/{version}.json"
        yield "journal", JOURNAL_FILE

    def _iter_deviations(self) -> Iterator[str]:
        yield from self._loaded.plan.deviations
        if self._registration.code_digest != compute_code_digest():
            yield "the code that analyzes is not the one that was registered"
        yield from (f"task removed: {task}: {why}" for task, why in self._registration.removed_tasks.items())
        yield from (f"stage 3 relaxes {one.field}: {one.justification}" for one in self._pilot.relaxations)
        yield from (one.data.get("message", "") for one in self._journal.entries if one.kind == "deviation")

    def _iter_scope(self) -> Iterator[str]:
        tasks = self._loaded.plan.tasks
        factors: dict[str, set[str]] = {}
        for task in tasks:
            for name, value in task.factors.items():
                factors.setdefault(name, set()).add(value)
        for name, values in sorted(factors.items()):
            yield f"{name}: {', '.join(sorted(values))}"
        times = [entry.at_us for entry in self._journal.entries if entry.kind == "conducted"]
        if times:
            days = [
                datetime.fromtimestamp(at / 1e6, UTC).date().isoformat() for at in (min(times), max(times))
            ]
            yield f"conducted from {days[0]} to {days[1]}"
        yield from _SCOPE
