"""The table of programs: what they do and which of them only start others."""

from __future__ import annotations

import tomllib
from functools import cache
from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.files import read_package_data

CommandClass: TypeAlias = Literal[
    "read", "other", "write", "build", "test", "install", "git-history", "network", "system", "privilege"
]
"""What a command does; `other` is not known."""

COMMAND_CLASSES: tuple[CommandClass, ...] = (
    "read",
    "other",
    "write",
    "build",
    "test",
    "install",
    "git-history",
    "network",
    "system",
    "privilege",
)
"""Weakest first."""


class Wrapper(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A program that starts another one."""

    values: frozenset[str] = frozenset()
    """Options that take a value."""
    positionals: int = 0
    """Words between the options and the command."""
    assignments: bool = False
    """Whether `NAME=value` may stand before the command."""
    appends: bool = False
    """Whether arguments that the text does not have are added."""


class _OptionRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"command_class": "class"}):
    """An option that changes what a program does."""

    programs: frozenset[str]
    options: tuple[str, ...]
    command_class: CommandClass


class _Names(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    shells: frozenset[str]
    interpreters: frozenset[str]
    linters: frozenset[str]


class ProgramTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The table as its file has it."""

    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/programs@1$")]
    wrappers: dict[str, Wrapper]
    runners: dict[str, tuple[str, ...]]
    runner_values: dict[str, frozenset[str]]
    names: _Names
    classes: dict[CommandClass, tuple[str, ...]]
    options: tuple[_OptionRule, ...]
    modules: dict[str, CommandClass]
    subcommands: dict[str, dict[str, str | tuple[str, ...]]]
    aliases: dict[str, str]

    def resolve(self, name: str) -> str:
        """The name under which a program stands in the table."""
        base = name.removesuffix(".exe")
        if base.startswith(("python3.", "python2.", "pypy3.")):
            return "python"
        if base.startswith("pip3."):
            return "pip"
        return self.aliases.get(base, base)

    def find_class(self, name: str) -> CommandClass:
        """What a program does when nothing more is known of its words."""
        return _class_of_name().get(name, "other")


@cache
def load_programs() -> ProgramTable:
    """The bundled table."""
    return msgspec.convert(
        tomllib.loads(read_package_data("repotrial.shell", "programs.toml").decode()), ProgramTable
    )


@cache
def _class_of_name() -> dict[str, CommandClass]:
    return {name: kind for kind, names in load_programs().classes.items() for name in names}
