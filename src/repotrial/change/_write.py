"""One file's change in the form that `git apply` reads; written without git.

A rename is a deletion and an addition: similarity is a guess, and a guess is no evidence. A file that becomes
a link (or a link a file) is likewise both, as git itself writes it. Text is what git takes for text; long
texts are written in the binary form, whose time and size are linear.
"""

from __future__ import annotations

import base64
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from enum import Enum

import msgspec

from repotrial._core.digest import name_blob

_STEPS = 400_000
_MAX_EDITS = 400

Block = tuple[int, int, int, int]
"""A change: lines `[a, b)` of the old text become lines `[c, d)` of the new one."""


def find_blocks(old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """The changes from one text to another, in order, none touching the next."""
    return _join(_Comparison(old, new).compare())


class _Comparison:
    def __init__(self, old: Sequence[bytes], new: Sequence[bytes]) -> None:
        numbers: dict[bytes, int] = {}
        self._old = [numbers.setdefault(line, len(numbers)) for line in old]
        self._new = [numbers.setdefault(line, len(numbers)) for line in new]
        self._left_steps = _STEPS

    def compare(self) -> list[Block]:
        start, old_end, new_end = self._trim()
        blocks: list[Block] = []
        old_at = new_at = start
        for old_line, new_line in [
            *self._find_anchors(start, old_end, start, new_end),
            (old_end, new_end),
        ]:
            blocks += self._compare_piece(old_at, old_line, new_at, new_line)
            old_at, new_at = old_line + 1, new_line + 1
        return blocks

    def _trim(self) -> tuple[int, int, int]:
        """Where the texts begin to differ, and where each has ended before an equal rest."""
        old, new = self._old, self._new
        start, b, d = 0, len(old), len(new)
        while start < min(b, d) and old[start] == new[start]:
            start += 1
        while min(b, d) > start and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        return start, b, d

    def _find_anchors(self, a: int, b: int, c: int, d: int) -> list[tuple[int, int]]:
        """Lines that occur once in each piece, as the longest chain that ascends in both."""
        old_places, new_places = _find_unique(self._old, a, b), _find_unique(self._new, c, d)
        pairs = [(place, new_places[line]) for line, place in old_places.items() if line in new_places]
        return _find_longest_chain(sorted(pairs))

    def _compare_piece(self, a: int, b: int, c: int, d: int) -> list[Block]:
        old, new = self._old, self._new
        while a < b and c < d and old[a] == new[c]:
            a, c = a + 1, c + 1
        while a < b and c < d and old[b - 1] == new[d - 1]:
            b, d = b - 1, d - 1
        if a == b and c == d:
            return []
        if a == b or c == d:
            return [(a, b, c, d)]
        matches = self._match(a, b, c, d)
        return [(a, b, c, d)] if matches is None else _build_blocks(matches, (a, b, c, d))

    def _match(self, a: int, b: int, c: int, d: int) -> list[tuple[int, int]] | None:
        """Equal lines by the shortest edit script (Myers 1986); None where that would take too long."""
        old, new = self._old[a:b], self._new[c:d]
        furthest = {1: 0}
        history: list[dict[int, int]] = []
        for edits in range(min(len(old) + len(new), _MAX_EDITS) + 1):
            history.append(dict(furthest))
            for diagonal in range(-edits, edits + 1, 2):
                x = _step(furthest, diagonal, edits)
                y = x - diagonal
                while x < len(old) and y < len(new) and old[x] == new[y]:
                    x, y = x + 1, y + 1
                    self._left_steps -= 1
                furthest[diagonal] = x
                if x >= len(old) and y >= len(new):
                    return [(a + i, c + j) for i, j in _trace(history, len(old), len(new))]
            self._left_steps -= 2 * edits + 1
            if self._left_steps < 0:
                return None
        return None


def _step(furthest: dict[int, int], diagonal: int, edits: int) -> int:
    """One more line taken from the old or the new text, whichever leads further."""
    if diagonal == -edits or (
        diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
    ):
        return furthest.get(diagonal + 1, 0)
    return furthest[diagonal - 1] + 1


def _trace(history: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    matches = []
    for edits in range(len(history) - 1, -1, -1):
        furthest, diagonal = history[edits], x - y
        start = _step(furthest, diagonal, edits)
        while x > start and y > start - diagonal:
            x, y = x - 1, y - 1
            matches.append((x, y))
        is_insertion = diagonal == -edits or (
            diagonal != edits and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        x, y = (x, y - 1) if is_insertion else (x - 1, y)
    return matches[::-1]


def _build_blocks(matches: list[tuple[int, int]], piece: Block) -> list[Block]:
    a, b, c, d = piece
    blocks = []
    for old_line, new_line in [*matches, (b, d)]:
        if a < old_line or c < new_line:
            blocks.append((a, old_line, c, new_line))
        a, c = old_line + 1, new_line + 1
    return blocks


def _find_unique(lines: Sequence[int], start: int, end: int) -> dict[int, int]:
    places: dict[int, int] = {}
    repeated: set[int] = set()
    for place in range(start, end):
        line = lines[place]
        if line in places:
            repeated.add(line)
        places[line] = place
    return {line: place for line, place in places.items() if line not in repeated}


def _find_longest_chain(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The longest run of pairs, sorted by the first, whose second ascends too."""
    tails: list[int] = []
    tail_at: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        length = bisect_left(tails, value)
        before.append(tail_at[length - 1] if length else -1)
        if length == len(tails):
            tails.append(value)
            tail_at.append(index)
        else:
            tails[length], tail_at[length] = value, index
    chain = []
    index = tail_at[-1] if tail_at else -1
    while index >= 0:
        chain.append(pairs[index])
        index = before[index]
    return chain[::-1]


def _join(blocks: list[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        if joined and joined[-1][1] == block[0] and joined[-1][3] == block[2]:
            joined[-1] = (joined[-1][0], block[1], joined[-1][2], block[3])
        else:
            joined.append(block)
    return joined


TEXT_BYTES = 4 * 1024**2
"""Longer files are written in the binary form."""

_SNIFFED_BYTES = 8000
_CONTEXT = 3
_NOTHING = "0" * 40
_LINE_BYTES = 52
_ESCAPES = {7: b"a", 8: b"b", 9: b"t", 10: b"n", 11: b"v", 12: b"f", 13: b"r", 34: b'"', 92: b"\\"}
_PRINTABLE = range(0x20, 0x7F)


class BlobMode(Enum):
    """The three kinds of files that git knows."""

    REGULAR = "100644"
    EXECUTABLE = "100755"
    SYMLINK = "120000"


class Blob(msgspec.Struct, frozen=True, kw_only=True):
    """A file or link as git stores it."""

    mode: BlobMode
    data: bytes
    """Content, or the link's target."""

    @property
    def object_id(self) -> str:
        return name_blob(self.data)


class FilePatch(msgspec.Struct, frozen=True, kw_only=True):
    """The change of one path, and what it amounts to."""

    patch: bytes
    lines_added: int = 0
    lines_removed: int = 0
    binary_bytes: int = 0
    """Bytes of the new content, where it is written in the binary form."""
    has_conflict_markers: bool = False
    """Whether the lines that were added hold the marks of an unfinished merge."""


def is_text(data: bytes) -> bool:
    """What git takes for text."""
    return b"\0" not in data[:_SNIFFED_BYTES]


def build_file_patch(path: bytes, old: Blob | None, new: Blob | None) -> FilePatch:
    """The change of a path from one state to another; None: nothing is there."""
    if old is not None and new is not None and _is_link(old) != _is_link(new):
        removal, addition = build_file_patch(path, old, None), build_file_patch(path, None, new)
        return _add(removal, addition)
    before, after = b"" if old is None else old.data, b"" if new is None else new.data
    head = b"".join(_iter_head(path, old, new))
    if before == after:
        return FilePatch(patch=head)
    if _is_written_as_text(before) and _is_written_as_text(after):
        return _build_text(path, old, new, head=head)
    body = b"GIT binary patch\n" + _render_literal(after) + _render_literal(before)
    return FilePatch(patch=head + body, binary_bytes=len(after))


def quote_path(path: bytes, prefix: bytes) -> bytes:
    """A path as git writes it in headers: plain where it can be, else a C string."""
    name = prefix + path
    if all(byte in _PRINTABLE and byte not in _ESCAPES for byte in name):
        return name
    return b'"' + b"".join(_quote_byte(byte) for byte in name) + b'"'


def _quote_byte(byte: int) -> bytes:
    if byte in _ESCAPES:
        return b"\\" + _ESCAPES[byte]
    return bytes([byte]) if byte in _PRINTABLE else b"\\%03o" % byte


def _is_link(blob: Blob) -> bool:
    return blob.mode is BlobMode.SYMLINK


def _is_written_as_text(data: bytes) -> bool:
    # A zero byte further on is text to git as well, but not to everything that reads patches.
    return len(data) <= TEXT_BYTES and b"\0" not in data


def _add(first: FilePatch, second: FilePatch) -> FilePatch:
    return FilePatch(
        patch=first.patch + second.patch,
        lines_added=first.lines_added + second.lines_added,
        lines_removed=first.lines_removed + second.lines_removed,
        binary_bytes=first.binary_bytes + second.binary_bytes,
        has_conflict_markers=first.has_conflict_markers or second.has_conflict_markers,
    )


def _iter_head(path: bytes, old: Blob | None, new: Blob | None) -> Iterator[bytes]:
    yield b"diff --git %s %s\n" % (quote_path(path, b"a/"), quote_path(path, b"b/"))
    suffix = ""
    if old is None and new is not None:
        yield f"new file mode {new.mode.value}\n".encode()
    elif new is None and old is not None:
        yield f"deleted file mode {old.mode.value}\n".encode()
    elif old is not None and new is not None and old.mode is not new.mode:
        yield f"old mode {old.mode.value}\nnew mode {new.mode.value}\n".encode()
    elif old is not None:
        suffix = f" {old.mode.value}"
    old_id, new_id = (_NOTHING if blob is None else blob.object_id for blob in (old, new))
    if old_id != new_id:
        yield f"index {old_id}..{new_id}{suffix}\n".encode()


# -- text ------------------------------------------------------------------------------------------------


def _build_text(path: bytes, old: Blob | None, new: Blob | None, *, head: bytes) -> FilePatch:
    before, after = _split_lines(old), _split_lines(new)
    blocks = find_blocks(before, after)
    tab = b"\t" if b" " in path else b""  # so that a space at the end is seen to belong to the name
    names = (
        b"--- %s\n" % (b"/dev/null" if old is None else quote_path(path, b"a/") + tab),
        b"+++ %s\n" % (b"/dev/null" if new is None else quote_path(path, b"b/") + tab),
    )
    hunks = b"".join(_iter_hunks(before, after, blocks))
    added = [line for _, _, c, d in blocks for line in after[c:d]]
    return FilePatch(
        patch=head + b"".join(names) + hunks,
        lines_added=len(added),
        lines_removed=sum(b - a for a, b, _, _ in blocks),
        has_conflict_markers=any(line.startswith(b"<<<<<<< ") for line in added)
        and any(line.startswith(b">>>>>>> ") for line in added),
    )


def _split_lines(blob: Blob | None) -> list[bytes]:
    """Lines with their newline; nothing else ends one, whatever Python takes for a line."""
    if blob is None or not blob.data:
        return []
    *lines, last = blob.data.split(b"\n")
    return [line + b"\n" for line in lines] + ([last] if last else [])


def _iter_hunks(old: Sequence[bytes], new: Sequence[bytes], blocks: Sequence[Block]) -> Iterator[bytes]:
    for group in _group(blocks):
        first, last = group[0], group[-1]
        lead = min(_CONTEXT, first[0])
        tail = min(_CONTEXT, len(old) - last[1])
        old_range = _render_range(first[0] - lead, last[1] + tail)
        new_range = _render_range(first[2] - lead, last[3] + tail)
        yield b"@@ -%s +%s @@\n" % (old_range, new_range)
        at = first[0] - lead
        for a, b, c, d in group:
            yield from _render_lines(b" ", old[at:a])
            yield from _render_lines(b"-", old[a:b])
            yield from _render_lines(b"+", new[c:d])
            at = b
        yield from _render_lines(b" ", old[at : at + tail])


def _group(blocks: Sequence[Block]) -> Iterator[list[Block]]:
    """Blocks whose contexts touch belong into one hunk."""
    group: list[Block] = []
    for block in blocks:
        if group and block[0] - group[-1][1] > 2 * _CONTEXT:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _render_range(start: int, end: int) -> bytes:
    count = end - start
    if count == 0:
        return b"%d,0" % start
    return b"%d" % (start + 1) if count == 1 else b"%d,%d" % (start + 1, count)


def _render_lines(sign: bytes, lines: Sequence[bytes]) -> Iterator[bytes]:
    for line in lines:
        yield sign + line
        if not line.endswith(b"\n"):
            yield b"\n\\ No newline at end of file\n"


# -- binary ----------------------------------------------------------------------------------------------


def _render_literal(data: bytes) -> bytes:
    packed = zlib.compress(data, 6)
    lines = [b"literal %d\n" % len(data)]
    for start in range(0, len(packed), _LINE_BYTES):
        chunk = packed[start : start + _LINE_BYTES]
        length = len(chunk)
        letter = chr(ord("A") + length - 1 if length <= 26 else ord("a") + length - 27)  # noqa: PLR2004 - letters
        lines.append(letter.encode() + base64.b85encode(chunk, pad=True) + b"\n")
    lines.append(b"\n")
    return b"".join(lines)
