"""Python source as a tree, in any thread.

CPython counts how deep a tree is in one place for all threads. Where the interpreter's lock changes hands
while two of them parse (a finalizer that runs meanwhile is enough), one ends with `SystemError: AST
constructor recursion depth mismatch`: with several runs at a time, a run that is lost to nobody's fault.
"""

from __future__ import annotations

import ast
import threading
import warnings
from typing import Final

__all__ = ["parse_python"]

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
