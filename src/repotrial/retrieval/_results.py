"""Files that results of tools name: listings, lines of searches, JSON and texts of search servers.

A result is what a model read; only what stands there in a form that names files is taken, prose never.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from repotrial.retrieval._places import FilePlace, has_extension, is_path

_MOST: Final = 50_000
_DEEPEST: Final = 16
_MATCH: Final = re.compile(r"^(?P<path>[^\s:][^:]{0,398}):(?P<line>\d{1,9})(?::|$)")
_PLAIN_MATCH: Final = re.compile(r"^(?P<path>[^\s:][^:\s]{0,398}):(?!//)")
_OF_ONE_FILE: Final = re.compile(r"[ \t]*\d{1,9}[:\-→\t]")
_HEADING: Final = re.compile(r"^#{1,3} (?P<repo>[\w.-]+(?:/[\w.-]+)+) [\u2013\u2014-] (?P<path>\S.*)$")
_BLOB: Final = re.compile(
    r"https?://[^\s/]{1,255}/(?P<repo>[^\s?#]{1,300}?)(?:@[^\s/?#]{1,200})?/-/blob/"
    r"(?P<path>[^\s?#\"'<>)\]]{1,1000})(?:\?L(?P<lines>\d{1,9}(?:-\d{1,9})?))?"
)
_NUMBERED: Final = re.compile(r"^(?P<line>\d{1,9}):(?: |$)")
_SHOWN: Final = re.compile(r"^[ \t]*(?P<line>\d{1,9})(?:→|\t| \| |: )", re.MULTILINE)
_LISTED_SIZE: Final = re.compile(r" \(\d+ bytes\)$")
_CUT_JSON: Final = re.compile(r'"(?:path|file)"\s*:\s*"((?:[^"\\]|\\.){1,400})"')
_CUT_TEXT: Final = re.compile(r'\s*\{\s*"text"\s*:\s*"')
_LONGEST_ESCAPE: Final = 12
_BLOCK: Final = re.compile(r"^\[(?:stdout|stderr|metadata)\]", re.MULTILINE)

_PATH_KEYS: Final = ("path", "file", "filePath", "file_path", "filename", "fileName")
_REPO_KEYS: Final = ("repo", "repository", "repoName", "repository_name")
_LIST_KEYS: Final = ("files", "filenames", "paths")


def split_metadata(text: str) -> tuple[str, tuple[str, ...]]:
    """A result of an ATIF observation without the blocks behind it, and the `filenames` that they name."""
    start = _BLOCK.search(text)
    if start is None:
        return text, ()
    for line in text[start.start() :].splitlines():
        if line.startswith("[metadata] "):
            value = _decode(line.removeprefix("[metadata] "))
            names = value.get("filenames") if isinstance(value, dict) else None
            if isinstance(names, list):
                return text[: start.start()], tuple(name for name in names if isinstance(name, str) and name)
    return text[: start.start()], ()


def iter_listed(text: str) -> Iterator[FilePlace]:
    """Files of a listing, one on a line: of a glob, of a search that shows names, of a directory."""
    for line in _lines(text):
        name = _LISTED_SIZE.sub("", line.strip().removeprefix("[FILE] ").removeprefix("- "))
        if is_path(name, may_have_spaces=name.startswith(("/", "./"))):
            yield FilePlace(name)


def iter_matched(text: str, *, has_names: bool) -> Iterator[FilePlace]:
    """Files of a search: `path:line:text`, `path:count`, and names alone where it shows names.

    Lines of context (`path-line-text`), lines of a single file (`line:text`) and prose name no file.
    """
    for line in _lines(text):
        match = _MATCH.match(line.strip())
        if match is not None:
            if _is_named(match["path"]):
                # `path:3` alone is a count, not a line
                number = int(match["line"]) if match[0].endswith(":") else 0
                yield FilePlace(match["path"], first=number or None, last=number or None)
            continue
        plain = _PLAIN_MATCH.match(line)
        if plain is not None and has_extension(plain["path"]) and is_path(plain["path"]):
            yield FilePlace(plain["path"])
        elif has_names:
            yield from iter_listed(line)


def is_line_of_one_file(text: str) -> bool:
    """Whether a search shows lines without a name: then it looked into one file."""
    return _OF_ONE_FILE.match(text) is not None


def iter_served(text: str, *, is_listing: bool, repo: str | None = None) -> Iterator[FilePlace]:
    """Files of a search server's answer: JSON, headings with numbered lines, addresses, listings."""
    value = _decode(text)
    if isinstance(value, dict) and isinstance(value.get("text"), str) and len(value) <= 2:  # noqa: PLR2004 - text, and what kind
        text, value = value["text"], _decode(value["text"])
    if isinstance(value, dict | list):
        yield from iter_json_places(value, repo)
    elif (begun := _CUT_TEXT.match(text)) is not None:
        yield from _iter_text(_unescape_begun(text[begun.end() :]), is_listing=is_listing, repo=repo)
    elif text.lstrip().startswith(("{", "[")):  # JSON whose end is missing
        for found in _CUT_JSON.finditer(text):
            path = _unescape(found[1])
            if path and not path.endswith("/"):
                yield FilePlace(path, repo)
    else:
        yield from _iter_text(text, is_listing=is_listing, repo=repo)


