"""The change as a page shows it: every file named, lines as far as there is room."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.errors import AgentError
from repotrial.change import ChangedFile, read_change

MAX_FILES = 300
MAX_LINES = 6_000
MAX_FILE_LINES = 2_000
MAX_LINE_CHARACTERS = 500
_OPEN_FILE_LINES = 150
_OPEN_LINES = 600
_MAX_LINE_BYTES = 4 * MAX_LINE_CHARACTERS

_START = b"diff --git "
_HUNK = re.compile(rb"@@ -(\d{1,10})(?:,\d{1,10})? \+(\d{1,10})(?:,\d{1,10})? @@")

Sign: TypeAlias = Literal["+", "-", " ", "@", "\\"]
"""Added, removed, unchanged, the head of a hunk, a remark."""


class _DiffLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a hunk."""

    sign: Sign
    old: int | None = None
    new: int | None = None
    text: str
    cut: int = 0
    """So many bytes are not shown."""


class _FileDiff(msgspec.Struct, kw_only=True):
    """One file of the change, as it is read."""

    name: str
    old_name: str | None = None
    kind: str = "changed"
    is_binary: bool = False
    binary_bytes: int | None = None
    added: int = 0
    removed: int = 0
    lines: list[_DiffLine] = []
    lines_left_out: int = 0
    is_open: bool = False


class ChangePage(msgspec.Struct, frozen=True, kw_only=True):
    """All of it."""

    files: tuple[_FileDiff, ...]
    file_count: int
    added: int
    removed: int
    size_bytes: int
    problem: str | None
    """Why it is no patch; None if it is one."""
    anchors: dict[str, int]
    """Where each path is shown."""


def build_change_page(change: bytes | Unknown) -> ChangePage | Unknown:
    """Read a change for display; one that rules cannot read is shown all the same, and said to be so."""
    if isinstance(change, Unknown):
        return change
    known: tuple[ChangedFile, ...] = ()
    problem = None
    try:
        known = read_change(change).files
    except AgentError as error:  # `patch-unreadable`
        problem = error.message
    reader = _Reader()
    for line, length in _iter_lines(change):
        reader.take(line, length)
    if len(known) == reader.file_count:
        for file, fact in zip(reader.files, known, strict=False):
            _describe(file, fact)
    _open_small(reader.files)
    anchors: dict[str, int] = {}
    for index, file in enumerate(reader.files):
        anchors.setdefault(file.name, index)
    return ChangePage(
        files=tuple(reader.files),
        file_count=reader.file_count,
        added=reader.added,
        removed=reader.removed,
        size_bytes=len(change),
        problem=problem,
        anchors=anchors,
    )


def _iter_lines(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The beginning of each line and its whole length; a line may be as long as the patch."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start)
        end = len(data) if end < 0 else end
        yield data[start : min(end, start + _MAX_LINE_BYTES)], end - start
        start = end + 1


class _Reader:
    """Lines of a patch, sorted into files; in a hunk every line has a sign, so none looks like a head."""

    def __init__(self) -> None:
        self.files: list[_FileDiff] = []
        self.file_count = 0
        self.added = 0
        self.removed = 0
        self._file: _FileDiff | None = None
        self._is_in_hunk = False
        self._old = 0
        self._new = 0
        self._room = MAX_LINES

    def take(self, line: bytes, length: int) -> None:
        if line.startswith(_START):
            self._begin(line.removeprefix(_START))
        elif match := _HUNK.match(line):
            self._is_in_hunk = True
            self._old, self._new = int(match[1]), int(match[2])
            self._add("@", line, length)
        elif self._is_in_hunk:
            self._take_content(line, length)
        elif line.startswith(b"GIT binary patch"):
            self._current().is_binary = True

    def _begin(self, name: bytes) -> None:
        self._file = _FileDiff(name=name.decode("utf-8", "replace"))
        self._is_in_hunk = False
        self.file_count += 1
        if len(self.files) < MAX_FILES:
            self.files.append(self._file)

    def _current(self) -> _FileDiff:
        if self._file is None:
            self._begin(b"(no file is named)")
        assert self._file is not None
        return self._file

    def _take_content(self, line: bytes, length: int) -> None:
        match line[:1]:
            case b"+":
                self.added += 1
                self._current().added += 1
                self._add("+", line[1:], length - 1, new=self._new)
                self._new += 1
            case b"-":
                self.removed += 1
                self._current().removed += 1
                self._add("-", line[1:], length - 1, old=self._old)
                self._old += 1
            case b"\\":
                self._add("\\", line[1:], length - 1)
            case _:
                self._add(" ", line[1:], max(0, length - 1), old=self._old, new=self._new)
                self._old, self._new = self._old + 1, self._new + 1

    def _add(
        self, sign: Sign, raw: bytes, length: int, *, old: int | None = None, new: int | None = None
    ) -> None:
        file = self._current()
        is_listed = self.file_count <= MAX_FILES
        if not is_listed or self._room <= 0 or len(file.lines) >= MAX_FILE_LINES:
            file.lines_left_out += 1
            return
        self._room -= 1
        decoded = raw.decode("utf-8", "replace")
        text = decoded[:MAX_LINE_CHARACTERS]
        is_cut = length > len(raw) or len(decoded) > len(text)
        cut = max(1, length - len(text.encode())) if is_cut else 0
        file.lines.append(_DiffLine(sign=sign, old=old, new=new, text=text, cut=cut))


def _describe(file: _FileDiff, fact: ChangedFile) -> None:
    file.name, file.old_name, file.kind = fact.path, fact.old_path, fact.kind
    file.is_binary, file.binary_bytes = fact.is_binary, fact.binary_bytes


def _open_small(files: list[_FileDiff]) -> None:
    """What can be read at once is open; the rest is one click away."""
    room = _OPEN_LINES
    for file in files:
        size = len(file.lines)
        file.is_open = 0 < size <= min(_OPEN_FILE_LINES, room)
        room -= size if file.is_open else 0
