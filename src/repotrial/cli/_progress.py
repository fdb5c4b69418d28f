"""What a person or a program sees while runs are conducted."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from repotrial.api import RunEntry, TrialEvent
    from repotrial.cli._output import Part, Screen

_TOLD_PHASES = ("act", "accept")


class Progress(Protocol):
    """Takes every event as it happens."""

    def show(self, event: TrialEvent) -> None:
        """Something happened."""
        ...


@dataclass
class _RunAtWork:
    name: str
    started: float = field(default_factory=time.monotonic)
    phase: str = "bind"
    checks: dict[str, str] = field(default_factory=dict)

    @property
    def elapsed(self) -> str:
        return f"{time.monotonic() - self.started:7.1f}s"

    @property
    def line(self) -> str:
        checks = ", ".join(f"{name} {outcome}" for name, outcome in self.checks.items())
        return f"{self.elapsed}  {self.phase:<7}  {self.name}  {checks}"


class _JsonProgress:
    def show(self, event: TrialEvent) -> None:
        from repotrial.cli._output import print_json_line

        print_json_line(event)


class _LineProgress:
    """A line for every step; the terminal's display prints only the ends this way."""

    def __init__(self, screen: Screen, *, total: int, has_steps: bool = True) -> None:
        self._screen = screen
        self._total = total
        self._over = 0
        self._has_steps = has_steps
        self._at_work: dict[str, _RunAtWork] = {}

    def show(self, event: TrialEvent) -> None:
        from repotrial import api

        match event:
            case api.RunStarted():
                run = _RunAtWork(f"{event.contract}  {event.agent} #{event.replicate}")
                self._at_work[event.run_id] = run
                self._step(run, "started")
            case api.RunPhase():
                self._go_on(self._at_work[event.run_id], event.phase, event.checks)
            case api.RunEnded(fault=fault):
                if fault is not None:
                    self._end(event.run_id, ("broke off", "bold yellow"), fault)
            case api.RunNotConducted(fault=fault):
                if fault is not None:
                    self._end_for_good(event.run_id, ("not conducted", "bold yellow"), fault)
            case api.RunScored(entry=entry):
                self._end_for_good(event.run_id, *_describe(entry))
            case api.RunUnscored(fault=fault):
                self._end_for_good(event.run_id, ("not judged", "bold yellow"), fault)
            case api.RunSkipped():
                pass  # its verdict follows

    def _go_on(self, run: _RunAtWork, phase: str, checks: dict[str, str]) -> None:
        if phase != run.phase and phase in _TOLD_PHASES:
            self._step(run, phase)
        for check, outcome in checks.items():
            if run.checks.get(check) != outcome:
                self._step(run, f"{check} {outcome}")
        run.phase, run.checks = phase, checks

    def _step(self, run: _RunAtWork, what: str) -> None:
        if self._has_steps:
            self._screen.line(f"{run.elapsed}  {run.name}  {what}")

    def _end_for_good(self, run_id: str, *parts: Part) -> None:
        self._over += 1
        counted: list[Part] = [(f"({self._over} of {self._total})", "dim")] if self._total > 1 else []
        self._end(run_id, *parts, *counted)

    def _end(self, run_id: str, *parts: Part) -> None:
        run = self._at_work.get(run_id)
        elapsed, name = ("  before", run_id) if run is None else (run.elapsed, run.name)
        spaced = [piece for part in parts for piece in ("  ", part)]
        self._screen.line(f"{elapsed}  {name}", *spaced)

    def forget(self, event: TrialEvent) -> None:
        """Take what is over off the list of what is at work."""
        from repotrial import api

        if isinstance(event, api.RunScored | api.RunUnscored | api.RunNotConducted):
            self._at_work.pop(event.run_id, None)

    def list_at_work(self) -> list[Part]:
        return [run.line for run in tuple(self._at_work.values())]


class _LiveProgress(_LineProgress):
    def __init__(self, screen: Screen, *, total: int) -> None:
        super().__init__(screen, total=total, has_steps=False)

    def show(self, event: TrialEvent) -> None:
        super().show(event)
        self.forget(event)


def _describe(entry: RunEntry) -> list[Part]:
    from repotrial.cli._table import find_style, mark_gate

    parts: list[Part] = [(entry.status, find_style(entry.status))]
    for number, outcome in enumerate(entry.gates, start=1):
        word, style = mark_gate(outcome)
        parts.append((f"G{number} {word}", style))
    return parts


@contextlib.contextmanager
def open_progress(screen: Screen, *, total: int, as_json: bool, has_person: bool) -> Iterator[Progress]:
    """JSON lines for programs, a display that moves for terminals, lines for everything else.

    The ends of runs are counted against `total`.
    """
    if as_json:
        yield _JsonProgress()
    elif screen.is_terminal and not has_person:
        progress = _LiveProgress(screen, total=total)
        with screen.live(progress.list_at_work):
            yield progress
    else:
        yield _LineProgress(screen, total=total)
