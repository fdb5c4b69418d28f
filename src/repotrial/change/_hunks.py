"""The bodies of a patch: hunks of lines, counted as their headers say, and git's binary form."""

from __future__ import annotations

import base64
import re
import zlib
from typing import NoReturn

import msgspec

from repotrial._core.display import neutralize
from repotrial._core.paths import find_path_fault
from repotrial.change._model import PATCH_UNREADABLE, AddedLine

_SHOWN_CHARACTERS = 100
_MIB = 1024**2


class PatchLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a patch may be before it is refused."""

    patch_bytes: int = 768 * _MIB
    """All of it."""
    files: int = 50_000
    """Entries."""
    lines: int = 1_000_000
    """Lines added and removed; each becomes an object."""
    binary_bytes: int = 512 * _MIB
    """Content in the binary form, before and after, unpacked."""


DEFAULT_LIMITS = PatchLimits()


class Cursor:
    """A position in a patch."""

    def __init__(self, patch: bytes, limits: PatchLimits) -> None:
        if len(patch) > limits.patch_bytes:
            raise PATCH_UNREADABLE.error(
                f"expected a patch of at most {limits.patch_bytes} bytes, found {len(patch)}"
            )
        if patch and not patch.endswith(b"\n"):
            raise PATCH_UNREADABLE.error("expected a newline at the end of the patch, found none")
        self._patch = patch
        self._limits = limits
        self._lines_left = limits.lines
        self._binary_left = limits.binary_bytes
        self._number = 1
        self.position = 0
        """Offset of the next line."""

    @property
    def is_at_end(self) -> bool:
        return self.position >= len(self._patch)

    def starts_with(self, prefix: bytes) -> bool:
        """Whether the next line begins so."""
        return self._patch.startswith(prefix, self.position)

    def take(self, expected: str) -> bytes:
        """The next line, without its newline."""
        if self.is_at_end:
            self.fail(expected, b"the end of the patch")
        end = self._patch.index(b"\n", self.position)
        line = self._patch[self.position : end]
        self.position = end + 1
        self._number += 1
        return line

    def peek(self) -> bytes:
        """The next line's beginning, for a complaint."""
        if self.is_at_end:
            return b"the end of the patch"
        end = self._patch.index(b"\n", self.position)
        return self._patch[self.position : min(end, self.position + 4 * _SHOWN_CHARACTERS)]

    def spend_line(self) -> None:
        """Count a changed line."""
        self._lines_left -= 1
        if self._lines_left < 0:
            raise PATCH_UNREADABLE.error(
                f"expected at most {self._limits.lines} changed lines in a patch, found more"
            )

    def spend_binary(self, size: int) -> None:
        """Count unpacked content, before it is unpacked."""
        self._binary_left -= size
        if self._binary_left < 0:
            raise PATCH_UNREADABLE.error(
                f"expected at most {self._limits.binary_bytes} bytes of binary content, found more"
            )

    def fail(self, expected: str, found: bytes | None = None) -> NoReturn:
        """Refuse the patch; without `found`, for the line that comes next."""
        number = self._number if found is None else max(1, self._number - 1)
        shown = neutralize(
            (self.peek() if found is None else found)[: 4 * _SHOWN_CHARACTERS].decode("utf-8", "replace"),
            max_characters=_SHOWN_CHARACTERS,
        )
        raise PATCH_UNREADABLE.error(f"patch line {number}: expected {expected}, found '{shown}'")


_QUOTED = re.compile(rb'"((?:[^"\\\x00-\x1f]|\\[abtnvfr"\\]|\\[0-3][0-7]{2})*)"')
_PAIR = re.compile(rb'("(?:[^"\\]|\\.)*"|\S+) ("(?:[^"\\]|\\.)*"|\S+)')
_LAST = re.compile(rb'(.+) ("b/.*"|b/[^"]*)', re.DOTALL)
_ESCAPE = re.compile(rb'\\([0-3][0-7]{2}|[abtnvfr"\\])')
_CONTROL = dict(zip(b"abtnvfr", b"\a\b\t\n\v\f\r", strict=True))
# What git never leaves without quotes; a reader that guesses could read another name than git does.
_NEEDS_QUOTES = re.compile(rb'[\x00-\x1f\x7f"\\]')
_MAX_BYTES = 4096


