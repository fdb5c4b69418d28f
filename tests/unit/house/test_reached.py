"""The check that code named in the conformance page is executed by commands."""

from __future__ import annotations

from support.tools import load_tool

reached = load_tool("reached")

PAGE = """\
| id | obligation | state | code | tests |
| --- | --- | --- | --- | --- |
| C1 | one | met | `src/repotrial/a.py` `schemas/x.json` | `tests/x.py` |
| C2 | two | not yet | `src/repotrial/b.py` |  |
| C3 | three | partly: some | `src/repotrial/a.py` | `tests/x.py` |
"""
MODULE = "import os\n\n\ndef act() -> int:\n    return 1\n"


def test_rows_that_are_built_name_the_modules() -> None:
    assert reached.list_named(PAGE) == {"src/repotrial/a.py": ["C1", "C3"]}


def test_a_module_that_was_only_imported_is_not_reached() -> None:
    assert not reached.is_reached(MODULE, {1, 4})
    assert reached.is_reached(MODULE, {1, 4, 5})


def test_a_module_without_functions_is_reached_by_importing_it() -> None:
    assert reached.is_reached("WIDTH = 3\n", {1})
    assert not reached.is_reached("WIDTH = 3\n", set())
