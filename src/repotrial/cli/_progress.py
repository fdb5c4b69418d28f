"""What a person or a program sees while runs are conducted, and what came of them."""

from __future__ import annotations

import contextlib
import shlex
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from repotrial import api
from repotrial._core.errors import ExitCode
from repotrial._core.words import Level
from repotrial.cli._output import (
    RUN_HEADER,
    UNANSWERED,
    Screen,
    ScreenPart,
    build_run_rows,
    counted,
    find_style,
    mark_gate,
    print_deviations,
    print_json_line,
    print_table,
)


class Tally:
    """Counts events, and says at the end what they come to."""

    def __init__(self, planned: Iterable[str] = ()) -> None:
        """The runs are listed in the order in which they were `planned`."""
        self._places = {run_id: place for place, run_id in enumerate(planned)}
        self._found: list[tuple[int, api.RunEntry]] = []
        self._faults = 0
        self._hints: dict[str, None] = {}
        self._undone = 0

    def count(self, event: api.TrialEvent) -> None:
        match event:
            case api.RunScored(entry=entry):
                self._found.append((self._places.get(event.run_id, len(self._places)), entry))
            case api.RunUnscored(hint=hint):
                self._count_fault(hint)
            case api.RunEnded(fault=fault, hint=hint, is_stopped=is_stopped):
                if fault is not None and not is_stopped:
                    self._count_fault(hint)
                self._undone += is_stopped
            case api.RunNotConducted(fault=fault, hint=hint):
                if fault is not None:
                    self._count_fault(hint)
                self._undone += fault is None
            case _:
                pass

    def _count_fault(self, hint: str) -> None:
        self._faults += 1
        if hint:
            self._hints[hint] = None

    def find_exit_code(self, *, is_success_expected: bool) -> int:
        if self._faults:
            return ExitCode.MACHINE_CANNOT
        # What no candidate caused is no result: the command did not do all that it was asked for.
        if any(entry.is_excused and not entry.is_stopped for entry in self._entries):
            return ExitCode.MACHINE_CANNOT
        has_failed = any(entry.status != "success" for entry in self._entries)
        return ExitCode.DOES_NOT_HOLD if is_success_expected and has_failed else ExitCode.DONE

    def report(self, screen: Screen, runs: Path, *, is_stopped: bool, json: bool) -> None:
        entries = self._entries
        words = Counter(entry.status for entry in entries)
        excused = Counter(entry.cause for entry in entries if entry.is_excused)
        invalid = Counter(entry.cause for entry in entries if entry.status == "invalid")
        if json:
            print_json_line(
                {
                    "event": "finished",
                    "statuses": dict(words),
                    "excused": dict(excused),
                    "invalid": dict(invalid),
                    "not_conducted": self._faults,
                    "left": self._undone,
                    "is_stopped": is_stopped,
                }
            )
            return
        if entries:
            print_table(screen, RUN_HEADER, build_run_rows(entries))
        listed = ", ".join(f"{number} {word}" for word, number in sorted(words.items())) or "no verdict"
        screen.line((f"{counted(len(entries), 'run')}: {listed}", "bold"))
        print_deviations(screen, entries)
        for name, causes in (("invalid", invalid), ("excused, to be repeated", excused)):
            if causes:
                listed = ", ".join(f"{cause} {number}" for cause, number in sorted(causes.items()))
                screen.line((f"{name}", "bold yellow"), f": {listed}")
        if self._faults:
            screen.line((f"{counted(self._faults, 'run')} could not be conducted", "bold yellow"))
            for hint in self._hints:
                screen.line(f"  fix: {hint}")
        if unanswered := sum(entry.is_unanswered for entry in entries):
            screen.line(
                (f"no model answered in {counted(unanswered, 'run')}", "bold yellow"), f": {UNANSWERED}"
            )
        if is_stopped:
            screen.line("stopped: everything recorded is kept; give the same command again to go on")
        elif entries:
            screen.line((f"next: {self._find_hint(runs)}", "dim"))

    @property
    def _entries(self) -> list[api.RunEntry]:
        """By contract, as planned; runs at the same time end in any order."""
        return [entry for _, entry in sorted(self._found, key=_find_place)]

    def _find_hint(self, runs: Path) -> str:
        other = next((entry for entry in self._entries if entry.status != "success"), None)
        if other is not None:
            return f"repotrial run show {shlex.quote(other.directory)}"
        return f"repotrial run summary {shlex.quote(str(runs))}"


