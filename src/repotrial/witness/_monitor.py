"""What the supervisor of a sandbox reports, as events: programs and refused calls (P14, P18)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from threading import Lock
from typing import Final

from repotrial._core.words import LifecyclePhase
from repotrial.environment import ContractSandbox
from repotrial.policy import check_deed
from repotrial.syscalls import (
    PROBED,
    EndRecord,
    FloodRecord,
    NetworkRecord,
    ProhibitedRecord,
    StartRecord,
    SyscallRecord,
)
from repotrial.trace import MonitorAlert, Signal, TraceWriter
from repotrial.witness._ceiling import CommandCeiling
from repotrial.witness._findings import FindingLog
from repotrial.witness._log import ProgramLog

_ALERTS_PER_RULE: Final = 200
_UNAVAILABLE: Final = "unavailable-call"


class SyscallMonitor:
    """Turns what one sandbox's supervisor reports into events; safe to call from its thread.

    An agent can try refused calls without end: beyond a bound only their number is kept; `close` states it.
    """

    def __init__(
        self,
        writer: TraceWriter,
        *,
        phase: LifecyclePhase,
        since: int,
        ceiling_seconds: int | None = None,
    ) -> None:
        self._writer = writer
        self._phase = phase
        self._since = since
        self._programs = ProgramLog(writer, phase=phase)
        self._findings = FindingLog(writer, phase=phase)
        self._ceiling = (
            None
            if ceiling_seconds is None
            else CommandCeiling(writer, self._programs, ceiling_seconds=ceiling_seconds)
        )
        self._sandbox: ContractSandbox | None = None
        self._lock = Lock()
        self._counts: Counter[str] = Counter()

    def __call__(self, record: SyscallRecord) -> None:
        match record:
            case StartRecord():
                self._take_start(record)
            case EndRecord():
                self._take_end(record)
            case NetworkRecord(address=address, call=call):
                self._alert("network-attempt", f"{call} {address}")
            case ProhibitedRecord(call=call, arguments=arguments):
                rule = _UNAVAILABLE if call in PROBED else "prohibited-call"
                self._alert(rule, f"{call}({', '.join(arguments)})")
            case FloodRecord(call=call, count=count):
                self._alert(_UNAVAILABLE if call in PROBED else "call-flood", f"{call} {count} times")

    @contextmanager
    def watch(self, sandbox: ContractSandbox) -> Iterator[None]:
        """Witness the programs of a sandbox, and hold its commands to their ceiling; until `close`."""
        self._sandbox = sandbox
        self._programs.begin(sandbox.witness)
        with nullcontext() if self._ceiling is None else self._ceiling.watch(sandbox):
            yield

    def close(self) -> None:
        """Say what was counted, and how many alerts there were beyond the bound."""
        if self._sandbox is not None:
            self._programs.close(self._sandbox.witness)
        with self._lock:
            for rule, count in sorted(self._counts.items()):
                if count > _ALERTS_PER_RULE:
                    signal = Signal(name="alerts", value=count, threshold=_ALERTS_PER_RULE)
                    self._append(rule, None, (signal,))

    def _take_start(self, record: StartRecord) -> None:
        event = self._programs.take_start(record)
        if event is not None:
            # P18: at the moment of the deed, so that a breaker can set the workspace aside.
            for finding in check_deed(record.argv, cwd=record.cwd, exe=(*record.copies, record.exe)[0]):
                # What is only suspicious was put to a person as text; the verdict reads it from the programs.
                if finding.finding_class == "prohibited":
                    self._findings.record(finding, event)
        if self._ceiling is not None:
            self._ceiling.take_start(record, event)

    def _take_end(self, record: EndRecord) -> None:
        self._programs.take_end(record)
        if self._ceiling is not None:
            self._ceiling.take_end(record)

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
