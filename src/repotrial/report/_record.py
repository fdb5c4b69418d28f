"""What a page takes from the trace beside the verdict: phases, the briefing, when what ran."""

from __future__ import annotations

from itertools import islice

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.errors import EvidenceError
from repotrial.report._printed import PrintedKeeper, PrintedPage
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    Body,
    Briefing,
    BuildCheck,
    Event,
    MonitorAlert,
    PhaseChanged,
    RunPaths,
    StaticCheck,
    ToolInvocation,
    iter_events,
    iter_with_moot,
)

MAX_BRIEFING_CHARACTERS = 40_000
_MAX_BRIEFING_BYTES = 4 * 1024 * 1024
_MAX_MARKS = 300


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that lasted, in microseconds since the first event."""

    name: str
    start_us: int
    end_us: int
    seq: int
    word: str = ""
    """How it ended."""


class BriefingText(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent was told."""

    seq: int
    text: str | Unknown
    left_out: int = 0
    """So many characters are not shown."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The verified part of a trace, as a page shows it."""

    total_us: int
    phases: tuple[Span, ...]
    executions: tuple[Span, ...]
    tools: tuple[Span, ...]
    alerts: tuple[Span, ...]
    ceilings: dict[str, int]
    """The time that each check was allowed; absent where there was no ceiling."""
    briefing: BriefingText | Unknown
    printed: PrintedPage
    """What programs printed."""


def read_record(paths: RunPaths, *, verified_count: int) -> Record:
    """Walk the verified events once; what cannot be read ends the walk, and the verdict says why."""
    walk = _Walk(paths)
    try:
        verified = islice(iter_events(paths.trace, allow_torn_tail=True), verified_count)
        for event, is_moot in iter_with_moot(verified):
            walk.take(event, is_moot=is_moot)
    except EvidenceError:
        pass  # the status names it: the run is invalid
    return walk.build()


class _Walk:
    def __init__(self, paths: RunPaths) -> None:
        self._blobs = BlobStore(paths.blobs)
        self._printed = PrintedKeeper(paths)
        self._first_us: int | None = None
        self._last_us = 0
        self._entered: list[tuple[str, int, int]] = []
        self._executions: list[Span] = []
        self._tools: list[Span] = []
        self._alerts: list[Span] = []
        self._ceilings: dict[str, int] = {}
        self._briefing: BriefingText | Unknown = Unknown(reason="no briefing was recorded")

    def take(self, event: Event, *, is_moot: bool) -> None:
        self._first_us = event.t if self._first_us is None else self._first_us
        self._last_us = max(self._last_us, event.t)
        now = event.t - self._first_us
        self._printed.take(event, is_moot=is_moot)
        match event.payload:
            case PhaseChanged(phase=phase):
                self._entered.append((phase, now, event.seq))
            case Briefing(delivered=delivered):
                self._briefing = self._read_briefing(delivered, event.seq)
            case BuildCheck() | StaticCheck() | AcceptanceExecution() as check:
                self._take_check(check, event.seq)
            case ToolInvocation() as tool:
                start = tool.started_at_us - self._first_us
                span = Span(name=tool.tool, start_us=start, end_us=start + tool.wall_us, seq=event.seq)
                _keep(self._tools, span)
            case MonitorAlert() as alert:
                _keep(self._alerts, Span(name=alert.rule, start_us=now, end_us=now, seq=event.seq))
            case _:
                pass

    def _take_check(self, check: BuildCheck | StaticCheck | AcceptanceExecution, seq: int) -> None:
        if check.ceiling_us is not None:
            most = max(check.ceiling_us, self._ceilings.get(check.check_id, 0))
            self._ceilings[check.check_id] = most
        first = self._first_us or 0
        is_doubt = isinstance(check, AcceptanceExecution) and check.variant == "twins"
        span = Span(
            name=f"{check.check_id}, twin run" if is_doubt else check.check_id,
            start_us=check.started_at_us - first,
            end_us=check.ended_at_us - first,
            seq=seq,
            word=str(check.outcome.__struct_config__.tag),
        )
        _keep(self._executions, span)

    def _read_briefing(self, body: Body, seq: int) -> BriefingText:
        if body.length_bytes > _MAX_BRIEFING_BYTES:
            unread = Unknown(reason=f"{body.length_bytes} bytes are too many to show")
            return BriefingText(seq=seq, text=unread)
        try:
            text = body.load(self._blobs).decode("utf-8", "replace")
        except EvidenceError as error:
            return BriefingText(seq=seq, text=Unknown(reason=error.code))
        shown = text[:MAX_BRIEFING_CHARACTERS]
        return BriefingText(seq=seq, text=shown, left_out=len(text) - len(shown))

    def build(self) -> Record:
        total = max(0, self._last_us - (self._first_us or 0))
        ends = [*(start for _, start, _ in self._entered[1:]), total]
        phases = tuple(
            Span(name=name, start_us=start, end_us=end, seq=seq)
            for (name, start, seq), end in zip(self._entered[:_MAX_MARKS], ends, strict=False)
        )
        return Record(
            total_us=total,
            phases=phases,
            executions=tuple(self._executions),
            tools=tuple(self._tools),
            alerts=tuple(self._alerts),
            ceilings=self._ceilings,
            briefing=self._briefing,
            printed=self._printed.build(),
        )


def _keep(spans: list[Span], span: Span) -> None:
    if len(spans) < _MAX_MARKS:
        spans.append(span)
