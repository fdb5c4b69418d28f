"""Python source as a tree, in any thread.

CPython counts how deep a tree is in one place for all threads. Where the interpreter's lock changes hands
while two of them parse (a finalizer that runs meanwhile is enough), one ends with `SystemError: AST
constructor recursion depth mismatch`: with several runs at a time, a run is lost.
"""

from __future__ import annotations

import ast
import threading
import warnings
from typing import Final

_MAX_CHARACTERS: Final = 2_000_000
_MAX_DOTS: Final = 1_000
"""In one import: the interpreter takes quadratic time for more."""

# Filters of warnings are one for all threads as well. A finalizer may come back here in the same thread,
# which CPython can bear.
_ONE_AT_A_TIME: Final = threading.RLock()


def parse_python(source: str | bytes) -> ast.Module:
    """As `ast.parse` does, one thread after the other, without warnings about what an author wrote.

    Raises:
        SyntaxError: it is not Python.
        ValueError: it contains what no source can.
        RecursionError, MemoryError: it is nested too deep.
    """
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source)


def parse_literal(source: str | ast.expr) -> object:
    """The value of a literal, read and not evaluated; raises what `ast.literal_eval` does."""
    with _ONE_AT_A_TIME, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.literal_eval(source)


def parse_module(source: str) -> ast.Module | None:
    """The syntax tree of a file that may be hostile; None if this interpreter cannot make one."""
    if len(source) > _MAX_CHARACTERS or _has_endless_names(source):
        return None
    try:
        return parse_python(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _has_endless_names(source: str) -> bool:
    """Whether an import, with the lines that continue it, has more dots than real code has."""
    dots, is_import = 0, False
    for line in source.split("\n"):
        dots += line.count(".")
        is_import |= "import" in line or "from" in line
        if is_import and dots > _MAX_DOTS:
            return True
        if not line.endswith("\\"):
            dots, is_import = 0, False
    return False
