"""The ceiling of a single command, derived again from the programs on record (P19).

The harness measures with a clock of its own, so that a command is missed only where the record shows it well
beyond its ceiling.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from repotrial.policy._breaker_facts import Decision
from repotrial.policy._breakers import Recomputed, RecomputedStatus
from repotrial.trace import (
    EndCommand,
    Event,
    Intervention,
    MonitorAlert,
    OnAlert,
    Pause,
    PhaseChanged,
    ProgramEnd,
    ProgramStart,
    Quarantine,
    Replaced,
    Signal,
    Terminate,
)

COMMANDS: Final = "commands"
"""The monitor that holds commands to their ceiling."""
_RULE: Final = "command-ceiling"
_SIGNAL: Final = "command_wall_us"
_EARLY_US: Final = 50_000
"""Between a start and the moment when the monitor heard of it."""
_LATE_US: Final = 30_000_000
"""A harness that waits for its turn is late."""


class _Command(msgspec.Struct, kw_only=True):
    seq: int
    started_at_us: int
    ended_at_us: int | None = None
    is_told: bool = False
    """Whether an alert is about it."""


def recompute_ceilings(events: Iterable[Event], ceiling_us: int) -> tuple[Recomputed, ...]:
    """Every command that the ceiling ends, and what the record has beyond them.

    Args:
        events: Of the whole trace.
        ceiling_us: What the contract and the caps of the run grant each command.
    """
    walk = _Walk(ceiling_us)
    for event in events:
        walk.take(event)
    return tuple(walk.build())


class _Walk:
    def __init__(self, ceiling_us: int) -> None:
        self._ceiling_us = ceiling_us
        self._commands: dict[int, _Command] = {}
        """By the number of its first program."""
        self._running: dict[int, int] = {}
        """By the program that a command is now: its number."""
        self._alerts: dict[int, tuple[MonitorAlert, int]] = {}
        self._ended: dict[int, int] = {}
        """By alert: the intervention that ended the command."""
        self._until_us: int | None = None
        """From then on no command is held to its ceiling: all are paused, or ended."""

    def take(self, event: Event) -> None:
        match event.payload:
            case ProgramStart(phase="act") as start if start.number == start.command:
                self._commands[start.number] = _Command(seq=event.seq, started_at_us=start.started_at_us)
                self._running[start.number] = start.number
            case ProgramEnd(number=number) as end if number in self._running:
                command = self._running.pop(number)
                if isinstance(end.exit, Replaced):
                    self._running[end.exit.by] = command
                else:
                    self._commands[command].ended_at_us = end.ended_at_us
            case MonitorAlert(monitor=monitor) as alert if monitor == COMMANDS:
                self._alerts[event.seq] = (alert, event.t)
            case Intervention(action=EndCommand(), basis=OnAlert(alert=basis)):
                self._ended[basis] = event.seq
            case Intervention(action=Pause() | Quarantine() | Terminate()) | PhaseChanged(phase="accept"):
                self._until_us = event.t if self._until_us is None else self._until_us
            case _:
                pass

    def build(self) -> list[Recomputed]:
        found = [self._judge(seq, alert, at_us) for seq, (alert, at_us) in self._alerts.items()]
        for command in self._commands.values():
            end_us = min(at for at in (command.ended_at_us, self._until_us, _NEVER) if at is not None)
            lasted_us = end_us - command.started_at_us
            if not command.is_told and end_us < _NEVER and lasted_us > self._ceiling_us + _LATE_US:
                decision = self._decide(command.seq, lasted_us)
                found.append(Recomputed(status="alert-missing", rule=_RULE, decision=decision))
        return found

    def _judge(self, seq: int, alert: MonitorAlert, at_us: int) -> Recomputed:
        command = next((each for each in self._commands.values() if each.seq in alert.evidence), None)
        wall = next((signal for signal in alert.signals if signal.name == _SIGNAL), None)
        is_due = wall is not None and wall.threshold == self._ceiling_us and _reaches(wall, self._ceiling_us)
        if command is not None:
            command.is_told = True
            is_due = is_due and at_us - command.started_at_us + _EARLY_US >= self._ceiling_us
        intervention = self._ended.get(seq)
        status: RecomputedStatus = "agrees" if is_due else "alert-extra"
        if is_due and intervention is None:
            status = "intervention-missing"
        decision = None
        if is_due and wall is not None and isinstance(wall.value, int):
            decision = self._decide(seq if command is None else command.seq, wall.value)
        return Recomputed(status=status, rule=_RULE, decision=decision, alert=seq, intervention=intervention)

    def _decide(self, seq: int, wall_us: int) -> Decision:
        signal = Signal(name=_SIGNAL, value=wall_us, threshold=self._ceiling_us)
        return Decision(rule=_RULE, severity="warning", signals=(signal,), evidence=(seq,), at=seq)


_NEVER: Final = 2**53


def _reaches(wall: Signal, ceiling_us: int) -> bool:
    return isinstance(wall.value, int) and wall.value >= ceiling_us
