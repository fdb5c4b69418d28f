"""Programs of one sandbox, as a witness puts them on record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from repotrial._core.words import LifecyclePhase
from repotrial.trace import Exited, ProgramEnd, ProgramStart, Replaced, WitnessReport
from repotrial.trace._payloads.programs import Sight

__all__ = ["ProgramEvent", "Programs", "build_witness"]

ProgramEvent: TypeAlias = ProgramStart | ProgramEnd


def build_witness(*, sees: bool = True) -> WitnessReport:
    """The report with which a witness begins; one that sees nothing says so."""
    sights = (Sight(subject="starts", means="seccomp-notify"),) if sees else ()
    return WitnessReport(moment="start", phase="act", sees=sights, blind=())


class Programs:
    """Starts and ends with their numbers; `add` puts an event on record and answers its place."""

    def __init__(
        self, add: Callable[[ProgramEvent], int], *, now: Callable[[], int], phase: LifecyclePhase = "act"
    ) -> None:
        self._add = add
        self._now = now
        self._phase: LifecyclePhase = phase
        self._starts: dict[int, ProgramStart] = {}
        self.places: dict[int, int] = {}
        """The event of each start."""

    def start(
        self,
        *argv: str,
        parent: int | None = 1,
        replaces: int | None = None,
        cwd: str = "/workspace",
        exe: str | None = None,
        at_us: int | None = None,
    ) -> int:
        """A program; the first one is the agent's own."""
        number = len(self._starts) + 1
        above = None if number == 1 or parent is None else self._starts[parent]
        command = None if above is None else above.command or number
        if replaces is not None:
            command = self._starts[replaces].command
        start = ProgramStart(
            witness=0,
            phase=self._phase,
            number=number,
            parent=None if above is None else above.number,
            replaces=replaces,
            command=command,
            argv=argv,
            path=argv[0],
            exe=exe,
            cwd=cwd,
            pid=1000 + number,
            started_at_us=self._now() if at_us is None else at_us,
            confirmed=True,
        )
        self._starts[number] = start
        self.places[number] = self._add(start)
        return number

    def end(self, number: int, code: int = 0, *, by: int | None = None, at_us: int | None = None) -> None:
        """Its end: with a code, or because another program took its place."""
        now = self._now() if at_us is None else at_us
        self._add(
            ProgramEnd(
                witness=0,
                number=number,
                exit=Exited(code=code) if by is None else Replaced(by=by),
                ended_at_us=now,
                wall_us=max(0, now - self._starts[number].started_at_us),
                cpu_us=100,
            )
        )
