"""The bodies of a patch: hunks of lines, counted as their headers say, and git's binary form."""

from __future__ import annotations

import base64
import re
import zlib

import msgspec

from repotrial.change._cursor import Cursor
from repotrial.change._model import AddedLine

_HUNK = re.compile(rb"@@ -(\d{1,10})(?:,(\d{1,10}))? \+(\d{1,10})(?:,(\d{1,10}))? @@(?: .*)?", re.DOTALL)
_HUNK_LIKE = re.compile(rb"@@ -\d+(?:,\d+)? \+\d+(?:,\d+)? @@|@@ -[-+,\d ]*\d{11}")
_BLOCK = re.compile(rb"(literal|delta) (\d{1,12})")
_NO_NEWLINE = b"\\ No newline at end of file"
_UPPER = 26
_SIZE_BYTES = 10
"""More than any size takes in a delta's header."""


class Body(msgspec.Struct, frozen=True, kw_only=True):
    """What the body of an entry brings."""

    added: tuple[AddedLine, ...] = ()
    removed: tuple[str, ...] = ()
    has_context: bool = False
    is_binary: bool = False
    new_bytes: int | None = None


class Hunks:
    """The lines of one file's hunks, as they are read.

    Args:
        is_strict: Whether line numbers must agree, as git writes them. Other tools are not so exact; then
            only the counts matter, and unchanged lines are kept.
    """

    def __init__(self, cursor: Cursor, *, is_strict: bool) -> None:
        self._cursor = cursor
        self._is_strict = is_strict
        self.added: list[AddedLine] = []
        self.removed: list[str] = []
        self.context: list[str] = []
        """Only if not strict: a hostile patch can be long."""
        self.has_context = False
        self._old_end = 0
        self._is_old_over = False
        self._is_new_over = False

    @staticmethod
    def is_next(cursor: Cursor) -> bool:
        """Whether a hunk follows, be it with numbers that no file has."""
        return cursor.starts_with(b"@@ ") and _HUNK_LIKE.match(cursor.peek()) is not None

    def read(self) -> None:
        """One hunk."""
        line = self._cursor.take("a hunk")
        match = _HUNK.fullmatch(line) if self._is_strict else _HUNK.match(line)
        if match is None:
            self._cursor.fail("a hunk header '@@ -1,2 +1,3 @@'", line)
        old_start, old_count, new_start, new_count = (
            1 if part is None else int(part) for part in match.groups()
        )
        # An empty side names the line before it, any other its first line.
        old_at = old_start - (1 if old_count else 0)
        new_at = new_start - (1 if new_count else 0)
        offset = len(self.added) - len(self.removed)
        if self._is_strict and (old_at < self._old_end or new_at != old_at + offset):
            self._cursor.fail("hunks in order, with line numbers that agree", line)
        changed = len(self.added) + len(self.removed)
        self._read_lines(old_count, new_count, number=new_at + 1)
        if self._is_strict and len(self.added) + len(self.removed) == changed:
            self._cursor.fail("a hunk that changes something", line)
        self._old_end = old_at + old_count

    def _read_lines(self, old_left: int, new_left: int, *, number: int) -> None:
        while old_left or new_left:
            line = self._cursor.take("the rest of a hunk")
            if not self._is_strict:
                line = line.rstrip(b"\r")
            sign = line[:1] or b" "  # git can be told to leave out the blank of an empty line
            is_old, is_new = sign in b" -", sign in b" +"
            if not (is_old or is_new) or (is_old and not old_left) or (is_new and not new_left):
                self._cursor.fail("as many lines as the hunk's header counts", line)
            if (is_old and self._is_old_over) or (is_new and self._is_new_over):
                self._cursor.fail("nothing after a line without a newline", line)
            self._add(sign, line[1:], number)
            old_left, new_left, number = old_left - is_old, new_left - is_new, number + is_new
            if self._cursor.starts_with(b"\\"):
                self._read_no_newline(is_old=is_old, is_new=is_new)

    def _read_no_newline(self, *, is_old: bool, is_new: bool) -> None:
        line = self._cursor.take("a remark")
        if not self._is_strict:
            return  # it is written in the language of the user
        if line != _NO_NEWLINE:
            self._cursor.fail(f"'{_NO_NEWLINE.decode()}'", line)
        self._is_old_over |= is_old
        self._is_new_over |= is_new

    def _add(self, sign: bytes, raw: bytes, number: int) -> None:
        if sign == b" ":
            self.has_context = True
            if self._is_strict:
                return
        self._cursor.spend_line()
        text = raw.decode("utf-8", "replace")
        match sign:
            case b"+":
                self.added.append(AddedLine(number, text))
            case b"-":
                self.removed.append(text)
            case _:
                self.context.append(text)


def read_hunks(cursor: Cursor) -> Body:
    """All hunks of one file, as git writes them."""
    hunks = Hunks(cursor, is_strict=True)
    while cursor.starts_with(b"@@ "):
        hunks.read()
    if not (hunks.added or hunks.removed):
        cursor.fail("a hunk")
    return Body(added=tuple(hunks.added), removed=tuple(hunks.removed), has_context=hunks.has_context)


def read_binary(cursor: Cursor) -> Body:
    """The two blocks of git's binary form: content after the change, then before it."""
    new_bytes = _read_block(cursor)
    if cursor.starts_with(b"literal ") or cursor.starts_with(b"delta "):
        _read_block(cursor)
    return Body(is_binary=True, new_bytes=new_bytes)


def _read_block(cursor: Cursor) -> int:
    """Size of the content that a block makes."""
    line = cursor.take("a binary block")
    match = _BLOCK.fullmatch(line)
    if match is None:
        cursor.fail("'literal' or 'delta' and a size", line)
    size = int(match[2])
    cursor.spend_binary(size)
    packed = []
    while line := cursor.take("an empty line after a binary block"):
        packed.append(_decode_line(line, cursor))
    data = _inflate(b"".join(packed), size, cursor)
    return size if match[1] == b"literal" else _read_target_size(data, cursor)


def _decode_line(line: bytes, cursor: Cursor) -> bytes:
    letter, coded = line[:1], line[1:]
    if not letter.isalpha():
        cursor.fail("a line of a binary block", line)
    length = ord(letter) - ord("A") + 1 if letter.isupper() else ord(letter) - ord("a") + 1 + _UPPER
    if len(coded) != -(-length // 4) * 5:
        cursor.fail("a binary line of the length that it states", line)
    try:
        return base64.b85decode(coded)[:length]
    except ValueError:
        cursor.fail("base85", line)


def _inflate(packed: bytes, size: int, cursor: Cursor) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        data = unpacker.decompress(packed, size + 1)
    except zlib.error:
        cursor.fail("binary content that can be unpacked", b"damaged content")
    if len(data) != size or not unpacker.eof or unpacker.unused_data:
        cursor.fail(f"{size} bytes of binary content", b"another amount")
    return data


def _read_target_size(delta: bytes, cursor: Cursor) -> int:
    """A delta begins with the sizes before and after, seven bits at a time."""
    sizes, size, shift = [], 0, 0
    for byte in delta[: 2 * _SIZE_BYTES]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            sizes.append(size)
            size, shift = 0, 0
        if len(sizes) == len(("before", "after")):
            cursor.spend_binary(sizes[-1])
            return sizes[-1]
    return cursor.fail("a delta with the sizes before and after", b"none")
