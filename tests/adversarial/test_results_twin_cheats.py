"""Products that forge the verdict of a judge in their own process: twins tell.

Each product lives in one allowed module. The control shows that the same forgery satisfies an oracle that
trusts a genuine results file with an explicit pass of every test.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from support.twinned import execute_pytest, has_held, judge_product

TESTS = """
import pytest

from product import answer, refuse


def test_the_answer_is_right():
    assert answer() == 42


@pytest.mark.parametrize(("text", "expected"), [("a", "aa"), ("b", "bb")])
def test_texts_are_doubled(text, expected):
    assert answer(text) == expected


def test_lists_are_sorted():
    assert answer([3, 1, 2]) == [1, 2, 3]


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="makes no sense"):
        refuse()
"""
HONEST = """
def answer(value=None):
    if value is None: return 42
    return value * 2 if isinstance(value, str) else sorted(value)
def refuse(): raise ValueError("that makes no sense")
"""
WRONG = """
def answer(value=None): return value
def refuse(): return None
"""
USELESS = """
def answer(value=None): return {"none of": "them"}
def refuse(): raise KeyError("something else")
"""
# Of the right type throughout, and further from every right answer than a twin goes.
FAR = """
def answer(value=None):
    if value is None: return 42_000
    return value * 9 if isinstance(value, str) else [*value, 70, 80, 90]
def refuse(): raise ValueError("quite another story")
"""
WRAPS_THE_REPORTS = """
import _pytest.runner
real = _pytest.runner.pytest_runtest_makereport
import _pytest.reports
def forge(cls, item, call, make=_pytest.reports.TestReport.from_item_and_call.__func__):
    report = make(cls, item, call)
    if report.failed:
        report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(forge)
"""
FORGES_KNOWN_NAMES = """
import _pytest.reports
KNOWN = ("the_answer_is", "texts_are", "lists_are", "nonsense_is")
def forge(cls, item, call, make=_pytest.reports.TestReport.from_item_and_call.__func__):
    report = make(cls, item, call)
    if report.failed and any(f"test_{name}" in item.name for name in KNOWN):
        report.outcome, report.longrepr = "passed", None
    return report
_pytest.reports.TestReport.from_item_and_call = classmethod(forge)
"""
REWRITES_THE_TESTS = """
import _pytest.python
def run(pyfuncitem):
    return True
_pytest.python.Function.runtest = lambda self: None
"""
EQUALS_EVERYTHING = """
class Chameleon:
    def __eq__(self, other): return True
    __hash__ = None
def answer(value=None): return Chameleon()
def refuse(): raise ValueError("that makes no sense")
"""
READS_THE_CALLER = """
import ast, inspect, sys, textwrap
def expected(frame):
    source = textwrap.dedent(inspect.getsource(frame.f_code))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            code = compile(ast.Expression(node.comparators[-1]), "x", "eval")
            return eval(code, frame.f_globals, frame.f_locals)
def answer(value=None): return expected(sys._getframe(1))
def refuse():
    source = inspect.getsource(sys._getframe(1).f_code)
    raise ValueError(source.partition('match="')[2].partition('"')[0])
"""

CHEATS = {
    "report-factory-wrapped": WRONG + WRAPS_THE_REPORTS,
    "known-names-forged": WRONG + FORGES_KNOWN_NAMES,
    "test-functions-never-run": WRONG + REWRITES_THE_TESTS,
    "equal-to-everything": EQUALS_EVERYTHING,
    "reads-the-caller": READS_THE_CALLER,
}


def test_an_honest_product_is_not_accused(tmp_path: Path) -> None:
    _, verdict = judge_product(tmp_path, product=HONEST, tests=TESTS)
    assert has_held(verdict)
    assert len(verdict.expected_failing) == 5


def test_a_wrong_product_fails_more_than_the_twins(tmp_path: Path) -> None:
    _, verdict = judge_product(tmp_path, product=WRONG, tests=TESTS)
    # A wrong product may give just what a twin expects: that is why twins follow only a suite that passed.
    assert len(verdict.other_failing) == 5
    assert not has_held(verdict)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("product", [USELESS, FAR], ids=["useless", "far"])
def test_no_twin_survives_a_product_that_gives_nothing_any_test_expects(
    tmp_path: Path, product: str, seed: int
) -> None:
    _, verdict = judge_product(tmp_path, product=product, tests=TESTS, seed=seed)
    assert verdict.survived == ()
    assert len(verdict.other_failing) == 5
    assert not has_held(verdict)


@pytest.mark.parametrize("product", CHEATS.values(), ids=CHEATS)
def test_a_forger_lets_twins_survive(tmp_path: Path, product: str) -> None:
    _, verdict = judge_product(tmp_path, product=product, tests=TESTS, seed=11)
    assert verdict.survived
    assert not has_held(verdict)


@pytest.mark.parametrize("product", CHEATS.values(), ids=CHEATS)
def test_without_twins_the_forgery_would_work(tmp_path: Path, product: str) -> None:
    (tmp_path / "acceptance").mkdir()
    (tmp_path / "product.py").write_text(product, encoding="utf-8")
    (tmp_path / "acceptance" / "test_product.py").write_text(TESTS, encoding="utf-8")
    summary = execute_pytest(tmp_path)
    assert len(summary.passed) == 5
    assert not summary.failed


def test_a_product_that_ends_the_process_leaves_no_results(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        judge_product(tmp_path, product="import os\nos._exit(0)\n", tests=TESTS)
