"""Tools of coding agents by what they do: a table that users can add to."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import read_package_data

ToolFamily: TypeAlias = Literal["read", "search", "write", "shell", "code", "test", "other", "unknown"]
"""What a tool does; `other` neither reads nor writes the workspace."""

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MAX_COMMANDS = 50


TOOL_TABLE_INVALID = ErrorCode(
    "tool-table-invalid",
    UsageError,
    "A table of tools is not one.",
    hint="start from the bundled table: lists of names under [families]",
)


class _Subcommands(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    argument: str
    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    command: tuple[str, ...] = ()
    code: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    content: tuple[str, ...] = ()
    prose: tuple[str, ...] = ()


class ToolTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Families of tool names, and what their arguments are called."""

    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/tools@1$")]
    families: dict[Literal["read", "search", "write", "shell", "code", "test", "other"], tuple[str, ...]] = {}
    subcommands: dict[str, _Subcommands] = {}
    arguments: _Arguments = _Arguments()

    def find_family(self, name: str) -> ToolFamily:
        """What a tool does, by its name; the first name that is known of `mcp__server__tool` counts."""
        for candidate in _spellings(name):
            for family, names in self.families.items():
                if candidate in names:
                    return family
        return "unknown"

    def merge(self, other: ToolTable) -> ToolTable:
        """This table with another one's entries, which win."""
        taken = {name for names in other.families.values() for name in names}
        families = {
            family: (
                *other.families.get(family, ()),
                *(name for name in self.families.get(family, ()) if name not in taken),
            )
            for family in {**self.families, **other.families}
        }
        arguments = {
            field: (*getattr(self.arguments, field), *getattr(other.arguments, field))
            for field in _Arguments.__struct_fields__
        }
        return ToolTable(
            schema=self.schema,
            families=families,
            subcommands={**self.subcommands, **other.subcommands},
            arguments=_Arguments(**arguments),
        )


class ToolUse(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool, as far as the table can tell."""

    family: ToolFamily
    """What the tool does."""
    commands: tuple[str, ...] = ()
    """Shell scripts that it is told to run."""
    code: str | None = None
    """Code that it is told to run."""
    paths: tuple[str, ...] = ()
    """Files that it names."""
    has_content: bool = False
    """Whether it brings text to put somewhere."""
    content: str = ""
    """That text."""
    identity: str
    """The same for calls that differ only in what they say for people."""


def _spellings(name: str) -> Iterator[str]:
    full = _CAMEL.sub("_", name).casefold().replace("-", "_").replace(" ", "_")
    yield full
    parts = re.split(r"__|[.:/]", full)
    if len(parts) > 1:
        yield parts[-1]


def load_tool_table(extra: Path | None = None) -> ToolTable:
    """The bundled table, with what a user's file adds.

    Raises:
        TOOL_TABLE_INVALID: the user's file is no table of tools.
    """
    if extra is None:
        return _load_bundled()
    try:
        return _load_bundled().merge(_parse(extra.read_bytes()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise TOOL_TABLE_INVALID.error(f"expected a table of tools in {extra}, found: {error}") from error


@cache
def _load_bundled() -> ToolTable:
    return _parse(read_package_data("repotrial.policy", "tools.toml"))


def _parse(data: bytes) -> ToolTable:
    return msgspec.convert(tomllib.loads(data.decode()), ToolTable)


def read_tool_use(name: str, arguments: bytes | str, table: ToolTable | None = None) -> ToolUse:
    """What a call would do; never raises, whatever its arguments are."""
    table = table or load_tool_table()
    family = table.find_family(name)
    values = _decode(arguments)
    if values is None:
        text = arguments if isinstance(arguments, str) else arguments.decode("utf-8", "replace")
        is_patch = "*** Begin Patch" in text
        loose = (text,) if family == "shell" and text else ()
        return ToolUse(family="write" if is_patch else family, commands=loose, identity=f"{name}\0{text}")
    family = _find_subcommand(name, values, table) or family
    folded = {_CAMEL.sub("_", key).casefold(): value for key, value in values.items()}
    known = {**{key.casefold(): value for key, value in values.items()}, **folded}
    commands = tuple(_iter_commands(known, table.arguments.command)) if family in {"shell", "unknown"} else ()
    if family == "unknown" and commands:
        family = "shell"
    contents = [text for key in table.arguments.content for text in _texts(known.get(key))]
    paths = tuple(text for key in table.arguments.path for text in _texts(known.get(key)))
    if family == "unknown" and paths and contents:
        family = "write"  # whatever it is called: it is given a place and something to put there
    code = next((text for key in table.arguments.code for text in _texts(known.get(key))), None)
    return ToolUse(
        family=family,
        commands=commands,
        code=code if family in {"code", "shell"} else None,
        paths=paths,
        has_content=bool(contents),
        content="\n".join(contents),
        identity=_identify(name, values, table),
    )


def _decode(arguments: bytes | str) -> Mapping[str, Any] | None:
    try:
        decoded = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return decoded if isinstance(decoded, dict) else None


def _find_subcommand(name: str, values: Mapping[str, Any], table: ToolTable) -> ToolFamily | None:
    for candidate in _spellings(name):
        rule = table.subcommands.get(candidate)
        if rule is not None:
            return "read" if values.get(rule.argument) in rule.read else "write"
    return None


def _iter_commands(values: Mapping[str, Any], keys: tuple[str, ...]) -> Iterator[str]:
    for key in keys:
        value = values.get(key)
        if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
            # Some tools take a program with its arguments, others a list of lines.
            if key in {"command", "cmd"}:
                yield " ".join(_quote(each) for each in value)
            else:
                yield from value[:_MAX_COMMANDS]
        elif isinstance(value, list):
            inner = (each.get("command") for each in value[:_MAX_COMMANDS] if isinstance(each, dict))
            yield from (each for each in inner if isinstance(each, str))
        elif isinstance(value, str) and value:
            yield value


def _quote(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./-]+", word) else "'" + word.replace("'", "'\\''") + "'"


def _texts(value: object) -> list[str]:
    """Every text in a value: a string, a list of them, or a list of objects."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [text for each in value[:_MAX_COMMANDS] for text in _texts(each)]
    if isinstance(value, dict):
        return [text for each in value.values() for text in _texts(each)]
    return []


def _identify(name: str, values: Mapping[str, Any], table: ToolTable) -> str:
    kept = {key: value for key, value in values.items() if key.casefold() not in table.arguments.prose}
    return name + "\0" + msgspec.json.encode(kept, order="sorted").decode()
