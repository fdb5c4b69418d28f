"""The table of deliberate breakages fits the tree, and the tool tells a notice from anything else."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from support.tools import load_tool

tool = load_tool("mutants")


def test_every_breakage_fits_the_tree_and_a_row() -> None:
    rows = tool.list_row_tests(tool.PAGE.read_text(encoding="utf-8"))
    assert tool.list_problems(tool.load_mutants(), rows) == []


def test_a_row_names_functions_and_whole_files_of_unit_tests() -> None:
    named = ("tests/unit/a/test_x.py", "tests/scenario/test_y.py::test_z", "tests/scenario/test_whole.py")
    page = f"| X1 | about | met | `src/a.py` | {' '.join(f'`{name}`' for name in named)} |  |"
    assert tool.list_row_tests(page) == {"X1": (named[1], named[0])}


def _build(root: Path, test: str) -> object:
    (root / "src").mkdir()
    (root / "src" / "product.py").write_text("def double(n):\n    return n * 2\n")
    (root / "tests").mkdir()
    body = f"import sys\nsys.path.insert(0, 'src')\n\ndef test_a():\n    {test}\n"
    (root / "tests" / "test_a.py").write_text(body)
    return tool.Mutant(id="m", requirement="X1", file="src/product.py", find="* 2", replace="* 3")


@pytest.mark.parametrize(
    ("test", "answer"),
    [
        ("from product import double; assert double(2) == 4", "noticed"),
        ("from product import double; assert double(0) == 0", "every named test passed"),
    ],
)
def test_only_a_test_that_fails_is_a_notice(tmp_path: Path, test: str, answer: str) -> None:
    mutant = _build(tmp_path, test)
    found = tool.try_mutant(mutant, ["tests/test_a.py::test_a"], tmp_path, Path(sys.executable))
    assert found == answer
    assert "* 2" in (tmp_path / "src" / "product.py").read_text()


def test_a_test_that_fails_without_a_breakage_is_named(tmp_path: Path) -> None:
    _build(tmp_path, "assert False")
    python = Path(sys.executable)
    assert tool.find_failing(["tests/test_a.py::test_a"], tmp_path, python) == ["tests/test_a.py::test_a"]
    (tmp_path / "tests" / "test_a.py").write_text("def test_a():\n    pass\n")
    assert tool.find_failing(["tests/test_a.py::test_a"], tmp_path, python) == []


def test_a_name_that_pytest_does_not_find_is_no_notice(tmp_path: Path) -> None:
    mutant = _build(tmp_path, "assert False")
    found = tool.try_mutant(mutant, ["tests/test_a.py::test_other"], tmp_path, Path(sys.executable))
    assert found.startswith("the tests did not run")


def test_a_text_that_stands_twice_or_a_row_without_functions_is_a_problem(tmp_path: Path) -> None:
    mutant = _build(tmp_path, "assert True")
    (tmp_path / "src" / "product.py").write_text("x = 1 * 2 * 2\n")
    assert tool.list_problems([mutant], {}, tmp_path) == [
        "m: expected its text once in src/product.py, found it 2 times",
        "m: expected a row X1 that names test functions",
    ]
