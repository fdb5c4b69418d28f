"""From a tool call to the files that it named and returned (R7)."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from repotrial.policy import read_tool_use
from repotrial.retrieval._contract_truth import read_patch
from repotrial.retrieval._documents import Category
from repotrial.retrieval._places import FilePlace, PlaceNames, has_extension
from repotrial.retrieval._results import (
    find_numbered_lines,
    is_line_of_one_file,
    iter_listed,
    iter_matched,
    iter_served,
    split_metadata,
)
from repotrial.retrieval._shell import Found, find_last_directory, mine_shell
from repotrial.retrieval._tools import RetrievalTools, ToolKind
from repotrial.transcripts import Arguments

_PATCH_FILE: Final = re.compile(
    r"^\*\*\* (?:Add|Update|Delete) File: (.+)$|^\*\*\* Move to: (.+)$", re.MULTILINE
)
_PATCH_KEYS: Final = ("input", "patch", "diff", "patch_text", "patchText")
_QUERIED: Final = re.compile(r"(?<![\w-])(?:repo|r):(?:has\.)?\^?([^\s$@]+)\$?")
_MOST_FILES: Final = 10_000
_MOST_RECOVERED: Final = 8_000
_PAIR: Final = re.compile(
    r'"\w{1,40}"\s*:\s*(?:"(?:[^"\\]|\\.){0,4000}"|-?\d{1,15}|true|false|null)(?=\s*[,}])'
)
_BEGUN: Final = re.compile(r'"(command|cmd)"\s*:\s*"((?:[^"\\]|\\["\\/bfnrt]){1,20000})')


class TracedCall(msgspec.Struct, frozen=True, kw_only=True):
    """A use of a tool, wherever it was recorded."""

    name: str
    arguments: Arguments
    call_id: str | None = None
    outputs: tuple[str, ...] = ()
    """What came back, as each trace has it."""
    is_error: bool = False
    is_subagent: bool = False
    timestamp: str | None = None
    at_us: int | None = None
    tokens: int | None = None
    """Tokens of the run up to here."""


class Retrieved(msgspec.Struct, frozen=True, kw_only=True):
    """What one call, or one of the things that its command does, brought up."""

    category: Category
    places: tuple[FilePlace, ...]
    symbols: tuple[str, ...] = ()
    is_mined: bool = False
    """Whether it comes from the words or the output of a shell command."""


class Extractor:
    """Reads calls one after the other, as they were made: a shell remembers where it is."""

    def __init__(self, tools: RetrievalTools, names: PlaceNames, directory: str | None) -> None:
        self._tools = tools
        self._names = names
        self._start = directory if directory and directory.startswith("/") else "."
        self._directory = self._start

    def extract(self, call: TracedCall) -> tuple[Retrieved, ...]:
        """What a call retrieved; nothing where its tool retrieves nothing, several where a command does."""
        if isinstance(call.arguments, str):
            call = msgspec.structs.replace(call, arguments=_recover_arguments(call.arguments))
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        kind = self._tools.find_kind(call.name, arguments)
        if kind is None:
            return ()
        if kind == "shell":
            return self._mine(call)
        if call.is_error:  # it brought up nothing
            return (Retrieved(category=kind, places=(), symbols=self._find_symbols(kind, arguments)),)
        places = [*self._iter_named(kind, call, arguments), *self._iter_returned(kind, call, arguments)]
        return (
            Retrieved(
                category=kind,
                places=tuple(dict.fromkeys(places))[:_MOST_FILES],
                symbols=self._find_symbols(kind, arguments),
            ),
        )

    def _mine(self, call: TracedCall) -> tuple[Retrieved, ...]:
        raw = call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments)
        commands = read_tool_use("bash", raw).commands
        directory = self._find_directory(call)
        output = None if call.is_error else next(iter(call.outputs), None)
        if output is not None:
            output = split_metadata(output)[0]
        found: list[Found] = mine_shell(commands, output, directory, self._names)
        for command in commands:
            found += [("file_write", FilePlace(path)) for path in _find_patched(command)]
            if self._tools.keeps_directory(call.name):
                self._directory = find_last_directory(command, directory)
        grouped: dict[Category, dict[FilePlace, None]] = {}
        for category, place in found[:_MOST_FILES]:
            grouped.setdefault(category, {})[place] = None
        if not grouped:
            return (Retrieved(category="other", places=()),)
        return tuple(
            Retrieved(category=category, places=tuple(places), is_mined=True)
            for category, places in grouped.items()
        )

    def _find_directory(self, call: TracedCall) -> str:
        arguments = call.arguments if isinstance(call.arguments, dict) else {}
        given = next(
            (v for v in self._tools.find_values(arguments, "working_directory") if isinstance(v, str)), None
        )
        if given:
            return posixpath.normpath(posixpath.join(self._start, given.removeprefix("file://")))
        return self._directory if self._tools.keeps_directory(call.name) else self._start

    def _iter_named(
        self, kind: Category, call: TracedCall, arguments: Mapping[str, Any]
    ) -> Iterator[FilePlace]:
        """Files that the arguments name."""
        is_remote = self._tools.is_server_tool(call.name)
        repo = self._find_repo(arguments)
        if kind in {"file_read", "file_write", "symbol_navigation"}:
            paths = list(
                _iter_paths(next(iter(self._tools.find_values(arguments, "files")), None), self._tools)
            )
            if kind == "file_write":
                texts = [arguments.get(key) for key in _PATCH_KEYS] if arguments else [call.arguments]
                paths += [
                    (path, None) for text in texts if isinstance(text, str) for path in _find_patched(text)
                ]
            for path, inner in paths:
                yield from self._with_lines(kind, FilePlace(path, repo), inner or arguments, call)
        elif kind in {"file_search", "code_search"} and not is_remote:
            for value in self._tools.find_values(arguments, "directories"):
                if isinstance(value, str) and self._names_file(value, kind, call):
                    yield FilePlace(value, repo)
                    return

    def _names_file(self, path: str, kind: Category, call: TracedCall) -> bool:
        if re.search(r"[*?{}]|/$|\n", path):
            return False
        return has_extension(path) or (
            kind == "code_search" and any(is_line_of_one_file(o) for o in call.outputs)
        )

    def _with_lines(
        self, kind: Category, place: FilePlace, arguments: Mapping[str, Any], call: TracedCall
    ) -> Iterator[FilePlace]:
        lines = self._find_lines(arguments, call) if kind == "file_read" else None
        first, last = lines or (None, None)
        yield FilePlace(place.path, place.repo, first, last)

    def _find_lines(self, arguments: Mapping[str, Any], call: TracedCall) -> tuple[int, int] | None:
        shown = next(
            (lines for o in call.outputs if (lines := find_numbered_lines(split_metadata(o)[0]))), None
        )
        if shown is not None:
            return shown
        find = self._tools.find_values
        pair = next((v for v in find(arguments, "range") if isinstance(v, list) and len(v) == 2), None)  # noqa: PLR2004 - from, to
        first = _as_line(pair[0] if pair else next(find(arguments, "first_line"), None)) or 1
        last = _as_line(pair[1] if pair else next(find(arguments, "last_line"), None))
        count = _as_line(next(find(arguments, "lines"), None))
        if last is not None and last >= first:
            return first, last
        shown_lines = len(call.outputs[0].splitlines()) if call.outputs and call.outputs[0] else 0
        if count is not None:
            return first, first + (min(count, shown_lines) if shown_lines else count) - 1
        is_local = not self._tools.is_server_tool(call.name)
        return (first, first + shown_lines - 1) if shown_lines and is_local else None

    def _iter_returned(
        self, kind: Category, call: TracedCall, arguments: Mapping[str, Any]
    ) -> Iterator[FilePlace]:
        """Files that the results name."""
        is_remote = self._tools.is_server_tool(call.name)
        for output in call.outputs:
            text, filenames = split_metadata(output)
            yield from (FilePlace(name) for name in filenames)
            if is_remote:
                yield from iter_served(
                    text, is_listing=kind == "file_search", repo=self._find_repo(arguments)
                )
            elif kind == "code_search":
                is_content = arguments.get("output_mode") == "content"
                if not (is_content and is_line_of_one_file(text)):
                    yield from iter_matched(text, has_names=not is_content)
            elif kind == "file_search":
                yield from self._iter_below(iter_listed(text), arguments, call)

    def _iter_below(
        self, places: Iterator[FilePlace], arguments: Mapping[str, Any], call: TracedCall
    ) -> Iterator[FilePlace]:
        """Names of a directory's listing stand for files in it."""
        spelled = call.name.casefold()
        is_directory = any(word in spelled for word in ("list", "ls", "tree", "dir"))
        folder = next(
            (v for v in self._tools.find_values(arguments, "directories") if isinstance(v, str)), ""
        )
        for place in places:
            if is_directory and "/" not in place.path:
                if has_extension(place.path) or place.path.startswith("."):
                    yield FilePlace(posixpath.normpath(posixpath.join(folder, place.path)))
            else:
                yield place

    def _find_repo(self, arguments: Mapping[str, Any]) -> str | None:
        named = next(
            (v for v in self._tools.find_values(arguments, "repository") if isinstance(v, str)), None
        )
        if named:
            return named
        query = arguments.get("query")
        asked = set(_QUERIED.findall(query)) if isinstance(query, str) else set()
        return asked.pop().replace("\\", "") if len(asked) == 1 else None

    def _find_symbols(self, kind: ToolKind, arguments: Mapping[str, Any]) -> tuple[str, ...]:
        if kind != "symbol_navigation":
            return ()
        return tuple(v for v in self._tools.find_values(arguments, "symbols") if isinstance(v, str) and v)[:1]


