"""Twins of honest products: they fail, all of them, and nothing else does."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.judging import Twin, build_python_twins
from repotrial.judging._results._summary import ResultsSummary
from repotrial.judging._twins._judge import PairedTest, judge_twins, pair_tests
from support.twinned import execute_pytest, has_held, judge_product

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "contracts" / "textkit-wide-chars"

PRODUCT = """
import asyncio
class Point:
    def __init__(self, x): self.x = x
    def __eq__(self, other): return isinstance(other, Point) and self.x == other.x
def echo(value): return value
def fail(message): raise ValueError(message)
async def later(value): return value
"""
# Each test is a way of stating an expectation; each passes on the product above.
TESTS = r'''
"""Ways of stating an expectation."""
import asyncio
import contextlib
import re
import unittest
from decimal import Decimal
from textwrap import dedent

import pytest

from product import Point, echo, fail, later

LIMIT = 3
NAMES = ["a", "b"]
CASES = [(1, 1), (2, 2)]


@pytest.fixture
def five():
    return 5


def test_int(): assert echo(4) == 4
def test_str():
    assert echo("abc") == 'abc'  # a comment, kept
def test_empty_str(): assert echo("") == ""
def test_blank(): assert echo("  ") == "  "
def test_escape(): assert echo("\n\t") == "\n\t"
def test_bytes(): assert echo(b"abc") == b"abc"
def test_float(): assert echo(0.5) == 0.5
def test_negative(): assert echo(-1) == -1
def test_bool(): assert echo(True) == True
def test_is_bool(): assert echo(False) is False
def test_none(): assert echo(None) is None
def test_equals_none(): assert echo(None) == None
def test_list(): assert echo([1, [2, "x"]]) == [1, [2, "x"]]
def test_no_list(): assert echo([]) == []
def test_tuple(): assert echo((1, "a")) == (1, "a")
def test_set(): assert echo({1, 2}) == {1, 2}
def test_set_of_list(): assert echo({1, 2}) == set([1, 2])
def test_dict(): assert echo({"a": 1}) == {"a": 1}
def test_no_dict(): assert echo({}) == {}
def test_sum(): assert echo("a") + "b" == echo("a") + "b"
def test_repeat(): assert echo("ababab") == "ab" * 3
def test_f_string(): assert echo("3 of 4") == f"{LIMIT} of 4"
def test_join(): assert echo("a\nb") == "\n".join(["a", "b"])
def test_dedent():
    assert echo("a\n  b\n") == dedent("""\
        a
          b
        """)
def test_decimal(): assert echo(Decimal("1.50")) == Decimal("1.50")
def test_approx(): assert echo(3.14159265) == pytest.approx(3.14159265)
def test_loose_approx(): assert echo(3.2) == pytest.approx(3, abs=1)
def test_constant(): assert echo(3) == LIMIT
def test_chain(): assert 1 < echo(3) == 3
def test_reversed(): assert "x" == echo("x")
def test_call(): assert echo("abc") == str("abc").strip()
def test_object(): assert echo(Point(1)) == Point(1)
def test_infinity(): assert echo(float("inf")) == float("inf")
def test_less(): assert echo(3) <= LIMIT
def test_not_equal(): assert echo(3) != 4
def test_in(): assert "needle text" in echo("a needle text here")
def test_in_short(): assert "a" in echo("aaaa")
def test_not_in(): assert "x" not in echo("abc")
def test_truth(): assert echo([1])
def test_no_truth(): assert not echo([])
def test_or(): assert echo(0) or echo(1)
def test_and(): assert echo(1) and echo("b") == "b"
def test_isinstance(): assert isinstance(echo(1), int)
def test_local():
    expected = ["a", "b"]
    assert echo(["a", "b"]) == expected
def test_local_is_input():
    text = "abc"
    assert echo(text) == text
def test_fixture(five, tmp_path): assert echo(five) == 5
@pytest.mark.parametrize(("given", "expected"), [(1, 1), ("a", "a"), pytest.param([1], [1], id="list")])
def test_table(given, expected): assert echo(given) == expected
@pytest.mark.parametrize("value", [1, 2])
def test_table_of_inputs(value): assert echo(value) == value
@pytest.mark.parametrize("given, expected", CASES)
def test_named_table(given, expected): assert echo(given) == expected
def test_raises():
    with pytest.raises(ValueError):
        fail("x")
def test_raises_match():
    with pytest.raises(ValueError, match="no such thing"):
        fail("no such thing")
def test_raises_pattern():
    with pytest.raises((ValueError, KeyError), match=r"a|b+"):
        fail("a")
def test_raises_then():
    with pytest.raises(ValueError) as caught:
        fail("the message of it")
    assert "the message" in str(caught.value)
def test_loop():
    for name in NAMES:
        assert echo(name) in NAMES
def test_with():
    with contextlib.nullcontext():
        assert echo(1) == 1
def test_async():
    async def inner():
        assert await later(1) == 2
    assert asyncio.run(later(1)) == 1


class TestGroup:
    # Stands before the method.
    def test_method(self):
        """A docstring
        of two lines."""
        assert echo("m") == "m"

    class TestInner:
        def test_deep(self): assert echo(2) == 2


class TestBase:
    value = 1
    def test_inherited(self): assert echo(self.value) == self.value + 0


class TestChild(TestBase):
    value = 2


class CaseOfUnittest(unittest.TestCase):
    def testCamelCase(self): self.assertEqual(echo(1), 1)
    def test_equal_call(self): self.assertEqual(echo("a"), echo("a"), "message")
    def test_list_equal(self): self.assertListEqual(echo([1]), [1])
    def test_count_equal(self): self.assertCountEqual(echo([1, 2]), [2, 1])
    def test_almost(self): self.assertAlmostEqual(echo(0.1), 0.1)
    def test_true(self): self.assertTrue(echo(True))
    def test_in(self): self.assertIn("a", echo("abc"))
    def test_none(self): self.assertIsNone(echo(None))
    def test_greater(self): self.assertGreater(echo(2), 1)
    def test_raises(self):
        with self.assertRaises(ValueError):
            fail("x")
    def test_raises_call(self): self.assertRaises(ValueError, fail, "x")
    def test_raises_regex(self):
        with self.assertRaisesRegex(ValueError, "the cause"):
            fail("the cause")
'''
NOT_TWINNED = """
import pytest
def helper(): assert 1 == 1
def test_without_assertion(): helper()
def test_branch():
    if helper() is None: assert 1 == 1
