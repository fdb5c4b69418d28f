"""Tools of agents by what is retrieved with them (R7): a table that users can add to."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.policy import load_tool_table
from repotrial.retrieval._documents import Category

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_MCP = re.compile(r"^mcp__(?P<server>.+?)__.", re.IGNORECASE)

ToolKind: TypeAlias = "Category | Literal['shell']"
"""What is retrieved with a tool; `shell`: its command says so."""

_BY_FAMILY: Mapping[str, ToolKind] = {
    "read": "file_read",
    "search": "code_search",
    "write": "file_write",
    "shell": "shell",
}


RETRIEVAL_TOOLS_INVALID = ErrorCode(
    "retrieval-tools-invalid",
    UsageError,
    "A table of retrieval tools is not one.",
    hint="start from the bundled table: lists of names under [categories]",
)


class _Subcommand(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    argument: str
    otherwise: Category
    file_read: tuple[str, ...] = ()
    file_search: tuple[str, ...] = ()
    code_search: tuple[str, ...] = ()
    file_write: tuple[str, ...] = ()

    def find(self, value: object) -> Category:
        if value in self.file_read:
            return "file_read"
        if value in self.file_search:
            return "file_search"
        if value in self.code_search:
            return "code_search"
        return "file_write" if value in self.file_write else self.otherwise


class _Shell(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    names: tuple[str, ...] = ()
    keeps_directory: tuple[str, ...] = ()


class _Arguments(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    files: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    first_line: tuple[str, ...] = ()
    last_line: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    range: tuple[str, ...] = ()
    repository: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    working_directory: tuple[str, ...] = ()


class RetrievalTools(msgspec.Struct, frozen=True, forbid_unknown_fields=True, dict=True):
    """Which tools retrieve what, and what their arguments are called."""

    schema: Annotated[str, msgspec.Meta(pattern="^repotrial/retrieval-tools@1$")]
    categories: dict[Category, tuple[str, ...]] = {}
    shell: _Shell = _Shell()
    subcommands: dict[str, _Subcommand] = {}
    arguments: _Arguments = _Arguments()
    kept: dict[Category, tuple[str, ...]] = {}
    mcp_servers: tuple[str, ...] = ()
    """Servers whose calls are `is_mcp`."""

    def find_kind(self, name: str, arguments: Mapping[str, Any]) -> ToolKind | None:
        """What a call retrieves; None if it is none of retrieval's business."""
        known = self._known
        for spelling in iter_spellings(name):
            rule = self.subcommands.get(spelling)
            if rule is not None:
                return rule.find(arguments.get(rule.argument))
            kind = known.get(spelling)
            if kind is not None:
                return kind
        if self.is_server_tool(name):
            return "other"
        return _BY_FAMILY.get(load_tool_table().find_family(name))

    def is_server_tool(self, name: str) -> bool:
        """Whether a tool belongs to a server outside the agent."""
        return _MCP.match(name) is not None

    def is_mcp(self, name: str) -> bool:
        """Whether a tool belongs to a server that counts as remote evidence (R7)."""
        match = _MCP.match(name)
        return match is not None and match["server"].casefold() in self.mcp_servers

    def keeps_directory(self, name: str) -> bool:
        """Whether a `cd` in one call of this tool lasts to the next."""
        return name in self.shell.keeps_directory

    def find_values(self, arguments: Mapping[str, Any], what: str) -> Iterator[Any]:
        """Values of the arguments that are called so, in the table's order."""
        folded = self._fold(arguments)
        for key in getattr(self.arguments, what):
            if (value := folded.get(_fold_key(key))) not in (None, ""):
                yield value

    def keep(self, category: Category, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Those arguments that say what was looked for."""
        return {key: arguments[key] for key in self.kept.get(category, ()) if key in arguments}

    def merge(self, other: RetrievalTools) -> RetrievalTools:
        """This table with another one's entries, which win."""
        taken = {name for names in other.categories.values() for name in names}
        taken |= {*other.shell.names, *other.subcommands}
        names = {
            category: _add(self.categories, other.categories, category, taken)
            for category in _union(self, other)
        }
        return RetrievalTools(
            schema=self.schema,
            categories=names,
            shell=_Shell(
                names=(*other.shell.names, *(name for name in self.shell.names if name not in taken)),
                keeps_directory=(*other.shell.keeps_directory, *self.shell.keeps_directory),
            ),
            subcommands={
                **{name: rule for name, rule in self.subcommands.items() if name not in taken},
                **other.subcommands,
            },
            arguments=_Arguments(
                **{
                    field: (*getattr(other.arguments, field), *getattr(self.arguments, field))
                    for field in _Arguments.__struct_fields__
                }
            ),
            mcp_servers=(*other.mcp_servers, *self.mcp_servers),
            kept={
                category: (*other.kept.get(category, ()), *self.kept.get(category, ()))
                for category in {**self.kept, **other.kept}
            },
        )

    @property
    def _known(self) -> dict[str, ToolKind]:
        found: dict[str, ToolKind] | None = self.__dict__.get("known")
        if found is None:
            found = {name: category for category, names in self.categories.items() for name in names}
            found.update(dict.fromkeys(self.shell.names, "shell"))
            self.__dict__["known"] = found
        return found

    @staticmethod
    def _fold(arguments: Mapping[str, Any]) -> dict[str, Any]:
        return {_fold_key(key): value for key, value in reversed(list(arguments.items()))}


def iter_spellings(name: str) -> Iterator[str]:
    """A tool's name as tables write it: whole, without what stands in front, without a vendor's mark."""
    full = _CAMEL.sub("_", name).casefold().replace("-", "_").replace(" ", "_")
    yield full
    last = re.split(r"__|[.:/]", full)[-1]
    if last != full:
        yield last
    if last.startswith("sg_"):
        yield last.removeprefix("sg_")


def load_retrieval_tools(extra: Path | None = None) -> RetrievalTools:
    """The bundled table, with what a user's file adds.

    Raises:
        RETRIEVAL_TOOLS_INVALID: the user's file is no such table.
    """
    if extra is None:
        return _load_bundled()
    try:
        return _load_bundled().merge(_parse(extra.read_bytes()))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise RETRIEVAL_TOOLS_INVALID.error(
            f"expected a table of retrieval tools in {extra}, found: {error}"
        ) from error


@cache
def _load_bundled() -> RetrievalTools:
    return _parse(files("repotrial.retrieval").joinpath("_data", "tools.toml").read_bytes())


def _parse(data: bytes) -> RetrievalTools:
    return msgspec.convert(tomllib.loads(data.decode()), RetrievalTools)


def _fold_key(key: str) -> str:
    return key.casefold().replace("_", "")


def _union(one: RetrievalTools, other: RetrievalTools) -> dict[Category, None]:
    return dict.fromkeys((*one.categories, *other.categories))


def _add(
    old: Mapping[Category, tuple[str, ...]],
    new: Mapping[Category, tuple[str, ...]],
    category: Category,
    taken: set[str],
) -> tuple[str, ...]:
    return (*new.get(category, ()), *(name for name in old.get(category, ()) if name not in taken))
