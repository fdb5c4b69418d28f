"""Where the monitors of one sandbox report in (Q5)."""

from __future__ import annotations

from collections import Counter

from repotrial._core.clock import SystemClock
from repotrial._core.words import LifecyclePhase
from repotrial.trace import MonitorReport, MonitorState, TraceWriter, WatchedCommand


class MonitorDesk:
    """The report of the monitors of one sandbox; made before its first program."""

    def __init__(
        self,
        writer: TraceWriter,
        phase: LifecyclePhase,
        check_id: str | None,
        states: dict[str, str],
        commands: list[WatchedCommand],
    ) -> None:
        self._writer = writer
        self._phase = phase
        self._check_id = check_id
        self._states = states
        """By monitor: why it does not watch; empty if it does."""
        self._before: Counter[str] = writer.tally.copy()
        monitors = [MonitorState(monitor=name, watches=not why, reason=why) for name, why in states.items()]
        start = MonitorReport(moment="start", phase=phase, check_id=check_id, monitors=tuple(monitors))
        self._commands = commands
        """What ran meanwhile; the conductor adds to it."""
        self._started_us = SystemClock().now_us()
        self._begun = writer.append(start, actor="monitor").seq

    def end(self) -> None:
        """After the last program."""
        commands, self._commands[:] = tuple(self._commands), []
        monitors = [
            MonitorState(
                monitor=name,
                watches=not why,
                reason=why,
                alerts=self._writer.tally[name] - self._before[name],
            )
            for name, why in self._states.items()
        ]
        self._writer.append(
            MonitorReport(
                moment="end",
                phase=self._phase,
                check_id=self._check_id,
                begun=self._begun,
                started_at_us=self._started_us,
                ended_at_us=SystemClock().now_us(),
                commands=commands,
                monitors=tuple(monitors),
            ),
            actor="monitor",
        )