def _iter_paths(value: object, tools: RetrievalTools) -> Iterator[tuple[str, Mapping[str, Any] | None]]:
    """Paths of an argument: one, a list of them, or of objects that have one."""
    if isinstance(value, str):
        if value and len(value) <= 1000 and "\n" not in value and "://" not in value:  # noqa: PLR2004 - longer than any path
            yield value, None
        elif value.startswith("file://"):
            yield value.removeprefix("file://"), None
    elif isinstance(value, list):
        for item in value[:_MOST_FILES]:
            if isinstance(item, dict):
                inner = next(iter(tools.find_values(item, "files")), None)
                if isinstance(inner, str) and inner:
                    yield inner, item
            else:
                yield from _iter_paths(item if isinstance(item, str) else None, tools)
    elif isinstance(value, dict):  # Codex: changes by path
        yield from ((path, None) for path in value if isinstance(path, str) and path)


def _find_patched(text: str) -> list[str]:
    if "*** Begin Patch" in text:
        return [(new or moved).strip() for new, moved in _PATCH_FILE.findall(text)]
    if "\n+++ " in text or text.startswith("--- "):
        patch = read_patch(text, "high")
        return [] if patch is None else list(patch.edits)
    return []


def _recover_arguments(text: str) -> Arguments:
    """What stands whole in an object whose end was cut off; the text itself where it is none."""
    if not text.lstrip().startswith("{"):
        return text
    pairs = ("{" + ",".join(match[0] for match in _PAIR.finditer(text[:_MOST_RECOVERED])) + "}").encode()
    begun = _BEGUN.search(text)
    try:
        found: dict[str, Any] = msgspec.json.decode(pairs, type=dict[str, Any])
        if begun is not None and begun[1] not in found:  # the words of a command before the cut still count
            found[begun[1]] = msgspec.json.decode(f'"{begun[2]}"', type=str)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return text
    return found or text


def _as_line(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 1 else None