def parse_name(text: bytes, cursor: Cursor) -> bytes:
    """A name that fills the rest of a line."""
    if text.startswith(b'"'):
        match = _QUOTED.fullmatch(text)
        return _unquote(match[1]) if match is not None else cursor.fail("a quoted name", text)
    if not text or _NEEDS_QUOTES.search(text):
        cursor.fail("a name, in quotes where it needs them", text)
    return text


def parse_side(text: bytes, prefix: bytes, cursor: Cursor) -> bytes | None:
    """The name in a `---` or `+++` line; None for `/dev/null`."""
    # git ends a name that has a space with a tab, so that a space at its end is seen.
    name = parse_name(text.removesuffix(b"\t"), cursor)
    if name == b"/dev/null":
        return None
    if not name.startswith(prefix):
        cursor.fail(f"a name that begins with '{prefix.decode()}'", text)
    return name.removeprefix(prefix)


def find_common_name(rest: bytes) -> bytes | None:
    """The name that both sides of `diff --git a/… b/…` share; None where they differ or cannot be told."""
    if rest.startswith(b'"'):
        match = _QUOTED.match(rest)
        name = None if match is None else _unquote(match[1])
        return name.removeprefix(b"a/") if name is not None and name.startswith(b"a/") else None
    half, odd = divmod(len(rest) - 1, 2)
    first, second = rest[:half], rest[half + 1 :]
    if odd or rest[half : half + 1] != b" " or not first.startswith(b"a/") or not second.startswith(b"b/"):
        return None
    return first[2:] if first[2:] == second[2:] else None


def guess_names(rest: bytes) -> tuple[bytes, bytes]:
    """The old and the new name of a `diff --git` line, with their prefixes; spaces can make it a guess."""
    half = len(rest) // 2
    if not rest.startswith(b'"') and (common := find_common_name(rest)) is not None:
        return b"a/" + common, b"b/" + common
    if rest[:half] == rest[half + 1 :]:
        return unquote(rest[:half]), unquote(rest[:half])  # written without prefixes
    if pair := _PAIR.fullmatch(rest) or _LAST.fullmatch(rest):
        return unquote(pair[1]), unquote(pair[2])
    old, _, new = rest.rpartition(b" ")
    return old, new


def verify_header(rest: bytes, old: bytes, new: bytes, cursor: Cursor) -> None:
    """Refuse a `diff --git` line that does not name exactly these two files."""
    expected = "the same names in 'diff --git' as in the lines below it"
    if rest.startswith(b'"'):
        match = _QUOTED.match(rest)
        if match is None or _unquote(match[1]) != b"a/" + old:
            cursor.fail(expected, rest)
        left = rest[match.end() :]
    elif rest.startswith(b"a/" + old) and not _NEEDS_QUOTES.search(old):
        left = rest[2 + len(old) :]
    else:
        cursor.fail(expected, rest)
    if not left.startswith(b" ") or parse_name(left[1:], cursor) != b"b/" + new:
        cursor.fail(expected, rest)


def verify_name(name: bytes, cursor: Cursor) -> None:
    """Refuse names that could leave the tree or pass for git's own data."""
    if len(name) > _MAX_BYTES:
        cursor.fail(f"a path of at most {_MAX_BYTES} bytes", name)
    if (fault := find_path_fault(name)) is not None:
        cursor.fail(f"a plain relative path (there is {fault})", name)


def unquote(text: bytes) -> bytes:
    """A name without its quotes, if it has any."""
    match = _QUOTED.fullmatch(text)
    return text if match is None else _unquote(match[1])


def _unquote(body: bytes) -> bytes:
    return _ESCAPE.sub(_unescape, body)


def _unescape(match: re.Match[bytes]) -> bytes:
    body = match[1]
    return bytes([int(body, 8) if body.isdigit() else _CONTROL.get(body[0], body[0])])


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
