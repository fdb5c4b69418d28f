"""What a page takes from the trace beside the verdict: phases, the briefing, what ran and what it printed."""

from __future__ import annotations

from itertools import islice
from typing import Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.errors import EvidenceError
from repotrial.trace import (
    AcceptanceExecution,
    BlobStore,
    Body,
    Briefing,
    BuildCheck,
    Enforced,
    Event,
    KeptStream,
    MonitorAlert,
    NotStarted,
    PhaseChanged,
    PrintingProgram,
    Response,
    RunPaths,
    StageTransition,
    StaticCheck,
    ToolInvocation,
    iter_events,
    iter_with_moot,
)

_MOST_LINES: Final = 40
_MOST_CHARACTERS: Final = 8 * 1024
_MOST_OF_ONE: Final = 4
_MOST: Final = 60
_CHARACTER_BYTES: Final = 4


class _StreamTail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of one stream."""

    name: str
    text: str
    note: str
    """How long the stream was, and what of it is not here."""
    lost: str | None
    """What the record refers to and the directory does not have; None if nothing is lost."""


class _ProgramTail(msgspec.Struct, frozen=True, kw_only=True):
    """The end of what one execution printed."""

    seq: int
    label: str
    ended: str
    streams: tuple[_StreamTail, ...]


class PrintedPage(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown of outputs."""

    programs: tuple[_ProgramTail, ...]
    """Of the agent, and of applying the change where that failed."""
    checks: dict[str, tuple[_ProgramTail, ...]]
    """Of executions that did not pass, by check."""
    left_out: dict[str, int]
    """So many more of a check are not shown."""


class PrintedTails:
    """Chooses executions while events stream by, with bounded memory."""

    def __init__(self, paths: RunPaths) -> None:
        self._paths = paths
        self._blobs = BlobStore(paths.blobs)
        self._kept: dict[tuple[str, bool], list[_ProgramTail]] = {}
        self._left_out: dict[str, int] = {}
        self._count = 0

    def take(self, event: Event, *, is_moot: bool) -> None:
        program = PrintingProgram.find(event)
        if program is None or program.is_passed or is_moot or isinstance(program.exit, NotStarted):
            return
        is_check = program.kind == "check"
        of_one = self._kept.setdefault((program.name, is_check), [])
        if len(of_one) >= _MOST_OF_ONE or self._count >= _MOST:
            if is_check:
                self._left_out[program.name] = self._left_out.get(program.name, 0) + 1
            return
        self._count += 1
        of_one.append(self._build(program))

    def _build(self, program: PrintingProgram) -> _ProgramTail:
        outputs = {"stdout": program.stdout, "stderr": program.stderr}
        return _ProgramTail(
            seq=program.seq,
            label=program.label,
            ended=program.ended,
            streams=tuple(
                self._cut(name, output.load(self._blobs))
                for name, output in outputs.items()
                if output is not None
            ),
        )

    def _cut(self, name: str, stream: KeptStream) -> _StreamTail:
        lines = stream.data.removesuffix(b"\n").split(b"\n")
        end = b"\n".join(lines[-_MOST_LINES:])[-_MOST_CHARACTERS * _CHARACTER_BYTES :]
        text = end.decode("utf-8", "backslashreplace")
        is_cut = len(lines) > _MOST_LINES or len(text) > _MOST_CHARACTERS
        # The same wherever the run directory lies.
        lost = None if stream.lost is None else stream.lost.replace(f"{self._paths.root}/", "")
        return _StreamTail(
            name=name, text=text[-_MOST_CHARACTERS:], note=_describe(stream, is_cut=is_cut), lost=lost
        )

    def build(self) -> PrintedPage:
        return PrintedPage(
            programs=tuple(
                tail for (_, is_check), tails in self._kept.items() if not is_check for tail in tails
            ),
            checks={name: tuple(tails) for (name, is_check), tails in self._kept.items() if is_check},
            left_out=self._left_out,
        )


