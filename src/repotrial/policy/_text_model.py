"""What rules find in text: which rule, how grave, in which form, and the exact place."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.files import read_package_data
from repotrial._core.words import AlertSeverity, TextFormat
from repotrial.shell import ShellCommand, ShellScript, Word, classify_command

FindingClass: TypeAlias = Literal["prohibited", "suspicious", "note"]
"""`prohibited` operations end in quarantine; `suspicious` ones are alerts; a `note` is for the record."""

TextPlace: TypeAlias = Literal["message", "command", "program", "code"]
"""`message`: what a model says or thinks; `command`: what a shell tool is told to run; `program`: code that
another tool is told to run; `code`: content that a tool puts somewhere."""

_CLASSES: tuple[FindingClass, ...] = ("note", "suspicious", "prohibited")
SEVERITIES: tuple[AlertSeverity, ...] = ("info", "warning", "critical")


class TextRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename={"finding_class": "class"}):
    """One published rule."""

    finding_class: FindingClass
    """Of a command that a tool is told to run."""
    severity: AlertSeverity
    """The same."""
    summary: str
    """What such a text does."""


class _Rules(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/text-rules@1$")]
    rules: dict[str, TextRule]
    programs: dict[str, frozenset[str]]


class TextFinding(msgspec.Struct, frozen=True, kw_only=True, rename={"finding_class": "class"}):
    """A piece of text that meets a rule."""

    rule: str
    """Which rule."""
    severity: AlertSeverity
    """How grave it is in this form."""
    finding_class: FindingClass
    """Prohibited, suspicious, or a note."""
    format: TextFormat
    """The form that it was found in."""
    segment: str
    """The exact piece."""
    offset_bytes: int
    """Where it begins in the text."""


class Hit(msgspec.Struct, frozen=True):
    """A rule that is met between two bytes of a script."""

    rule: str
    start: int
    end: int


@cache
def _load() -> _Rules:
    return msgspec.convert(
        tomllib.loads(read_package_data("repotrial.policy", "text-rules.toml").decode()), _Rules
    )


def load_text_rules() -> dict[str, TextRule]:
    """The published rules by their ids."""
    return _load().rules


def find_names(group: str) -> frozenset[str]:
    """The programs that rules look for, by what they have in common."""
    return _load().programs[group]


@cache
def list_watched() -> frozenset[str]:
    """All programs that some rule knows by name."""
    return frozenset[str]().union(*_load().programs.values())


def build_finding(
    rule: str, *, text_format: TextFormat, steps_down: int, segment: str, offset_bytes: int
) -> TextFinding | None:
    """A finding, weakened by `steps_down`; None where nothing is left of it."""
    base = load_text_rules()[rule]
    level = _CLASSES.index(base.finding_class) - steps_down
    if level < 0 and text_format == "natural-language":
        return None
    severity = max(0, SEVERITIES.index(base.severity) - steps_down)
    return TextFinding(
        rule=rule,
        severity=SEVERITIES[severity],
        finding_class=_CLASSES[max(0, level)],
        format=text_format,
        segment=segment,
        offset_bytes=offset_bytes,
    )


_EMBEDDED = re.compile(r"(?:--?[\w-]+=|if=|of=|@|file://)(.+)", re.DOTALL)


def place(command: ShellCommand, word: Word) -> str:
    """A word as a path from where the script began; as it is written where that is not known."""
    return command.locate(word.text) or word.text


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
