"""A pilot from Python: its plan at any time; runs, rows and figures after its end (P29)."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from repotrial.analysis import Analysis, ConductedPilot
from repotrial.api._open_runs import RunRecord, RunRecords
from repotrial.api._pilot_analysis import analyze_conducted
from repotrial.conduct import FrozenDocuments, load_conducted, load_documents, verify_no_peek


class OpenedPilot:
    """One frozen pilot; its directory is read when something of it is asked for.

    Until its end it shows what was planned and how much of that was conducted. Whatever tells how an arm did
    is refused: earlier looks would find differences that are not there.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"OpenedPilot({str(self.directory)!r})"

    @cached_property
    def _documents(self) -> FrozenDocuments:
        return load_documents(self.directory)

    @cached_property
    def _conducted(self) -> ConductedPilot:
        verify_no_peek(self.directory)
        return load_conducted(self.directory)

    @property
    def id(self) -> str:
        """As `pilot.toml` has it."""
        return self._documents.pilot.id

    @property
    def arms(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(arm.name for arm in self._documents.pilot.arms)

    def planned(self) -> list[dict[str, Any]]:
        """One flat dictionary for each planned run, and whether it was conducted; never how it went."""
        record, journal = self._documents.record, self._documents.journal
        counted = record.list_counted(journal)
        return [
            {**msgspec.structs.asdict(row), "is_conducted": row.run_id in counted}
            for row in record.loaded.rows
            if row.task not in record.registration.removed_tasks
        ]

    @cached_property
    def runs(self) -> RunRecords:
        """The run that counts of each planned one, where there is one.

        Raises:
            PEEK_REFUSED: the pilot is under way.
        """
        return RunRecords(
            [
                RunRecord(self.directory / one.directory)
                for one in self._conducted.planned
                if one.directory is not None
            ]
        )

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each planned run: task, arm, repeat, stratum, attempts, the run's own row.

        A planned run without one has `status` `indeterminate`, and none of the other columns.

        Raises:
            PEEK_REFUSED: the pilot is under way.
        """
        found = []
        for one in self._conducted.planned:
            facts: dict[str, Any] = {
                "task": one.task,
                "arm": one.arm,
                "repeat": one.repeat,
                "stratum": one.stratum,
                "attempts": one.attempts,
            }
            if one.directory is None:
                found.append({**facts, "status": "indeterminate"})
            else:
                row = RunRecord(self.directory / one.directory).row
                found.append({**facts, **msgspec.structs.asdict(row)})
        return found

    @cached_property
    def analysis(self) -> Analysis:
        """Every figure of `pilot analyze`.

        Raises:
            PEEK_REFUSED: the pilot is under way.
        """
        verify_no_peek(self.directory)
        return analyze_conducted(self.directory)


def open_pilot(path: str | Path) -> OpenedPilot:
    """A frozen pilot; the plan is checked against its registration at once, the rest when it is asked for.

    Raises:
        PILOT_NOT_FROZEN: there is no registration.
        PILOT_BROKEN: a document is not as it was frozen, or a run is not the one that was conducted.
        PILOT_INVALID: pilot.toml cannot be read.
        JOURNAL_BROKEN: the journal does not hold.
    """
    opened = OpenedPilot(Path(path))
    _ = opened.id
    return opened
