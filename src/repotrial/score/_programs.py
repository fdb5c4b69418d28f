"""Programs that ran while the agent acted, as far as the policy of a contract speaks of them (C7, B6)."""

from __future__ import annotations

import msgspec

from repotrial.policy import find_outside_writes, is_resolution, list_program_names
from repotrial.trace import Event, ProgramsFolded, ProgramStart, RunOpened

_MAX_NAMES = 5000
_MAX_RESOLUTIONS = 1000
_MAX_WRITES = 1000
WRITES_COUNT = 2
"""From these rules of the policy on; runs that were opened under earlier ones keep their verdict."""


class RanProgram(msgspec.Struct, frozen=True, kw_only=True):
    """A program under its names, where it was first seen, and how often it ran."""

    names: tuple[str, ...]
    seq: int
    type: str
    count: int


class Resolution(msgspec.Struct, frozen=True, kw_only=True):
    """A program that resolved dependencies."""

    seq: int
    argv: tuple[str, ...]


class OutsideWrite(msgspec.Struct, frozen=True, kw_only=True):
    """A program that was told to write outside of the places that are the agent's (Q3)."""

    seq: int
    argv: tuple[str, ...]
    path: str


class ProgramFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of the programs below the agent's own."""

    programs: tuple[RanProgram, ...] = ()
    resolutions: tuple[Resolution, ...] = ()
    resolution_count: int = 0
    outside_writes: tuple[OutsideWrite, ...] = ()


class ProgramFold:
    """Takes events one by one.

    Args:
        places: What the contract gives to write in.
    """

    def __init__(self, places: tuple[str, ...]) -> None:
        self._places = places
        self._acting: set[int] = set()
        self._programs: dict[tuple[str, ...], RanProgram] = {}
        self._resolutions: list[Resolution] = []
        self._resolution_count = 0
        self._writes: list[OutsideWrite] = []
        self._counts_writes = False

    def take(self, event: Event) -> None:
        """Look at one event; programs that the harness started are not the agent's."""
        match event.payload:
            case RunOpened(policy_rules=rules):
                self._counts_writes = rules >= WRITES_COUNT
            case ProgramStart(phase="act") as program:
                self._acting.add(program.witness)
                if program.command is not None:
                    self._add(list_program_names(program.argv, program.exe, program.copies), event, 1)
                    self._take_resolution(program, event.seq)
                    self._take_writes(program, event.seq)
            case ProgramsFolded(witness=witness, groups=groups) if witness in self._acting:
                for group in groups:
                    if group.exe:
                        self._add(list_program_names((), group.exe), event, group.started)
            case _:
                return

    def facts(self) -> ProgramFacts:
        """What was seen."""
        return ProgramFacts(
            programs=tuple(self._programs.values()),
            resolutions=tuple(self._resolutions),
            resolution_count=self._resolution_count,
            outside_writes=tuple(self._writes),
        )

    def _add(self, names: tuple[str, ...], event: Event, count: int) -> None:
        known = self._programs.get(names)
        if known is not None:
            self._programs[names] = msgspec.structs.replace(known, count=known.count + count)
        elif names and len(self._programs) < _MAX_NAMES:
            self._programs[names] = RanProgram(names=names, seq=event.seq, type=event.type, count=count)

    def _take_resolution(self, program: ProgramStart, seq: int) -> None:
        # A wrapper, and the program that it becomes or starts, are one resolution: the innermost counts.
        if is_resolution(program.argv):
            self._resolution_count += program.replaces is None
            if len(self._resolutions) < _MAX_RESOLUTIONS:
                self._resolutions.append(Resolution(seq=seq, argv=program.argv))

    def _take_writes(self, program: ProgramStart, seq: int) -> None:
        if not self._counts_writes:
            return
        for path in find_outside_writes(program.argv, cwd=program.cwd, places=self._places):
            if len(self._writes) < _MAX_WRITES:
                self._writes.append(OutsideWrite(seq=seq, argv=program.argv, path=path))
