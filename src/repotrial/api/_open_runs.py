"""Runs from Python: typed, lazy records, and flat rows for any data-frame library."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, overload

import msgspec

from repotrial.analysis import RunRow, build_run_row
from repotrial.score import Cost, GateResult, JudgedRun, ScoreCard, find_run_directories, judge_run
from repotrial.trace import Event, Manifest, RunPaths, iter_events


class RunRecord:
    """One run directory; it is read and judged when something of it is asked for."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __repr__(self) -> str:
        return f"RunRecord({str(self.directory)!r})"

    @cached_property
    def _judged(self) -> JudgedRun:
        return judge_run(self.directory)

    @property
    def card(self) -> ScoreCard:
        """The verdict with all its evidence, computed anew; `score.json` is not read."""
        return self._judged.card

    @property
    def status(self) -> str:
        """success, failure, acceptance-error or invalid."""
        return self.row.status

    @property
    def gates(self) -> tuple[GateResult, ...]:
        """G1 to G4, each with its outcome and why."""
        return self.card.gates

    @property
    def cause(self) -> str:
        """What ended the run, in one word."""
        return self.row.ended

    @property
    def cost(self) -> Cost:
        """What it consumed; `Unknown` with a reason where no record states it."""
        return self.card.cost

    @property
    def manifest(self) -> Manifest | None:
        """What the run was bound to; None where it cannot be read."""
        found = self._judged.evidence.manifest
        return found if isinstance(found, Manifest) else None

    @cached_property
    def row(self) -> RunRow:
        """The run in one flat row."""
        return build_run_row(self._judged)

    def events(self) -> Iterator[Event]:
        """The events of its trace, one by one, as they are on record; a torn last line is left out.

        Raises:
            EvidenceError: the trace cannot be read.
        """
        return iter_events(RunPaths(self.directory).trace, allow_torn_tail=True)


class RunRecords(Sequence[RunRecord]):
    """Runs of a directory, by name."""

    def __init__(self, records: Sequence[RunRecord]) -> None:
        self._records = tuple(records)

    def __len__(self) -> int:
        return len(self._records)

    @overload
    def __getitem__(self, index: int) -> RunRecord: ...
    @overload
    def __getitem__(self, index: slice) -> RunRecords: ...
    def __getitem__(self, index: int | slice) -> RunRecord | RunRecords:
        if isinstance(index, slice):
            return RunRecords(self._records[index])
        return self._records[index]

    def rows(self) -> list[dict[str, Any]]:
        """One flat dictionary for each run, the same as `report build --format csv` writes."""
        return [msgspec.structs.asdict(record.row) for record in self._records]


def open_runs(path: str | Path) -> RunRecords:
    """The runs of a directory, or the run that it is; nothing is read until it is asked for.

    Raises:
        RUN_DIRECTORY_MISSING: it is no directory.
        NO_RUNS: there are none in it.
    """
    return RunRecords([RunRecord(run) for run in find_run_directories(Path(path))])
