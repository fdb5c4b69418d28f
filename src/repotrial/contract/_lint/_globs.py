"""Globs of the policy: git's ignore rules, where later patterns win and `!` takes back."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["Globs", "is_usable_glob"]


class Globs:
    """A list of patterns; those that mean nothing match nothing (`invalid-glob` reports them)."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(patterns)

    @cached_property
    def _spec(self) -> GitIgnoreSpec:
        from pathspec import GitIgnoreSpec

        return GitIgnoreSpec.from_lines(pattern for pattern in self._patterns if is_usable_glob(pattern))

    def matches(self, path: str) -> bool:
        return self._spec.match_file(path)


def is_usable_glob(pattern: str) -> bool:
    """Whether the pattern can match anything: it is no comment, not empty, and its brackets are sound."""
    from pathspec import GitIgnoreSpec

    with warnings.catch_warnings():
        # A set inside a set compiles today with a warning and may mean something else tomorrow.
        warnings.simplefilter("error", FutureWarning)
        try:
            spec = GitIgnoreSpec.from_lines([pattern])
        except (ValueError, re.error, FutureWarning):
            return False
    return any(compiled.include is not None for compiled in spec.patterns)
