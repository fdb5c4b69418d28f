from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repotrial.authoring import check_told_solution
from repotrial.authoring._leaks import TextChange, check_leaks
from repotrial.contract import LoadedContract
from support.score_runs import build_contract

_OLD = "def fill(text, width):\n    return text[:width]\n"
_NEW = (
    "from textkit.cells import cell_width\n\n\n"
    "def measure(text):\n    return cell_width(text)\n\n\n"
    "def fill(text, width):\n    return cut_at(text, measure(text) - width)\n"
)
_CHANGES = (
    TextChange(path="textkit/wrap.py", old=_OLD, new=_NEW),
    TextChange(path="textkit/cells.py", old=None, new="def cell_width(text):\n    return len(text)\n"),
)


def _codes(line: str) -> list[str]:
    problems = check_leaks(f"# Title\n\n{line}\n", _CHANGES, hidden_paths=["tests/test_wide.py"])
    assert all(problem.severity == "warning" and problem.line == 3 for problem in problems)
    return [problem.code for problem in problems]


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("The new textkit/cells.py knows the widths.", "draft-names-new-file"),
        ("See cells.py.", "draft-names-new-file"),
        ("tests/test_wide.py shows it", "draft-names-check-file"),
        ("We need cell_width for that.", "draft-names-identifier"),
        ("Add `measure` to the module.", "draft-names-identifier"),
        ("It has to call measure(text).", "draft-names-identifier"),
        ("A measure is missing.", "draft-names-identifier"),
        ("    return cut_at(text,   measure(text) - width)", "draft-quotes-code"),
        ("This was fixed by counting cells.", "draft-tells-solution"),
        ("Replace the slice with a loop over cells.", "draft-tells-solution"),
        ("Use cells instead of characters.", "draft-tells-solution"),
        ("This change adds a table of widths.", "draft-tells-solution"),
        ("By adding a table we know the width.", "draft-tells-solution"),
    ],
)
def test_lines_that_give_the_solution_away_are_named(line: str, code: str) -> None:
    assert code in _codes(line)


@pytest.mark.parametrize(
    "line",
    [
        "fill() returns lines that are too wide.",
        "Text with width 10 breaks.",
        "textkit/wrap.py has the function.",
        "The text is cut in the middle.",
        "Nothing imports it from there.",
        "Stand by for loading.",
    ],
)
def test_lines_about_the_problem_are_left_alone(line: str) -> None:
    assert _codes(line) == []


def test_each_reason_is_given_once_for_each_line() -> None:
    problems = check_leaks("cell_width and cut_at\ncell_width\n", _CHANGES)
    assert [(problem.line, problem.code) for problem in problems] == [
        (1, "draft-names-identifier"),
        (2, "draft-names-identifier"),
    ]


def test_removed_files_introduce_nothing() -> None:
    change = TextChange(path="old_module.py", old="def old_name(): ...\n", new=None)
    assert check_leaks("old_module.py has old_name", [change]) == []


def test_hostile_text_is_checked_in_bounded_time() -> None:
    statement = "replace " * 20_000 + "\n" + "fix " * 20_000 + "\n" + "`" * 20_000
    check_leaks(statement, _CHANGES)


def _told(title: str, statement: str, *, reference: bytes | None = b"") -> list[tuple[str, int | None]]:
    loaded = LoadedContract(
        directory=Path(),
        contract=msgspec.structs.replace(build_contract(), title=title),
        statement=statement,
        reference=reference,
        inventories={},
        files=(),
        lock=None,
    )
    problems = check_told_solution(loaded)
    assert {(problem.code, problem.severity) for problem in problems} <= {("draft-tells-solution", "warning")}
    return [(problem.field or problem.file, problem.line) for problem in problems]


@pytest.mark.parametrize(
    "title",
    [
        "Fix rates by rounding up",
        "use ceil instead of floor",
        "Return [] instead of None",
        "Replace the table with a rule",
    ],
)
def test_a_title_that_tells_the_solution_is_named(title: str) -> None:
    assert [place for place, _ in _told(title, "fill() must keep to the width.\n")] == ["title"]
    assert _told(title, "", reference=None) == []


def test_a_statement_that_still_tells_the_solution_is_named_with_its_line() -> None:
    statement = "# Rates\n\nFixed by rounding up.\nUse ceil instead of floor.\n"
    assert _told("Rates are wrong", statement) == [("statement.md", 3), ("statement.md", 4)]


@pytest.mark.parametrize(
    "line",
    [
        "fill() returns two lines instead of one.",
        "A job that is replaced by another one is kept.",
        "It must\nuse the last one instead of the first.",
        "Change requests to the server fail.",
    ],
)
def test_what_an_author_says_of_the_behavior_is_left_alone(line: str) -> None:
    assert _told("fill() returns two lines instead of one", f"{line}\n") == []


def test_names_of_the_language_give_nothing_away_unless_the_change_makes_them_its_own() -> None:
    new = "def fill(text):\n    if not text:\n        raise ValueError(text)\n"
    line = "A `ValueError` is expected, as ValueError(text)."
    assert check_leaks(line, [TextChange(path="a.py", old=_OLD, new=new)]) == []
    own = f"class ValueError(Exception): ...\n{new}"
    problems = check_leaks(line, [TextChange(path="a.py", old=_OLD, new=own)])
    assert [problem.code for problem in problems] == ["draft-names-identifier"]