def iter_json_places(value: Any, repo: str | None, depth: int = 0) -> Iterator[FilePlace]:
    """Every object that names a file, with the lines that it shows; directories are none."""
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in value[:_MOST]:
            yield from iter_json_places(item, repo, depth + 1)
    elif isinstance(value, dict):
        yield from _iter_object_places(value, repo, depth)


def _iter_object_places(value: dict[str, Any], repo: str | None, depth: int) -> Iterator[FilePlace]:
    repo = next((value[key] for key in _REPO_KEYS if isinstance(value.get(key), str)), repo)
    path = next((value[key] for key in _PATH_KEYS if isinstance(value.get(key), str) and value[key]), None)
    if path is not None:
        if value.get("isDirectory") is not True and not path.endswith("/") and "://" not in path:
            yield from _with_ranges(FilePlace(path, repo), _find_ranges(value))
    elif isinstance(value.get("url"), str) and (match := _BLOB.search(unquote(value["url"]))):
        yield _of_address(match)
    for key, item in value.items():
        if isinstance(item, list) and key in _LIST_KEYS:
            names = (name for name in item[:_MOST] if isinstance(name, str) and name)
            yield from (FilePlace(name, repo) for name in names if not name.endswith("/"))
        if isinstance(item, dict | list) and key != "arguments":
            yield from iter_json_places(item, repo, depth + 1)


def _with_ranges(place: FilePlace, ranges: list[tuple[int, int]]) -> Iterator[FilePlace]:
    if not ranges:
        yield place
    yield from (FilePlace(place.path, place.repo, first, last) for first, last in ranges)


def find_numbered_lines(text: str) -> tuple[int, int] | None:
    """First and last number of a text that shows a file's lines with their numbers."""
    numbers = [int(match["line"]) for match in _SHOWN.finditer(text)]
    numbers = [number for number in numbers if number]
    return (numbers[0], max(numbers)) if numbers else None


def _iter_text(text: str, *, is_listing: bool, repo: str | None) -> Iterator[FilePlace]:
    heading: tuple[str, str] | None = None
    shown: list[int] = []
    for line in _lines(text):
        number = _NUMBERED.match(line)
        if number is not None:
            shown.append(int(number["line"]))
            continue
        match = _HEADING.match(line)
        address = _BLOB.search(line) if "/-/blob/" in line else None
        if (match or address) and heading is not None:
            yield from _shown_in(heading, shown)
        if match is not None:
            heading, shown = (match["repo"], match["path"].strip()), []
        elif address is not None:
            place = _of_address(address)
            if line.lstrip().startswith("URL:"):
                heading, shown = (place.repo or "", place.path), []
            else:
                heading = None
                yield place
        elif is_listing and is_path(line.strip()):
            yield FilePlace(line.strip(), repo)
        elif (found := _MATCH.match(line)) and _is_named(found["path"]):
            yield FilePlace(found["path"], repo, int(found["line"]) or None, int(found["line"]) or None)
    if heading is not None:
        yield from _shown_in(heading, shown)


def _shown_in(heading: tuple[str, str], shown: list[int]) -> Iterator[FilePlace]:
    """One place for each run of lines."""
    repo, path = heading
    runs: list[list[int]] = []
    for number in shown:
        if runs and runs[-1][1] + 1 >= number >= runs[-1][0]:
            runs[-1][1] = max(number, runs[-1][1])
        elif number:
            runs.append([number, number])
    if not runs:
        yield FilePlace(path, repo or None)
    yield from (FilePlace(path, repo or None, first, last) for first, last in runs)


def _find_ranges(value: dict[str, Any]) -> list[tuple[int, int]]:
    chunks = value.get("chunks")
    items = [value, *(chunks if isinstance(chunks, list) else [])]
    found = []
    for item in items:
        first, last = (item.get("startLine"), item.get("endLine")) if isinstance(item, dict) else (None, None)
        if isinstance(first, int) and isinstance(last, int) and 1 <= first <= last:
            found.append((first, last))
    return found


def _of_address(match: re.Match[str]) -> FilePlace:
    path, _, query = unquote(match["path"]).partition("?")
    lines = re.match(r"L?(\d+)(?:-(\d+))?", match["lines"] or query)
    first = int(lines[1]) if lines else None
    last = int(lines[2] or lines[1]) if lines else None
    if not first or not last or last < first:
        first = last = None
    return FilePlace(path, match["repo"], first, last)


def _is_named(path: str) -> bool:
    return (has_extension(path) or "/" in path) and is_path(path)


def _lines(text: str) -> list[str]:
    return text.splitlines()[:_MOST]


def _decode(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _unescape_begun(text: str) -> str:
    """The text of a JSON string whose end is missing; the cut may have hit an escape."""
    for cut in range(min(_LONGEST_ESCAPE, len(text)) + 1):
        value = _decode(f'["{text[: len(text) - cut]}"]')
        if isinstance(value, list):
            return str(value[0])
    return ""


def _unescape(text: str) -> str:
    value = _decode(f'["{text}"]')
    return value[0] if isinstance(value, list) else text
