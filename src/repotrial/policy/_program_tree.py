"""Programs of a run as a tree, from what the witness put on record."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from repotrial.shell import Purpose, find_purpose, load_programs
from repotrial.trace import (
    Event,
    Exited,
    ExitStatus,
    ExitUnknown,
    FoldedPrograms,
    ProgramEnd,
    ProgramsFolded,
    ProgramStart,
    Replaced,
    WitnessReport,
)

_UNSEEN: Final = ExitUnknown(reason="its end was not seen")
_MOST_STEPS: Final = 10_000


class Program(msgspec.Struct, kw_only=True, eq=False):
    """A program that started, and what became of it."""

    seq: int
    """The event of its start."""
    start: ProgramStart
    above: Program | None
    """What started it, or what it replaced; None for the first."""
    end: ProgramEnd | None = None
    """None while it runs, and where its end was not seen."""
    below: list[Program] = []
    """What it started, and what replaced it, in order."""
    purpose: Purpose | None = None

    @property
    def last(self) -> Program:
        """The program that its process was in the end."""
        program = self
        for _ in range(_MOST_STEPS):
            if program.end is None or not isinstance(program.end.exit, Replaced):
                break
            by = program.end.exit.by
            following = next((each for each in program.below if each.start.number == by), None)
            if following is None:
                break
            program = following
        return program

    @property
    def exit(self) -> ExitStatus:
        """How its process ended."""
        end = self.last.end
        return _UNSEEN if end is None or isinstance(end.exit, Replaced) else end.exit

    @property
    def ended_at_us(self) -> int | None:
        """When its process ended; None where that was not seen."""
        end = self.last.end
        return None if end is None or isinstance(end.exit, Replaced) else end.ended_at_us

    @property
    def has_failed(self) -> bool | None:
        """Whether its process ended otherwise than with 0; None where that is not known."""
        status = self.exit
        if isinstance(status, ExitUnknown):
            return None
        return not (isinstance(status, Exited) and status.code == 0)

    @property
    def is_key(self) -> bool:
        """Whether it is a test run, a build or a check of the agent's that belongs to no other.

        Tests belong to no test run; builds and checks are started by nothing but shells.
        """
        above = self.above
        for _ in range(_MOST_STEPS):
            if self.purpose is None or above is None or above.purpose in {"test", self.purpose}:
                return self.purpose is not None and above is None
            if self.purpose != "test" and above.start.command is not None and not above.is_starter:
                return False
            above = above.above
        return False

    @property
    def is_starter(self) -> bool:
        """Whether it is a shell, or a program that only starts another one."""
        name = self.start.argv[0].rpartition("/")[2] if self.start.argv else ""
        return name in load_programs().names.shells or name in load_programs().wrappers

    def iter_before(self) -> Iterator[Program]:
        """What its process was before, and it itself last to first."""
        program: Program | None = self
        while program is not None:
            yield program
            program = program.above if program.start.replaces is not None else None

    def walk(self) -> Iterator[Program]:
        """It and all programs below it, those above first."""
        waiting = [self]
        while waiting:
            program = waiting.pop()
            yield program
            waiting.extend(reversed(program.below))


class ProgramTree:
    """Follows the events of a run, one at a time."""

    def __init__(self) -> None:
        self._by_number: dict[tuple[int, int], Program] = {}
        self.programs: list[Program] = []
        """All of them, in the order in which they were put on record."""
        self.folded: list[FoldedPrograms] = []
        """Those beyond the bound, counted."""
        self.reports: list[WitnessReport] = []
        """What witnesses see and do not see."""

    @property
    def has_witness(self) -> bool:
        """Whether program starts were watched for at all."""
        return any(sight.subject == "starts" for report in self.reports for sight in report.sees)

    def take(self, event: Event) -> Program | None:
        """Follow one event; the program that started or ended with it."""
        match event.payload:
            case ProgramStart() as start:
                return self._start(start, event.seq)
            case ProgramEnd(witness=witness, number=number) as end:
                program = self._by_number.get((witness, number))
                if program is not None:
                    program.end = end
                return program
            case ProgramsFolded(groups=groups):
                self.folded += groups
            case WitnessReport() as report:
                self.reports.append(report)
            case _:
                pass
        return None

    def _start(self, start: ProgramStart, seq: int) -> Program:
        number = start.replaces if start.replaces is not None else start.parent
        above = None if number is None else self._by_number.get((start.witness, number))
        purpose = find_purpose(start.argv) if start.phase == "act" else None
        program = Program(seq=seq, start=start, above=above, below=[], purpose=purpose)
        if above is not None:
            above.below.append(program)
        self._by_number[start.witness, start.number] = program
        self.programs.append(program)
        return program

    def list_roots(self) -> list[Program]:
        """Programs that the harness started."""
        return [program for program in self.programs if program.above is None]

    def list_key_programs(self) -> list[Program]:
        """Tests, builds and checks that the agent ran; what belongs to one of them is part of it."""
        return [program for program in self.programs if program.is_key]
