"""What a walk over a script collects."""

from __future__ import annotations

from typing import Final

from repotrial.shell._files import ScriptFiles
from repotrial.shell._model import Assignment, FaultReason, ShellCommand, ShellFault, WrittenText

_MAX_COMMANDS: Final = 2000
_MAX_STEPS: Final = 5000
_MAX_NESTED_BYTES: Final = 64 * 1024
_MAX_FILLED_BYTES: Final = 32 * 1024
_MAX_WRITTEN: Final = 200


class Budget:
    """How much is looked at, in a script and in all text inside it together."""

    def __init__(self) -> None:
        self.steps = _MAX_STEPS
        self.nested_bytes = _MAX_NESTED_BYTES
        self.filled_bytes = _MAX_FILLED_BYTES
        self.files = ScriptFiles()

    def spend_filled(self, size: int) -> bool:
        """Count what is parsed to find the commands in here-documents; false where there was too much."""
        self.filled_bytes -= size
        return self.filled_bytes >= 0


class Collector:
    """Commands in the order in which they would run; bounded."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.commands: list[ShellCommand] = []
        self.assignments: list[Assignment] = []
        self.functions: list[tuple[str, int, int]] = []
        self.faults: list[ShellFault] = []
        self.written: list[WrittenText] = []
        self.budget = budget or Budget()

    @property
    def files(self) -> ScriptFiles:
        return self.budget.files

    def spend(self, start: int, end: int) -> bool:
        """Count one statement that is looked at; false where there were too many."""
        self.budget.steps -= 1
        if self.is_full:
            self._stop(start, end)
        return not self.is_full

    def spend_nested(self, size: int) -> bool:
        """Count text that stands inside an argument; false where there was too much."""
        self.budget.nested_bytes -= size
        return self.budget.nested_bytes >= 0

    def fault(self, start: int, end: int, reason: FaultReason) -> None:
        """Say that something was not understood, once."""
        fault = ShellFault(start=start, end=end, reason=reason)
        if self.faults[-1:] != [fault]:
            self.faults.append(fault)

    @property
    def is_full(self) -> bool:
        """Whether nothing more is looked at."""
        return self.budget.steps < 0 or len(self.commands) >= _MAX_COMMANDS

    def add(self, command: ShellCommand) -> None:
        """Put a command down, unless there are too many."""
        if len(self.commands) < _MAX_COMMANDS:
            self.commands.append(command)
        else:
            self._stop(command.start, command.end)

    def note(self, written: WrittenText) -> None:
        """Keep text that is put somewhere, unless there is too much."""
        if len(self.written) < _MAX_WRITTEN:
            self.written.append(written)
        else:
            self._stop(written.start, written.end)

    def _stop(self, start: int, end: int) -> None:
        if not self.faults or self.faults[-1].reason != "too-many":
            self.faults.append(ShellFault(start=start, end=end, reason="too-many"))
