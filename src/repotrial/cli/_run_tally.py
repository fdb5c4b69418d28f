"""What came of all runs of one command."""

from __future__ import annotations

import shlex
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from repotrial._core.errors import ExitCode

if TYPE_CHECKING:
    from repotrial.api import RunEntry, TrialEvent
    from repotrial.cli._output import Screen

__all__ = ["Tally"]


class Tally:
    """Counts events, and says at the end what they come to."""

    def __init__(self) -> None:
        self._entries: list[RunEntry] = []
        self._faults = 0
        self._undone = 0

    def count(self, event: TrialEvent) -> None:
        from repotrial import api

        match event:
            case api.RunScored(entry=entry):
                self._entries.append(entry)
            case api.RunUnscored():
                self._faults += 1
            case api.RunEnded(fault=fault, is_stopped=is_stopped):
                self._faults += fault is not None and not is_stopped
                self._undone += is_stopped
            case api.RunUndone(fault=fault):
                self._faults += fault is not None
                self._undone += fault is None
            case _:
                pass

    def find_exit_code(self, *, is_success_expected: bool) -> int:
        if self._faults:
            return ExitCode.MACHINE_CANNOT
        has_failed = any(entry.status != "success" for entry in self._entries)
        return ExitCode.DOES_NOT_HOLD if is_success_expected and has_failed else ExitCode.DONE

    def report(self, screen: Screen, runs: Path, *, is_stopped: bool, json: bool) -> None:
        from repotrial.cli._output import counted, print_json_line
        from repotrial.cli._table import RUN_HEADER, UNANSWERED, build_run_row, print_table

        words = Counter(entry.status for entry in self._entries)
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
        if self._entries:
            # By contract, as planned; runs at the same time end in any order.
            entries = sorted(self._entries, key=lambda entry: (entry.contract or "", entry.replicate or 0))
            print_table(screen, RUN_HEADER, [build_run_row(entry) for entry in entries])
        listed = ", ".join(f"{number} {word}" for word, number in sorted(words.items())) or "no verdict"
        screen.line((f"{counted(len(self._entries), 'run')}: {listed}", "bold"))
        if self._faults:
            screen.line((f"{counted(self._faults, 'run')} could not be conducted", "bold yellow"))
        if unanswered := sum(entry.is_unanswered for entry in self._entries):
            screen.line(
                (f"no model answered in {counted(unanswered, 'run')}", "bold yellow"), f": {UNANSWERED}"
            )
        if is_stopped:
            screen.line("stopped: everything recorded is kept; give the same command again to go on")
        elif self._entries:
            screen.line((f"next: {self._find_hint(runs)}", "dim"))

    def _find_hint(self, runs: Path) -> str:
        other = next((entry for entry in self._entries if entry.status != "success"), None)
        if other is not None:
            return f"repotrial run show {shlex.quote(other.directory)}"
        return f"repotrial run summary {shlex.quote(str(runs))}"
