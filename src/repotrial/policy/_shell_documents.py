"""Commands that stand in a here-document: a shell runs them while it fills the text in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["iter_substitutions"]

_MAX_SUBSTITUTIONS: Final = 50
_OPENING = re.compile(r"\\.|\$\(\(|\$\(|`", re.DOTALL)
_INSIDE = re.compile(r"""\\.|'[^']*'|"(?:[^"\\]|\\.)*"|[()]""", re.DOTALL)
_BACKTICK = re.compile(r"\\.|`", re.DOTALL)


def iter_substitutions(text: str) -> Iterator[tuple[int, str]]:
    """Where commands in `$(…)` and in backticks begin, and the commands; without an end, all that follows."""
    position = count = 0
    while count < _MAX_SUBSTITUTIONS and (found := _OPENING.search(text, position)) is not None:
        position = found.end()
        if found[0] in {"$(", "$(("}:
            start = found.start() + 2
            end = _find_closing(text, start)
            if found[0] == "$((" and _find_closing(text, start + 1) == end - 1:
                continue  # a sum; what is run for it comes next
        elif found[0] == "`":
            start, end = position, _find_backtick(text, position)
        else:
            continue
        count += 1
        position = end + 1
        yield start, text[start:end]


def _find_closing(text: str, start: int) -> int:
    depth = 1
    for found in _INSIDE.finditer(text, start):
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        if not depth:
            return found.start()
    return len(text)


def _find_backtick(text: str, start: int) -> int:
    return next((found.start() for found in _BACKTICK.finditer(text, start) if found[0] == "`"), len(text))
