r"""Names in patch headers: plain, or a C string where a byte would be misread (`"b/\303\244.txt"`)."""

from __future__ import annotations

import re

from repotrial._core.paths import find_path_fault
from repotrial.change._cursor import Cursor

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
