"""Versions of tools against constraints such as `>=3.11,<4` (the language of a contract's `tools`).

Only the leading numbers count: tools name their builds in too many ways (`2.43.0.windows.1`, `3.13.0rc1`).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable

Version = tuple[int, ...]

_CLAUSE = re.compile(r"\s*(==|>=|<=|>|<|~=|!=)\s*([0-9][0-9A-Za-z.+-]*)\s*", re.ASCII)
_NUMBERS = re.compile(r"[vV]?([0-9]{1,100}(?:\.[0-9]{1,100})*)", re.ASCII)


def parse_version(text: str) -> Version | None:
    """The leading numbers of a version; None if there are none."""
    match = _NUMBERS.match(text.strip())
    return tuple(int(part) for part in match[1].split(".")) if match else None


def meets(version: str, constraint: str) -> bool:
    """Whether a version meets every clause; what cannot be read is not met."""
    found = parse_version(version)
    return found is not None and all(_meets_clause(found, clause) for clause in constraint.split(","))


def _meets_clause(found: Version, clause: str) -> bool:
    match = _CLAUSE.fullmatch(clause)
    wanted = parse_version(match[2]) if match else None
    if match is None or wanted is None:
        return False
    # `3.11` and `3.11.0` are the same version.
    length = max(len(found), len(wanted))
    left, right = _padded(found, length), _padded(wanted, length)
    if match[1] == "~=":  # `~=3.11.2` accepts 3.11.2 and every later 3.11
        return left >= right and left[: len(wanted) - 1] == wanted[:-1]
    return _COMPARISONS[match[1]](left, right)


_COMPARISONS: dict[str, Callable[[Version, Version], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


def _padded(numbers: Version, length: int) -> Version:
    return numbers + (0,) * (length - len(numbers))