def test_early_end():
    if True: return
    assert 1 == 1
def test_swallowed():
    try: assert 1 == 1
    except AssertionError: pass
@pytest.mark.xfail
def test_expected_failure(): assert 1 == 2
@pytest.mark.skip(reason="x")
def test_never(): assert 1 == 1
def test_shadowed(): assert 1 == 1
def test_shadowed(): helper()
@pytest.fixture
def test_fixture(): assert 1 == 1
"""


@pytest.mark.parametrize("seed", [1, 2])
def test_an_honest_product_fails_exactly_the_twins(tmp_path: Path, seed: int) -> None:
    twinned, verdict = judge_product(tmp_path, product=PRODUCT, tests=TESTS, seed=seed)
    assert verdict.survived == verdict.other_failing == ()
    assert verdict.missing == verdict.evaded == ()
    assert twinned.skipped == ()
    assert has_held(verdict)
    assert {twin.kind for twin in twinned.twins} == {"literal", "letters", "helper", "operator", "exception"}
    assert (
        0 < sum(twin.name == twin.original.rpartition(".")[2] for twin in twinned.twins) < len(twinned.twins)
    )


def test_every_seed_gives_source_that_compiles() -> None:
    sources = [build_python_twins(TESTS.encode(), path="t.py", seed=seed).source for seed in range(20)]
    for source in sources:
        compile(source, "t.py", "exec")
    assert len(set(sources)) == 20
    assert build_python_twins(TESTS.encode(), path="t.py", seed=3).source == sources[3]


def test_tests_that_cannot_be_made_wrong_for_certain_have_no_twin() -> None:
    twinned = build_python_twins(NOT_TWINNED.encode(), path="t.py", seed=1)
    assert twinned.twins == ()
    assert twinned.source == NOT_TWINNED.encode()
    assert [item.original for item in twinned.skipped] == [
        "test_without_assertion",
        "test_branch",
        "test_early_end",
        "test_swallowed",
        "test_expected_failure",
        "test_never",
        "test_shadowed",
        "test_shadowed",
    ]


@pytest.mark.parametrize(
    "source",
    [
        b"def test_a():\r\n    assert f() == 'x'\r\n",
        b"\xef\xbb\xbfdef test_a():\n\tassert f() == 'x'",
        "# coding: latin-1\ndef test_ä():\n    assert f() == 'ü'\n".encode("latin-1"),
        b"from __future__ import annotations\nclass TestA:\n  def test_a(self): assert f() == g()",
    ],
    ids=["crlf", "bom-and-tab", "latin-1", "two-spaces"],
)
def test_files_of_every_habit_keep_it(source: bytes) -> None:
    twinned = build_python_twins(source, path="t.py", seed=1)
    assert len(twinned.twins) == 1
    assert len([node for node in ast.walk(ast.parse(twinned.source)) if isinstance(node, ast.Assert)]) == 2
    assert (b"\r\n" in source) == (b"\r\n" in twinned.source)


@given(st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_no_file_is_too_strange(source: bytes) -> None:
    twinned = build_python_twins(source, path="t.py", seed=1)
    assert twinned.twins or twinned.source == source


def test_the_example_contract_has_a_twin_for_every_test(tmp_path: Path) -> None:
    shutil.copytree(EXAMPLE / "repo", tmp_path, dirs_exist_ok=True)
    subprocess.run(["git", "apply", str(EXAMPLE / "reference.patch")], cwd=tmp_path, check=True)
    (tmp_path / "acceptance").mkdir()
    twins: list[Twin] = []
    for file in sorted((EXAMPLE / "checks").rglob("test_*.py")):
        path = f"acceptance/{file.name}"
        twinned = build_python_twins(file.read_bytes(), path=path, seed=20260307)
        (tmp_path / path).write_bytes(twinned.source)
        assert twinned.skipped == ()
        twins += twinned.twins
    summary = execute_pytest(tmp_path)
    assert has_held(judge_twins(summary, twins))
    assert len(summary.passed) == len(summary.failed)


def _summary(*, passed: str = "", failed: str = "", skipped: str = "") -> ResultsSummary:
    sets = [frozenset(text.split()) for text in (passed, failed, skipped)]
    return ResultsSummary(passed=sets[0], failed=sets[1], skipped=sets[2], duplicates=frozenset())


def _twin(name: str, true_name: str) -> Twin:
    return Twin(
        path="a/test_m.py", original="TestC.test_r", name=name, true_name=true_name, kind="literal", line=1
    )


def test_a_skipped_twin_of_a_passing_test_has_evaded() -> None:
    twin = _twin("test_x", "test_r")
    evaded = judge_twins(_summary(passed="a.test_m.TestC::test_r", skipped="a.test_m.TestC::test_x"), [twin])
    assert evaded.evaded == (twin,)
    assert not has_held(evaded)
    idle = judge_twins(_summary(skipped="a.test_m.TestC::test_r a.test_m.TestC::test_x"), [twin])
    assert (idle.idle, idle.evaded) == ((twin,), ())
    assert judge_twins(_summary(passed="a.test_m.TestC::test_r"), [twin]).missing == (twin,)
    assert judge_twins(_summary(skipped="a.test_m"), [twin]).idle == (twin,), "skipped as a whole"


@pytest.mark.parametrize(
    "place", ["a.test_m.TestC", "test_m.TestC", "root.a.test_m.TestC", "py:a.test_m.TestC"]
)
def test_a_swapped_twin_is_found_by_its_place(place: str) -> None:
    twin = _twin("test_r", "test_x")
    summary = _summary(
        passed=f"{place}::test_x b.test_o::test_r", failed=f"{place}::test_r[1] {place}::test_r[::]"
    )
    verdict = judge_twins(summary, [twin])
    assert has_held(verdict)
    assert len(verdict.expected_failing) == 2


def test_every_parameter_of_a_test_is_paired_under_the_names_of_the_run() -> None:
    twins = [_twin("test_r", "test_x")]
    kept = "b.test_o::test_r"
    pairs = pair_tests(
        ["a.test_m.TestC::test_r[1]", "a.test_m.TestC::test_r[::]", kept, "no id at all"], twins
    )
    assert list(pairs.values()) == [
        PairedTest("a.test_m.TestC::test_x[1]", "a.test_m.TestC::test_r"),
        PairedTest("a.test_m.TestC::test_x[::]", "a.test_m.TestC::test_r"),
        PairedTest(kept, None),
        PairedTest("no id at all", None),
    ]
