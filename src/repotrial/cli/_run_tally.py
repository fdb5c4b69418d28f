"""What came of all runs of one command."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from repotrial._core.errors import ExitCode

if TYPE_CHECKING:
    from repotrial.api import RunEntry, TrialEvent
    from repotrial.cli._output import Screen


class Tally:
    """Counts events, and says at the end what they come to."""

    def __init__(self, planned: Iterable[str] = ()) -> None:
        """The runs are listed in the order in which they were `planned`."""
        self._places = {run_id: place for place, run_id in enumerate(planned)}
        self._found: list[tuple[int, RunEntry]] = []
        self._faults = 0
        self._hints: dict[str, None] = {}
        self._undone = 0

    def count(self, event: TrialEvent) -> None:
        from repotrial import api

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
        has_failed = any(entry.status != "success" for entry in self._entries)
        return ExitCode.DOES_NOT_HOLD if is_success_expected and has_failed else ExitCode.DONE

    def report(self, screen: Screen, runs: Path, *, is_stopped: bool, json: bool) -> None:
        from repotrial.cli._output import counted, print_json_line
        from repotrial.cli._table import RUN_HEADER, UNANSWERED, build_run_rows, print_table

        entries = self._entries
        words = Counter(entry.status for entry in entries)
        if json:
            print_json_line(
                {
                    "event": "finished",
                    "statuses": dict(words),
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
    def _entries(self) -> list[RunEntry]:
        """By contract, as planned; runs at the same time end in any order."""
        return [entry for _, entry in sorted(self._found, key=_find_place)]

    def _find_hint(self, runs: Path) -> str:
        other = next((entry for entry in self._entries if entry.status != "success"), None)
        if other is not None:
            return f"repotrial run show {shlex.quote(other.directory)}"
        return f"repotrial run summary {shlex.quote(str(runs))}"


def _find_place(found: tuple[int, RunEntry]) -> tuple[str, int, int]:
    place, entry = found
    return entry.contract or "", entry.replicate or 0, place
