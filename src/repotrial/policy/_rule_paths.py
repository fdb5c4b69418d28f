"""Paths that a command names, as rules compare them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from repotrial.policy._text_model import find_names
from repotrial.shell import ShellCommand, ShellScript, Word, classify_command, join_path

_EMBEDDED = re.compile(r"(?:--?[\w-]+=|if=|of=|@|file://)(.+)", re.DOTALL)


def place(command: ShellCommand, word: Word) -> str:
    """A word as a path from where the script began; as it is written where that is not known."""
    return join_path(command.cwd, word.text) or word.text


def iter_paths(command: ShellCommand) -> Iterator[str]:
    """Arguments and redirections as paths."""
    for word in command.arguments:
        if not word.text.startswith("-"):
            yield place(command, word)
        if (found := _EMBEDDED.match(word.text)) is not None:
            yield found[1]
    yield from (place(command, each.target) for each in command.redirections if each.target is not None)


def iter_written(command: ShellCommand) -> Iterator[str]:
    """Paths that a command writes, deletes or changes."""
    for each in command.redirections:
        if each.kind in {"write", "append"} and each.target is not None:
            yield place(command, each.target)
    plain = [word for word in command.arguments if not word.text.startswith("-")]
    if command.name in find_names("writers"):
        yield from (place(command, word) for word in plain)
    elif command.name in {"cp", "mv", "ln", "install"} and command.arguments:
        yield place(command, command.arguments[-1])
    elif command.name == "dd":
        yield from (word.text[3:] for word in command.arguments if word.text.startswith("of="))
    elif command.name in {"sed", "gsed"} and classify_command(command) == "write":
        yield from (place(command, word) for word in plain[1:])


def has_letter(command: ShellCommand, letters: str, *names: str) -> bool:
    """Whether an option has one of the letters, alone or among others, or one of the long names."""
    return any(
        word.text in names or re.fullmatch(rf"-[A-Za-z]*[{letters}][A-Za-z]*", word.text)
        for word in command.arguments
    )


def list_sources(command: ShellCommand, script: ShellScript) -> list[ShellCommand]:
    """All commands of the pipeline before this one."""
    found: set[int] = set()
    waiting = list(command.sources)
    while waiting:
        index = waiting.pop()
        if index not in found:
            found.add(index)
            waiting.extend(script.commands[index].sources)
    return [script.commands[index] for index in sorted(found)]
