"""What the record of a witness must hold (P15): each start and end that it counted, and its own reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from repotrial._core.words import LifecyclePhase
from repotrial.trace._event import Event
from repotrial.trace._payloads.common import TimedOut
from repotrial.trace._payloads.course import EndCommand, Intervention
from repotrial.trace._payloads.programs import (
    ProgramEnd,
    ProgramsFolded,
    ProgramStart,
    WitnessCounts,
    WitnessReport,
)


class ProgramDemands:
    """Adds up what witnesses told, and holds it against what they counted."""

    def __init__(self) -> None:
        self._told: dict[int, Counter[str]] = {}
        """By the report with which a witness began."""
        self._commands: dict[tuple[int, int], int | None] = {}
        self._timed_out: set[int] = set()
        self._ended: set[int | None] = set()
        self.reports: Counter[LifecyclePhase] = Counter()
        """Witnesses that reported at their end."""

    def take(self, event: Event) -> Iterator[str]:
        """One event; what it shows to be missing before it."""
        match event.payload:
            case WitnessReport(moment="start"):
                self._told[event.seq] = Counter()
            case WitnessReport(witness=witness, counts=WitnessCounts() as counts, phase=phase):
                self.reports[phase] += 1
                yield from self._compare(witness, counts)
            case ProgramStart(witness=witness, number=number, command=command):
                self._count(witness, event.type, 1)
                self._commands[witness, number] = command
            case ProgramEnd(witness=witness, number=number) as end:
                self._count(witness, event.type, 1)
                command = self._commands.pop((witness, number), None)
                if isinstance(end.exit, TimedOut) and command is not None:
                    self._timed_out.add(command)
            case ProgramsFolded(witness=witness, groups=groups):
                self._count(witness, event.type, sum(group.started for group in groups))
            case Intervention(action=EndCommand(command=command)):
                self._ended.add(command)
            case _:
                return

    def iter_missing(self, *, is_truncated: bool) -> Iterator[str]:
        """What the whole of it lacks."""
        for command in sorted(self._timed_out - self._ended) if not is_truncated else ():
            yield f"expected an intervention that ended command {command} at its ceiling, found none"

    def _count(self, witness: int, kind: str, count: int) -> None:
        if witness in self._told:
            self._told[witness][kind] += count

    def _compare(self, witness: int | None, counts: WitnessCounts) -> Iterator[str]:
        told = None if witness is None else self._told.pop(witness, None)
        if told is None:
            yield "expected witness-report at the start of what a witness reports the end of, found none"
            return
        for kind, expected in (
            (ProgramStart.event_type, counts.told),
            (ProgramEnd.event_type, counts.told_ends),
            (ProgramsFolded.event_type, counts.folded),
        ):
            if expected is not None and told[kind] != expected:
                yield f"expected {kind} of {expected} program(s), as the witness counted, found {told[kind]}"
