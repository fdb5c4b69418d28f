"""Shell commands: files that they read, search, list or write, by their words and by what they print."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, TypeAlias

import msgspec

from repotrial.retrieval._documents import Category
from repotrial.retrieval._places import FilePlace, PlaceNames, has_extension, is_path
from repotrial.retrieval._results import iter_matched, iter_served
from repotrial.shell import FileAccess, ShellScript, find_file_accesses, parse_shell

Found: TypeAlias = tuple[Category, FilePlace]

_CATEGORIES: Final[dict[str, Category]] = {
    "read": "file_read",
    "search": "code_search",
    "list": "file_search",
    "write": "file_write",
}
_PATTERN: Final = re.compile(r"[*?\[\]{}$]")
_NOT_CONTENT: Final = frozenset({"mkdir", "rmdir", "chmod", "chown"})
"""They write, but no file's content."""
_NO_SUCH: Final = re.compile(
    r"[:\s'\"`\u2018](?P<path>[^\s:'\"`\u2018\u2019]+)['\"`\u2019]?: "
    r"(?:No such file or directory|Is a directory)"
)
_LONG_LIST: Final = re.compile(r"^(?P<kind>[-dlbcps])[rwxsStT-]{9}[.+@]?\s+\d+\s")
_LONG_FIELDS: Final = 9
_MOST_PIECES: Final = 100
_PIPED: Final = frozenset({"ls", "head", "tail", "sort", "cd", "grep", "uniq", "cat"})
_SERVED: Final = re.compile(
    r"^(?:#{1,3} \S{1,400} [\u2013\u2014] |URL: https?://\S{1,800}/-/blob/)", re.MULTILINE
)
_WRAPPED: Final = re.compile(r"\A(?:.*\n)??(?:Output:[ \n]|<output>\n)", re.DOTALL)


class _Search(msgspec.Struct, frozen=True):
    """A search or a listing whose output names files."""

    directory: str
    """Where the command ran."""
    below: str
    """What it looked through, seen from where the script began."""
    category: Category
    has_files_only: bool
    """Whether it names no directories."""


def mine_shell(commands: Sequence[str], output: str | None, directory: str, names: PlaceNames) -> list[Found]:
    """Files that commands touch, in order.

    Args:
        commands: What was run, one script after the other, all in the same directory.
        output: What it printed; None if it failed or is unknown.
        directory: Where it ran.
        names: What belongs to the repository.
    """
    text = None if output is None else unwrap_output(output)
    missing = {match["path"] for match in _NO_SUCH.finditer(text or "")}
    found: list[Found] = []
    scripts: list[ShellScript] = []
    for command in commands:
        place = directory
        for piece in _split(command):
            scripts.append(script := parse_shell(piece))
            for access in find_file_accesses(script, place):
                found.extend(_read_access(access, script, names, missing))
            if text and len(commands) == 1:
                found.extend(_mine_output(script, text, place, names))
            place = find_last_directory(piece, place)
    return _measure_whole(found, scripts, text)


def _split(text: str) -> list[str]:
    """A script in pieces that the grammar reads rightly.

    After several pipes with redirections it can take the next line for more arguments; a plain newline
    between two words of a command shows that.
    """
    pieces: list[str] = []
    while (end := _find_lost_newline(text)) is not None and len(pieces) < _MOST_PIECES:
        data = text.encode("utf-8", "surrogatepass")
        pieces.append(data[:end].decode("utf-8", "surrogatepass"))
        text = data[end + 1 :].decode("utf-8", "surrogatepass")
    return [*pieces, text]


def _find_lost_newline(text: str) -> int | None:
    data = text.encode("utf-8", "surrogatepass")
    for command in parse_shell(text).commands:
        for one, other in pairwise(command.words if not command.nesting else ()):
            gap = data[one.end : other.start]
            if b"\n" in gap and b"\\\n" not in gap and not gap.strip():
                return one.end + gap.index(b"\n")
    return None


def find_last_directory(command: str, directory: str) -> str:
    """Where a shell is after a command; where it was if that cannot be told."""
    last = parse_shell(f"{command}\npwd").commands[-1:]
    if not last or last[0].name != "pwd" or last[0].cwd is None or last[0].cwd.startswith("~"):
        return directory
    return posixpath.normpath(posixpath.join(directory, last[0].cwd))


def unwrap_output(text: str) -> str:
    """What a command printed, without what an agent's tool wrote around it."""
    if text.lstrip().startswith("{"):
        try:
            value = msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return text
        inner = value.get("output", value.get("stdout")) if isinstance(value, dict) else None
        return inner if isinstance(inner, str) else text
    head = _WRAPPED.match(text[:2000])
    return text[head.end() :].removesuffix("</output>") if head else text


