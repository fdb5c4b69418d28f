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
