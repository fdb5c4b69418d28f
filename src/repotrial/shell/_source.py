"""Bytes for the shell grammar: here-documents taken out, and bounded so that no text makes the parser slow.

The grammar's error recovery takes time that grows with the square of what it cannot read. Short texts are
parsed whole. Of longer ones, quoted strings are masked (their bytes are read from the original), and the rest
is parsed in pieces that end where a line of the script ends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import msgspec
import tree_sitter_bash
from tree_sitter import Language, Node, Parser

SUBSTITUTIONS: Final = frozenset({"command_substitution", "process_substitution"})
_LANGUAGE = Language(tree_sitter_bash.language())


def parse_bytes(data: bytes) -> Node:
    """The root of the syntax."""
    return Parser(_LANGUAGE).parse(data).root_node


def iter_substitution_nodes(node: Node) -> Iterator[Node]:
    """Substitutions anywhere below a node, in order; not those within them."""
    waiting = node.children[::-1]
    while waiting:
        child = waiting.pop()
        if child.type in SUBSTITUTIONS:
            yield child
        else:
            waiting.extend(reversed(child.children))


_WHOLE_BYTES: Final = 4 * 1024
_LINE_BYTES: Final = 8 * 1024
_LOOSE_BYTES: Final = 24 * 1024
"""Of a text without what is masked."""
_MAX_BYTES: Final = 1024**2
_MAX_DOCUMENTS: Final = 200

_SURROGATES = re.compile("[\ud800-\udfff]")
_BRACED_COMMAND = re.compile(rb"(?:(?<=^)|(?<=[\s;&|(]))\{([^\s{}'\"$`;&|()]*,[^\s{}'\"$`;&|()]*)\}")
_TOKEN = re.compile(
    rb"""(?P<escape>\\.)|(?P<raw>\$'(?:[^'\\]|\\.)*'|'[^']*')|(?P<string>"(?:[^"\\]|\\.)*")"""
    rb"""|(?P<comment>(?:(?<=^)|(?<=[\s;&|()]))\#[^\n]*)"""
    rb"""|(?P<here>(?<!<)<<(?P<tabs>-?)[ \t]*"""
    rb"""(?:'(?P<q1>[^'\n]+)'|"(?P<q2>[^"\n]+)"|\\?(?P<q3>[A-Za-z_!][\w.-]*)))"""
    rb"""|(?P<line>\n)""",
    re.DOTALL | re.VERBOSE,
)


class HereDocument(msgspec.Struct, frozen=True, kw_only=True):
    """Input that stands in the script."""

    text: str
    """Its lines, before anything in them is filled in."""
    is_raw: bool
    """Whether nothing in it would be filled in."""
    start: int | None
    """Where it stands byte for byte; None where tabs were taken off or bytes are no text."""


class _Piece(msgspec.Struct, frozen=True, kw_only=True):
    """A part of the text that is parsed by itself."""

    start: int
    data: bytes
    """What the grammar is given, as long as the original."""


class ShellSource(msgspec.Struct, frozen=True, kw_only=True):
    """A text, ready for the grammar."""

    original: bytes
    pieces: tuple[_Piece, ...]
    documents: dict[int, HereDocument]
    """Here-documents by the place of their operator, where the grammar sees a plain redirection."""
    unread_from: int | None = None
    """Where reading stopped; None where all of it is in the pieces."""


def build_source(text: str) -> ShellSource:
    """Encode a text without moving a byte, and cut it where it is too long to be parsed whole."""
    original = text.encode("utf-8", "surrogatepass")
    readable = _SURROGATES.sub("\ufffd", text).encode() if len(original) != len(text) else original
    readable = readable.replace(b"\0", b"?").replace(b"\r\n", b" \n").replace(b"<>", b">>")
    readable = _BRACED_COMMAND.sub(_open_braces, readable)
    is_long = len(readable) > _WHOLE_BYTES
    if not is_long and b"<<" not in readable:
        return ShellSource(original=original, pieces=(_Piece(start=0, data=readable),), documents={})
    masked = bytearray(readable[:_MAX_BYTES])
    documents: dict[int, HereDocument] = {}
    lines = list(_iter_lines(bytes(masked), masked, documents, hides_strings=is_long))
    pieces, end = _cut(masked, lines) if is_long else ((_Piece(start=0, data=bytes(masked)),), len(masked))
    unread = end if end < len(original) else None
    return ShellSource(original=original, pieces=pieces, documents=documents, unread_from=unread)


