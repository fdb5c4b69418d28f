"""Files that a script writes with known content: it may run, print or rename them later."""

from __future__ import annotations

import posixpath
from itertools import pairwise
from typing import Final

from repotrial.shell._model import (
    Assignment,
    FaultReason,
    ShellCommand,
    ShellFault,
    Word,
    WrittenText,
    join_path,
)

_MAX_FILES: Final = 500
_MAX_CHARACTERS: Final = 64 * 1024
_RENAMERS: Final = frozenset({"mv", "cp", "ln", "install"})
_INTO: Final = frozenset({"-t", "--target-directory"})


def resolve(directory: str | None, word: Word) -> str | None:
    """The same for a word, which may not be known either."""
    return join_path(directory, word.text) if word.is_static else None


class ScriptFiles:
    """What is in them, by path as seen from where the script began; bounded."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def save(self, path: str, text: str) -> None:
        if len(self._texts) < _MAX_FILES and len(text) <= _MAX_CHARACTERS:
            self._texts[path] = text

    def find(self, directory: str | None, word: Word | None) -> str | None:
        """What a file holds; None where the script has not written it, or who knows what."""
        return None if word is None else self._texts.get(resolve(directory, word) or "")

    def find_all(self, directory: str | None, words: list[Word]) -> str | None:
        """What several hold, one after the other; None where one of them is not known, or for too much."""
        whole = ""
        for word in words:
            text = self.find(directory, word)
            if text is None or len(whole) + len(text) > _MAX_CHARACTERS:
                return None
            whole += text
        return whole if words else None

    def rename(self, command: ShellCommand) -> None:
        """`mv x.sh y.sh`: what is in the file is known under its other name as well."""
        if not self._texts or command.name not in _RENAMERS:
            return
        plain = [word for word in command.arguments if not word.text.startswith("-")]
        named = [after for word, after in pairwise(command.arguments) if word.text in _INTO]
        target = next(iter([*named, *plain[-1:]]), None)
        path = None if target is None else resolve(command.cwd, target)
        for source in plain if path is not None else ():
            text = self.find(command.cwd, source)
            if text is not None and path is not None and source is not target:
                self.save(path, text)
                self.save(posixpath.join(path, posixpath.basename(source.text)), text)


_MAX_COMMANDS: Final = 2000
_MAX_STEPS: Final = 5000
_MAX_NESTED_BYTES: Final = 64 * 1024
_MAX_FILLED_BYTES: Final = 32 * 1024
_MAX_WRITTEN: Final = 200


class _ReadBudget:
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

    def __init__(self, budget: _ReadBudget | None = None) -> None:
        self.commands: list[ShellCommand] = []
        self.assignments: list[Assignment] = []
        self.functions: list[tuple[str, int, int]] = []
        self.faults: list[ShellFault] = []
        self.written: list[WrittenText] = []
        self.budget = budget or _ReadBudget()

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
