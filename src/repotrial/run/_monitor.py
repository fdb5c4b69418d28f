"""What the supervisor sees, as events (P18): refused calls are alerts, programs are invocations.

A call that ordinary runtimes try and do without is refused like the others, but is only remarked upon.
"""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Final

import msgspec

from repotrial._core.words import LifecyclePhase
from repotrial.isolation import (
    PROBED,
    ExecRecord,
    FloodRecord,
    NetworkRecord,
    ProhibitedRecord,
    SyscallRecord,
)
from repotrial.trace import Command, ExitUnknown, MonitorAlert, Signal, ToolInvocation, TraceWriter

_ALERTS_PER_RULE: Final = 200
_UNAVAILABLE: Final = "unavailable-call"
_STARTED: Final = ExitUnknown(reason="seen at its start")


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
