"""Why a program was started: to test, to build, to check style and types."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from repotrial.shell._commands import classify_command
from repotrial.shell._programs import load_programs
from repotrial.shell._script import parse_shell

Purpose: TypeAlias = Literal["test", "build", "lint"]

_TEXT_OPTION: Final = re.compile(r"-[A-Za-z]*c[A-Za-z]*")
_QUESTIONS: Final = frozenset({"--version", "-V", "--help", "-h", "--collect-only", "--co"})
_FORMATTERS: Final = frozenset({"black", "isort", "prettier", "gofmt", "rustfmt", "clang-format"})
_TEST_WORD: Final = re.compile(r"test", re.IGNORECASE)
_MOST_WORDS: Final = 200


def find_purpose(argv: Sequence[str]) -> Purpose | None:
    """What a program that started is for; None where it is none of these, or only asks its version.

    A shell's own line has none: the programs that it starts have theirs.
    """
    return _find(tuple(argv[:_MOST_WORDS]))


@lru_cache(maxsize=2048)
def _find(argv: tuple[str, ...]) -> Purpose | None:
    if not argv or not _QUESTIONS.isdisjoint(argv[1:]) or _is_shell_line(argv):
        return None
    for words in _iter_readings(argv):
        if (found := _classify(words)) is not None:
            return found
    return None


def _is_shell_line(argv: tuple[str, ...]) -> bool:
    is_shell = argv[0].rpartition("/")[2] in load_programs().names.shells
    return is_shell and any(_TEXT_OPTION.fullmatch(word) for word in argv[1:4])


def _iter_readings(argv: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """As it stands; and, for an interpreter with a program's file, as that program."""
    name = load_programs().resolve(argv[0].rpartition("/")[2])
    yield (name, *argv[1:])
    if name in load_programs().names.interpreters:
        rest = argv[1:]
        while rest and rest[0].startswith("-") and rest[0] not in {"-m", "-c", "-e"}:
            rest = rest[1:]
        if rest and "/" in rest[0]:
            base = rest[0].rpartition("/")[2]
            yield (base.removesuffix("-cli.js").removesuffix(".js"), *rest[1:])


def _classify(words: tuple[str, ...]) -> Purpose | None:
    table = load_programs()
    name = words[0]
    is_known = table.find_class(name) in {"test", "build"} or name in table.subcommands
    starters = table.wrappers.keys() | table.runners.keys() | table.names.interpreters | table.names.shells
    if not (
        is_known or name in starters or name in table.names.linters | _FORMATTERS or _TEST_WORD.search(name)
    ):
        return None
    kinds = []
    for command in parse_shell(" ".join("'" + word.replace("'", "'\\''") + "'" for word in words)).commands:
        if _is_lint(command.argv):
            return "lint"
        kinds.append(classify_command(command))
    return "test" if "test" in kinds else "build" if "build" in kinds else None


def _is_lint(argv: tuple[str, ...]) -> bool:
    if not argv:
        return False
    linters = load_programs().names.linters
    name = argv[0].rpartition("/")[2]
    if name.startswith("python") and "-m" in argv[:-1]:
        name = argv[argv.index("-m") + 1]
    if name in _FORMATTERS:
        return not {"--check", "-l", "--list-different", "--dry-run"}.isdisjoint(argv)
    if name in {"ruff", "cargo", "npm", "go"}:
        return not {"check", "clippy", "vet", "lint"}.isdisjoint(argv[1:3]) and argv[1:2] != ("test",)
    return name in linters