def _find_place(found: tuple[int, api.RunEntry]) -> tuple[str, int, int]:
    place, entry = found
    return entry.contract or "", entry.replicate or 0, place


_TOLD_PHASES = ("act", "accept")


class _ProgressView(Protocol):
    """Takes every event as it happens."""

    def show(self, event: api.TrialEvent) -> None:
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
    def show(self, event: api.TrialEvent) -> None:
        print_json_line(event)


class _LineProgress:
    """A line for every step; the terminal's display prints only the ends this way."""

    def __init__(self, screen: Screen, *, total: int, has_steps: bool = True) -> None:
        self._screen = screen
        self._total = total
        self._over = 0
        self._has_steps = has_steps
        self._at_work: dict[str, _RunAtWork] = {}

    def show(self, event: api.TrialEvent) -> None:
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
            case _:
                self._show_aside(event)

    def _show_aside(self, event: api.TrialEvent) -> None:
        """What is no step of one run; of a run that was skipped, the verdict follows."""
        match event:
            case api.UpstreamChecked(upstream=upstream, model=model, status=status):
                word = "not asked before the first run" if status is None else f"answers for {model}"
                self._screen.line(f"{upstream}: {word}")
            case api.RunRepeated(cause=cause, directory=directory):
                self._end(event.run_id, ("repeated", "bold yellow"), f"{cause}: {directory} does not count")
            case _:
                pass

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

    def _end_for_good(self, run_id: str, *parts: ScreenPart) -> None:
        self._over += 1
        counted: list[ScreenPart] = [(f"({self._over} of {self._total})", "dim")] if self._total > 1 else []
        self._end(run_id, *parts, *counted)

    def _end(self, run_id: str, *parts: ScreenPart) -> None:
        run = self._at_work.get(run_id)
        elapsed, name = ("  before", run_id) if run is None else (run.elapsed, run.name)
        spaced = [piece for part in parts for piece in ("  ", part)]
        self._screen.line(f"{elapsed}  {name}", *spaced)

    def forget(self, event: api.TrialEvent) -> None:
        """Take what is over off the list of what is at work."""
        if isinstance(event, api.RunScored | api.RunUnscored | api.RunNotConducted):
            self._at_work.pop(event.run_id, None)

    def list_at_work(self) -> list[ScreenPart]:
        return [run.line for run in tuple(self._at_work.values())]


class _LiveProgress(_LineProgress):
    def __init__(self, screen: Screen, *, total: int) -> None:
        super().__init__(screen, total=total, has_steps=False)

    def show(self, event: api.TrialEvent) -> None:
        super().show(event)
        self.forget(event)


def _describe(entry: api.RunEntry) -> list[ScreenPart]:
    parts: list[ScreenPart] = [(entry.status, find_style(entry.status))]
    for number, outcome in enumerate(entry.gates, start=1):
        word, style = mark_gate(outcome)
        parts.append((f"G{number} {word}", style))
    return parts


@contextlib.contextmanager
def open_progress(screen: Screen, *, total: int, as_json: bool, has_person: bool) -> Iterator[_ProgressView]:
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


def tell_neighbors(jobs: int, level: Level | None, *, json: bool) -> None:
    """Say once by what runs side by side could still disturb each other on this machine."""
    shared = api.list_shared_by_runs(level) if jobs > 1 else ()
    if not shared:
        return
    if json:
        print_json_line({"event": "neighbors", "jobs": jobs, "shared": list(shared)})
        return
    Screen(to_stderr=True).line(
        ("note", "yellow"), f": with --jobs {jobs}, runs on this machine still share {'; '.join(shared)}"
    )


def tell_budgets(request: api.TrialRequest, screen: Screen, *, json: bool) -> None:
    """What is left of budgets that runs share, and how much of it is only assumed to be spent."""
    for envelope in api.read_budgets(request.models):
        if json:
            print_json_line({"event": "budget", "envelope": envelope})
            continue
        screen.line(f"budget {envelope.name}: {envelope.spent} of {envelope.limit} {envelope.unit} spent")
        if envelope.assumed != "0":
            text = f"  {envelope.assumed} of it assumed: requested by runs that ended without an answer"
            screen.line((text, "yellow"))
