"""Files that a script writes with known content: it may run, print or rename them later."""

from __future__ import annotations

import posixpath
from itertools import pairwise
from typing import Final

from repotrial.shell._model import ShellCommand, Word

_MAX_FILES: Final = 500
_MAX_CHARACTERS: Final = 64 * 1024
_RENAMERS: Final = frozenset({"mv", "cp", "ln", "install"})
_INTO: Final = frozenset({"-t", "--target-directory"})


def join_path(directory: str | None, path: str) -> str | None:
    """A path as seen from where the script began; None where that is not known."""
    if path.startswith(("/", "~")):
        return posixpath.normpath(path)
    if directory is None:
        return None
    return posixpath.normpath(posixpath.join(directory, path))


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