def _describe(stream: KeptStream, *, is_cut: bool) -> str:
    if not stream.length_bytes:
        return "empty"
    printed = f"{stream.length_bytes} bytes"
    if not stream.data and not stream.is_whole:
        return f"{printed}, none of which are left"
    if not stream.is_whole:
        kept = f"{printed}, of which the first {len(stream.data)} are left"
        return f"{kept}; the end of those" if is_cut else kept
    return f"the end of {printed}" if is_cut else printed


MAX_BRIEFING_CHARACTERS = 40_000
_MAX_BRIEFING_BYTES = 4 * 1024 * 1024
_MAX_MARKS = 300
_MAX_POINTS = 20_000
_SAMPLED = ("t_us", "cpu_us", "memory_bytes")


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """Something that lasted, in microseconds since the first event."""

    name: str
    start_us: int
    end_us: int
    seq: int
    word: str = ""
    """How it ended."""


class ShownBriefing(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent was told."""

    seq: int
    text: str | Unknown
    left_out: int = 0
    """So many characters are not shown."""


class MeterReading(msgspec.Struct, frozen=True, kw_only=True):
    """One reading of the meters of the agent's sandbox."""

    t_us: int
    """Since acting began."""
    cpu_us: int
    """Processor time by then."""
    memory_bytes: int
    """Memory at that moment."""


class _SampleTable(msgspec.Struct, frozen=True, kw_only=True):
    columns: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """The verified part of a trace, as a page shows it."""

    total_us: int
    phases: tuple[Span, ...]
    executions: tuple[Span, ...]
    tools: tuple[Span, ...]
    calls: tuple[Span, ...]
    """Tools that a model asked for."""
    alerts: tuple[Span, ...]
    stages: tuple[Span, ...]
    """Of the agent's privileges, as they were enforced."""
    answers: tuple[Span, ...]
    """Of models, from the question on."""
    spend: tuple[tuple[int, float], ...]
    """Instants in microseconds, and the cost of models by then in dollars; empty if no answer states one."""
    samples: tuple[MeterReading, ...]
    """What the agent's sandbox used; empty if it was not metered."""
    memory_limit: int | None
    """The memory at which the agent's sandbox is ended; None if none is on record."""
    ceilings: dict[str, int]
    """The time that each check was allowed; absent where there was no ceiling."""
    briefing: ShownBriefing | Unknown
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
        self._printed = PrintedTails(paths)
        self._first_us: int | None = None
        self._last_us = 0
        self._entered: list[tuple[str, int, int]] = []
        self._executions: list[Span] = []
        self._tools: list[Span] = []
        self._calls: list[Span] = []
        self._alerts: list[Span] = []
        self._stages: list[tuple[str, int, int]] = []
        self._answers: list[Span] = []
        self._memory_limit: int | None = None
        self._spend: list[tuple[int, float]] = []
        self._samples: tuple[MeterReading, ...] = ()
        self._ceilings: dict[str, int] = {}
        self._briefing: ShownBriefing | Unknown = Unknown(reason="no briefing was recorded")

    def take(self, event: Event, *, is_moot: bool) -> None:
        self._first_us = event.t if self._first_us is None else self._first_us
        self._last_us = max(self._last_us, event.t)
        now = event.t - self._first_us
        self._printed.take(event, is_moot=is_moot)
        match event.payload:
            case PhaseChanged(phase=phase):
                self._entered.append((phase, now, event.seq))
            case StageTransition(status=Enforced(), after=stage):
                self._stages.append((stage, now, event.seq))
            case Response() as answer:
                self._take_answer(answer, now, event.seq)
            case Briefing(delivered=delivered):
                self._briefing = self._read_briefing(delivered, event.seq)
            case BuildCheck() | StaticCheck() | AcceptanceExecution() as check:
                self._take_check(check, event.seq)
            case ToolInvocation() as tool:
                start = tool.started_at_us - self._first_us
                span = Span(name=tool.tool, start_us=start, end_us=start + tool.wall_us, seq=event.seq)
                _keep(self._tools, span)
                if tool.source == "gateway":
                    _keep(self._calls, span)
            case MonitorAlert(monitor="resources", rule="samples", phase="act") as alert:
                self._samples = self._read_samples(alert)
            case MonitorAlert() as alert:
                _keep(self._alerts, Span(name=alert.rule, start_us=now, end_us=now, seq=event.seq))
            case _:
                pass

    def _read_samples(self, alert: MonitorAlert) -> tuple[MeterReading, ...]:
        """The meters' readings, as the harness wrote them; nothing if they are not there in this form."""
        limits = {signal.name: signal.threshold for signal in alert.signals}
        limit = limits.get("peak_memory_bytes")
        self._memory_limit = limit if isinstance(limit, int) else None
        if alert.segment is None:
            return ()
        try:
            table = msgspec.json.decode(alert.segment.body.load(self._blobs), type=_SampleTable)
            return tuple(
                MeterReading(**{name: row[table.columns.index(name)] for name in _SAMPLED})
                for row in table.rows
            )
        except (EvidenceError, msgspec.DecodeError, ValueError, IndexError):
            return ()

    def _take_answer(self, answer: Response, now: int, seq: int) -> None:
        waited = min(now, answer.wall_us or 0)
        _keep(self._answers, Span(name=answer.model, start_us=now - waited, end_us=now, seq=seq))
        if answer.cost_usd is not None:
            _add(self._spend, now, float(answer.cost_usd))

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

    def _read_briefing(self, body: Body, seq: int) -> ShownBriefing:
        if body.length_bytes > _MAX_BRIEFING_BYTES:
            unread = Unknown(reason=f"{body.length_bytes} bytes are too many to show")
            return ShownBriefing(seq=seq, text=unread)
        try:
            text = body.load(self._blobs).decode("utf-8", "replace")
        except EvidenceError as error:
            return ShownBriefing(seq=seq, text=Unknown(reason=error.code))
        shown = text[:MAX_BRIEFING_CHARACTERS]
        return ShownBriefing(seq=seq, text=shown, left_out=len(text) - len(shown))

    def build(self) -> Record:
        total = max(0, self._last_us - (self._first_us or 0))
        ends = [*(start for _, start, _ in self._entered[1:]), total]
        phases = tuple(
            Span(name=name, start_us=start, end_us=end, seq=seq)
            for (name, start, seq), end in zip(self._entered[:_MAX_MARKS], ends, strict=False)
        )
        acting = next((span for span in phases if span.name == "act"), None)
        last = total if acting is None else acting.end_us
        left = [*(start for _, start, _ in self._stages[1:]), last]
        stages = tuple(
            Span(name=name, start_us=start, end_us=max(start, end), seq=seq)
            for (name, start, seq), end in zip(self._stages[:_MAX_MARKS], left, strict=False)
        )
        return Record(
            total_us=total,
            stages=stages,
            answers=tuple(self._answers),
            spend=tuple(self._spend),
            samples=self._samples,
            memory_limit=self._memory_limit,
            phases=phases,
            executions=tuple(self._executions),
            tools=tuple(self._tools),
            calls=tuple(self._calls),
            alerts=tuple(self._alerts),
            ceilings=self._ceilings,
            briefing=self._briefing,
            printed=self._printed.build(),
        )


def _add(points: list[tuple[int, float]], now: int, amount: float) -> None:
    """The next point of a sum."""
    if len(points) < _MAX_POINTS:
        points.append((now, round((points[-1][1] if points else 0.0) + amount, 9)))


def _keep(spans: list[Span], span: Span) -> None:
    if len(spans) < _MAX_MARKS:
        spans.append(span)