def _open_braces(match: re.Match[bytes]) -> bytes:
    """`{rm,-rf,~}` is the command `rm -rf ~`; as long as before."""
    return b" " + match[1].replace(b",", b" ") + b" "


def _cut(masked: bytearray, lines: list[tuple[int, int]]) -> tuple[tuple[_Piece, ...], int]:
    """Pieces of whole lines, none with more loose text than can be parsed in bounded time."""
    pieces: list[_Piece] = []
    first = end = loose = total = 0
    for line_end, size in lines:
        if size > _LINE_BYTES or total + size > _LOOSE_BYTES:
            break
        if loose + size > _WHOLE_BYTES:
            pieces.append(_Piece(start=first, data=bytes(masked[first:end])))
            first, loose = end, 0
        loose += size
        total += size
        end = line_end
    if end > first:
        pieces.append(_Piece(start=first, data=bytes(masked[first:end])))
    return tuple(pieces), end


def _iter_lines(
    data: bytes, masked: bytearray, documents: dict[int, HereDocument], *, hides_strings: bool
) -> Iterator[tuple[int, int]]:
    """Ends of the script's own lines, and how much of each is neither quoted nor a here-document."""
    position = line_start = hidden = 0
    waiting: list[re.Match[bytes]] = []
    while (found := _TOKEN.search(data, position)) is not None:
        position = found.end()
        if found["here"] is not None:
            waiting.append(found)
        elif found["line"] is not None:
            for each in waiting:
                position, size = _take_document(data, position, each, masked, documents)
                hidden += size
            waiting.clear()
            yield position, position - line_start - hidden
            line_start, hidden = position, 0
        elif hides_strings and _is_plain(found):
            hidden += _mask(masked, found.start() + 2, found.end() - 1, b"x")
    if line_start < len(data):
        yield len(data), len(data) - line_start - hidden


def _is_plain(found: re.Match[bytes]) -> bool:
    return found["raw"] is not None or (found["string"] is not None and not re.search(rb"[$`]", found[0]))


def _take_document(
    data: bytes,
    start: int,
    found: re.Match[bytes],
    masked: bytearray,
    documents: dict[int, HereDocument],
) -> tuple[int, int]:
    """Make a plain redirection of a here-document that has an end; answers where it ends and its size."""
    word = found["q1"] or found["q2"] or found["q3"]
    closing = re.compile(rb"^\t*" + re.escape(word) + rb"[ \t\r]*$", re.MULTILINE).search(data, start)
    if closing is None or len(documents) >= _MAX_DOCUMENTS:
        return start, 0
    raw = data[start : closing.start()]
    body = raw.decode("utf-8", "replace")
    if found["tabs"]:
        body = re.sub(r"^\t+", "", body, flags=re.MULTILINE)
    place = start if body.encode() == raw else None
    documents[found.start()] = HereDocument(
        text=body, is_raw=found["q3"] is None or b"\\" in found["here"], start=place
    )
    masked[found.start() + 1 : found.end()] = b"h" * (found.end() - found.start() - 1)
    return min(closing.end() + 1, len(data)), _mask(masked, start, closing.end(), b" ")


def _mask(masked: bytearray, start: int, end: int, filler: bytes) -> int:
    """Hide what lies between; answers how much that is."""
    if end <= start:
        return 0
    masked[start:end] = re.sub(rb"[^\n]", filler, bytes(masked[start:end]))
    return end - start
