"""Globs: git's ignore rules, where later patterns win and `!` takes back.

For the policy they are also read as other file systems read names.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.escaping import unescape_text
from repotrial._core.paths import fold_path, resolve_link

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec
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


# What HFS+ leaves out of names, and what NTFS drops at their end.
_INVISIBLE = re.compile("[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]|[ .]+(?=/|$)")


POLICY_GLOB = ErrorCode(
    "policy-glob",
    ContractError,
    "A glob of the policy means nothing, so that it would protect nothing.",
    hint="run `repotrial contract lint`; it names the glob and its place",
)


def compile_globs(patterns: Iterable[str]) -> GitIgnoreSpec:
    """A list of globs.

    Raises:
        ValueError: one of them is not as git reads them.
    """
    from pathspec import GitIgnoreSpec

    with warnings.catch_warnings():
        # A set inside a set compiles today with a warning and may mean something else tomorrow.
        warnings.simplefilter("error", FutureWarning)
        try:
            return GitIgnoreSpec.from_lines(patterns)
        except (re.error, FutureWarning) as error:
            raise ValueError(str(error)) from error


def is_usable_glob(pattern: str) -> bool:
    """Whether the pattern can match anything: it is no comment, not empty, and its brackets are sound."""
    try:
        spec = compile_globs([pattern])
    except ValueError:
        return False
    return any(compiled.include is not None for compiled in spec.patterns)


def fold(path: str) -> str:
    """Equal for names of the trace that some file system takes for the same."""
    return _INVISIBLE.sub("", fold_path(unescape_text(path)))


class PathRules:
    """One list of globs of the policy; later patterns win, `!` takes back."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._exact = _compile(patterns)
        self._folded = _compile([fold_path(pattern.encode()) for pattern in patterns])
        positive = (fold_path(pattern.encode()) for pattern in patterns if not pattern.startswith("!"))
        self._parts = [
            tuple(pattern.strip("/").split("/")) for pattern in positive if "/" in pattern.rstrip("/")
        ]

    def covers(self, path: str) -> bool:
        """Whether the path matches as it is written."""
        return self._exact.match_file(_decode(path))

    def covers_folded(self, path: str) -> bool:
        """Whether it matches where case, composition and invisible characters do not count."""
        return self._folded.match_file(fold(path))

    def may_reach_through(self, path: str, target: str | None) -> bool:
        """Whether a link at `path` makes names that match lead to files that do not.

        Below `path` the globs still have something to match; unless they match the same below the target,
        the link is a way around them.
        """
        below = self._rests(fold(path))
        if not below:
            return False
        resolved = None if target is None else resolve_link(unescape_text(path), target.encode())
        return resolved is None or not below <= self._rests(_INVISIBLE.sub("", fold_path(resolved)))

    def _rests(self, directory: str) -> set[tuple[str, ...]]:
        """What the globs would still have to match inside a directory."""
        components = tuple(directory.split("/")) if directory else ()
        rests = {rest for parts in self._parts for rest in _iter_rests(parts, components)}
        return {rest for rest in rests if rest}


def _iter_rests(parts: tuple[str, ...], components: tuple[str, ...]) -> set[tuple[str, ...]]:
    found = {parts}
    for component in components:
        following: set[tuple[str, ...]] = set()
        for rest in found:
            following |= _step(rest, component)
        found = following
    return found


def _step(rest: tuple[str, ...], component: str) -> set[tuple[str, ...]]:
    if not rest:
        return set()
    if rest[0] == "**":
        return {rest} | _step(rest[1:], component)
    return {rest[1:]} if fnmatchcase(component, rest[0]) else set()


def _decode(path: str) -> str:
    return unescape_text(path).decode("utf-8", "surrogateescape")


def _compile(patterns: Sequence[str]) -> GitIgnoreSpec:
    try:
        spec = compile_globs(patterns)
    except ValueError as error:
        raise POLICY_GLOB.error(
            f"expected globs as git reads them, found {list(patterns)}: {error}"
        ) from error
    idle = [text for text, rule in zip(patterns, spec.patterns, strict=False) if rule.include is None]
    if idle:
        raise POLICY_GLOB.error(f"expected globs that can match, found {idle}")
    return spec