def _read_access(
    access: FileAccess, script: ShellScript, names: PlaceNames, missing: set[str]
) -> Iterator[Found]:
    path, command = access.path, script.commands[access.command]
    if (
        _PATTERN.search(path)
        or not names.is_inside(path)
        or path.endswith("/")
        or command.name in _NOT_CONTENT
    ):
        return
    if command.name == "git" and access.kind == "write" and "add" in command.argv[:3]:
        return
    if missing & {path, *(word.text for word in command.arguments if path.endswith(word.text))}:
        return
    if access.kind == "list" or (access.kind == "search" and not has_extension(path)):
        return  # what it prints says which files
    lines = access.line_range
    if lines is None:
        yield _CATEGORIES[access.kind], FilePlace(path)
    else:
        yield _CATEGORIES[access.kind], FilePlace(path, None, lines.first, lines.last)


def _mine_output(script: ShellScript, text: str, directory: str, names: PlaceNames) -> Iterator[Found]:
    if _SERVED.search(text):  # search servers have command lines, too
        for place in iter_served(text, is_listing=False):
            is_shown = f"/-/blob/{place.path}" in text
            yield "file_read" if is_shown else "code_search", place
        return
    if _is_plain_listing(script):
        yield from _mine_listing(script, text, directory, names)
        return
    searches = list(_iter_searches(script, directory))
    if not searches:
        return
    for place in iter_matched(text, has_names=True):
        for search in searches:
            path = posixpath.normpath(posixpath.join(search.directory, place.path))
            if _is_below(path, place.path, search) and names.is_inside(path):
                yield search.category, msgspec.structs.replace(place, path=path)
                break


def _iter_searches(script: ShellScript, directory: str) -> Iterator[_Search]:
    for access in find_file_accesses(script, directory):
        command = script.commands[access.command]
        if access.kind == "list" or (access.kind == "search" and not has_extension(access.path)):
            if command.name == "ls":
                continue
            below = posixpath.normpath(_PATTERN.split(access.path, maxsplit=1)[0] or ".")
            place = posixpath.normpath(posixpath.join(directory, command.cwd or "."))
            only = access.kind == "search" or command.name == "git" or {"-type", "f"} <= set(command.argv)
            yield _Search(place, below, _CATEGORIES[access.kind], only)


def _is_below(path: str, spelled: str, search: _Search) -> bool:
    is_rooted = spelled.startswith(("./", "/")) or (search.below != "." and "/" in spelled)
    if not has_extension(spelled) and not (search.has_files_only and is_rooted):
        return False
    return search.below in {".", path} or path.startswith(f"{search.below}/")


def _is_plain_listing(script: ShellScript) -> bool:
    names = [command.name for command in script.commands]
    return names.count("ls") == 1 and not set(names) - _PIPED


def _mine_listing(script: ShellScript, text: str, directory: str, names: PlaceNames) -> Iterator[Found]:
    listed = [access for access in find_file_accesses(script, directory) if access.kind == "list"]
    if len(listed) != 1 or not names.is_inside(listed[0].path) or _PATTERN.search(listed[0].path):
        return
    folder = listed[0].path
    for line in text.splitlines():
        if (header := re.fullmatch(r"(\.?[^\s:]*):", line)) is not None and "/" in line:
            folder = posixpath.normpath(posixpath.join(directory, header[1]))
            continue
        name = _read_listed(line)
        if name is not None and is_path(name, may_have_spaces=_LONG_LIST.match(line) is not None):
            if posixpath.basename(folder) == posixpath.basename(name):  # a file was listed, not a directory
                yield "file_search", FilePlace(folder)
                continue
            yield (
                "file_search",
                FilePlace(name if name.startswith("/") else posixpath.normpath(f"{folder}/{name}")),
            )


def _read_listed(line: str) -> str | None:
    """The file on a line of `ls`; short lists do not tell directories from files without an ending."""
    if (kind := _LONG_LIST.match(line)) is not None:
        fields = line.split(None, _LONG_FIELDS - 1)
        return fields[-1] if kind["kind"] == "-" and len(fields) == _LONG_FIELDS else None
    name = line.strip().rstrip("*")
    return name if has_extension(name) and " " not in name else None


def _measure_whole(found: list[Found], scripts: list[ShellScript], text: str | None) -> list[Found]:
    """What one command prints of one file from a line on is known by its length."""
    if text is None or len(scripts) != 1 or len(scripts[0].commands) != 1 or len(found) != 1:
        return [(category, _close(place)) for category, place in found]
    category, place = found[0]
    name = scripts[0].commands[0].name
    if category == "file_read" and place.last is None and name in {"cat", "nl", "bat", "sed", "awk", "tail"}:
        count = len(text.rstrip("\n").splitlines())
        first = place.first or (None if name in {"tail", "awk", "sed"} else 1)
        if count and first is not None:
            return [(category, msgspec.structs.replace(place, first=first, last=first + count - 1))]
    return [(category, _close(place))]


def _close(place: FilePlace) -> FilePlace:
    """Without lines where their end is not known."""
    return place if place.last is not None else msgspec.structs.replace(place, first=None)
