"""The timeline as a page shows it: a strip of phases, and as many events as a person may scroll through."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.report._record import Record, Span
from repotrial.trace import Marker, RunPaths, TimelineRow, iter_timeline

_FIRST = 150
_LAST = 150
_MARKED = 300
_STRIP_UNITS = 10_000
_LEAST_UNITS = 25


class TimelineEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One event, and how many before it are not shown."""

    row: TimelineRow
    left_out_before: int
    is_verified: bool


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """The events that are shown."""

    entries: tuple[TimelineEntry, ...]
    shown: frozenset[int]
    """Events that a link can lead to."""
    total: int
    problem: str | None
    """What ended the reading; None if nothing did."""

    @property
    def left_out(self) -> int:
        return self.total - len(self.entries)


def build_timeline(paths: RunPaths, *, cited: Collection[int], verified_count: int) -> Timeline:
    """The first and the last events, those that stand out, and those that a verdict cites."""
    selection = _RowSelection(cited)
    problem = None
    try:
        for row in iter_timeline(paths):
            selection.take(row)
    except EvidenceError as error:
        problem = error.message.replace(f"{paths.root}/", "")
    rows = selection.rows
    entries = []
    expected = 0
    for row in rows:
        entries.append(
            TimelineEntry(row=row, left_out_before=row.seq - expected, is_verified=row.seq < verified_count)
        )
        expected = row.seq + 1
    return Timeline(
        entries=tuple(entries),
        shown=frozenset(row.seq for row in rows),
        total=selection.total,
        problem=problem,
    )


class _RowSelection:
    """Chooses rows while they stream by, with bounded memory."""

    def __init__(self, cited: Collection[int]) -> None:
        self._cited = cited
        self._kept: list[TimelineRow] = []
        self._last: deque[TimelineRow] = deque(maxlen=_LAST)
        self._marked = 0
        self.total = 0

    def take(self, row: TimelineRow) -> None:
        self.total += 1
        is_marked = row.marker is not Marker.PLAIN or row.type == "phase-changed"
        if row.seq < _FIRST or row.seq in self._cited:
            self._kept.append(row)
        elif is_marked and self._marked < _MARKED:
            self._marked += 1
            self._kept.append(row)
        else:
            self._last.append(row)

    @property
    def rows(self) -> list[TimelineRow]:
        return sorted([*self._kept, *self._last], key=lambda row: row.seq)


class _Bar(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of the strip, in units of its width."""

    span: Span
    x: int
    width: int


class _Strip(msgspec.Struct, frozen=True, kw_only=True):
    """Time from left to right: phases, what ran in them, and alerts."""

    units: int
    phases: tuple[_Bar, ...]
    tools: tuple[_Bar, ...]
    executions: tuple[_Bar, ...]
    alerts: tuple[_Bar, ...]


def build_strip(record: Record) -> _Strip:
    """Spans as bars; the instants in them are the harness's, and bounded here all the same."""
    return _Strip(
        units=_STRIP_UNITS,
        phases=_build_bars(record.phases, record.total_us),
        tools=_build_bars(record.tools, record.total_us),
        executions=_build_bars(record.executions, record.total_us),
        alerts=_build_bars(record.alerts, record.total_us),
    )


def _build_bars(spans: Iterable[Span], total_us: int) -> tuple[_Bar, ...]:
    bars = []
    for span in spans:
        start, end = (_place(instant, total_us) for instant in (span.start_us, span.end_us))
        width = max(_LEAST_UNITS, end - start)
        bars.append(_Bar(span=span, x=min(start, _STRIP_UNITS - width), width=width))
    return tuple(bars)


def _place(instant_us: int, total_us: int) -> int:
    bounded = min(max(0, instant_us), total_us)
    return bounded * _STRIP_UNITS // max(1, total_us)
