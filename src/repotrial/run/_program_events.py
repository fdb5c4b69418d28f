"""What programs in a sandbox did and printed, as the trace keeps it (P14, P18)."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Final

import msgspec

from repotrial._core.words import LifecyclePhase
from repotrial.isolation import (
    PROBED,
    CommandResult,
    ExecRecord,
    FloodRecord,
    NetworkRecord,
    ProhibitedRecord,
    StreamCapture,
    SyscallRecord,
)
from repotrial.run._context import BoundRun
from repotrial.trace import (
    Command,
    EventPayload,
    ExitUnknown,
    MonitorAlert,
    Output,
    Signal,
    ToolInvocation,
    TraceWriter,
)

_ALERTS_PER_RULE: Final = 200
_UNAVAILABLE: Final = "unavailable-call"
_STARTED: Final = ExitUnknown(reason="seen at its start")


_PREFIX_BYTES = 4 * 1024
_LOG_BYTES = 64 * 1024


class SyscallMonitor:
    """Turns what one sandbox's supervisor reports into events; safe to call from its thread.

    An agent can try refused calls without end: beyond a bound only their number is kept; `close` states it.
    """

    def __init__(self, writer: TraceWriter, *, phase: LifecyclePhase, since: int, has_programs: bool) -> None:
        self._writer = writer
        self._phase = phase
        self._since = since
        self._has_programs = has_programs
        self._lock = Lock()
        self._counts: Counter[str] = Counter()

    def __call__(self, record: SyscallRecord) -> None:
        match record:
            case ExecRecord():
                self._record_program(record)
            case NetworkRecord(address=address, call=call):
                self._alert("network-attempt", f"{call} {address}")
            case ProhibitedRecord(call=call, arguments=arguments):
                rule = _UNAVAILABLE if call in PROBED else "prohibited-call"
                self._alert(rule, f"{call}({', '.join(arguments)})")
            case FloodRecord(call=call, call_class=kind, count=count):
                if call in PROBED:
                    self._alert(_UNAVAILABLE, f"{call} {count} times")
                elif kind != "exec":
                    self._alert("call-flood", f"{call} {count} times")

    def close(self) -> None:
        """Say how many alerts there were beyond the bound."""
        with self._lock:
            for rule, count in sorted(self._counts.items()):
                if count > _ALERTS_PER_RULE:
                    signal = Signal(name="alerts", value=count, threshold=_ALERTS_PER_RULE)
                    self._append(rule, None, (signal,))

    def _alert(self, rule: str, text: str) -> None:
        with self._lock:
            self._counts[rule] += 1
            if self._counts[rule] <= _ALERTS_PER_RULE:
                self._append(rule, text, ())

    def _append(self, rule: str, text: str | None, signals: tuple[Signal, ...]) -> None:
        alert = MonitorAlert(
            monitor="system-calls",
            rule=rule,
            severity="info" if rule == _UNAVAILABLE else "warning",
            phase=self._phase,
            signals=signals,
        )
        self._writer.alert(alert, text, form="code", event=self._since)

    def _record_program(self, record: ExecRecord) -> None:
        if not self._has_programs:
            return
        arguments = msgspec.json.encode({"path": record.path, "argv": record.argv})
        self._writer.append(
            ToolInvocation(
                tool="execve",
                source="sandbox",
                arguments=self._writer.body(arguments, of=ToolInvocation),
                command=Command(argv=record.argv or (record.path or "?",), cwd=record.cwd),
                exit=_STARTED,
                started_at_us=record.at_us,
                wall_us=0,
            ),
            actor="agent",
        )


def build_output(writer: TraceWriter, stream: StreamCapture, *, of: type[EventPayload]) -> Output:
    """One stream: digest and length of all of it, its beginning in full; all of it where that is little."""
    is_whole = stream.length_bytes == len(stream.prefix)
    is_long = _PREFIX_BYTES < stream.length_bytes <= _LOG_BYTES
    return Output(
        digest=stream.digest,
        length_bytes=stream.length_bytes,
        prefix=writer.body(stream.prefix, of=of, prefix_bytes=_PREFIX_BYTES),
        log=writer.blob(stream.prefix, of=of) if is_whole and is_long else None,
    )


def record_program(
    run: BoundRun, argv: tuple[str, ...], result: CommandResult, *, started_at_us: int
) -> None:
    """The agent's own program as an event: what it was started with, how it ended, what it printed (P14)."""
    writer = run.writer
    writer.append(
        ToolInvocation(
            tool=run.plan.agent.name,
            source="sandbox",
            arguments=writer.body(msgspec.json.encode(argv), of=ToolInvocation),
            command=Command(argv=argv, cwd="."),
            exit=result.exit,
            started_at_us=started_at_us,
            wall_us=result.usage.wall_us,
            cpu_us=result.usage.cpu_us,
            stdout=build_output(writer, result.stdout, of=ToolInvocation),
            stderr=build_output(writer, result.stderr, of=ToolInvocation),
        ),
        actor="agent",
    )
