from __future__ import annotations

import pytest

from repotrial.authoring._python_tests import PythonTestFile, build_python_inventory

_OLD = """
import unittest

def test_same() -> None:
    assert 1 == 1

def test_changed() -> None:
    assert 1 == 1

class TestThing:
    def test_inner(self): ...
"""
_NEW = """
import unittest
import pytest

def test_same() -> None:
    # a comment changes nothing
    assert 1 == 1

def test_changed() -> None:
    assert 2 == 2

async def test_new(): ...

def helper(): ...

@pytest.mark.parametrize("x", [1, 2])
def test_many(x): ...

class TestThing:
    def test_inner(self): ...
    class TestDeep:
        def test_deeper(self): ...

class CasesAreTests(unittest.TestCase):
    def test_case(self): ...
    def helper(self): ...

class TestWithConstructor:
    def __init__(self): ...
    def test_not_collected(self): ...

class Helper:
    def test_not_collected(self): ...

if True:
    def test_guarded(): ...
"""


def test_ids_have_the_form_of_junit_results() -> None:
    guess = build_python_inventory([PythonTestFile(path="tests/unit/test_x.py", old=_OLD, new=_NEW)])
    assert guess.inventory.fail_to_pass == (
        "tests.unit.test_x::test_changed",
        "tests.unit.test_x::test_new",
        "tests.unit.test_x.TestThing.TestDeep::test_deeper",
        "tests.unit.test_x.CasesAreTests::test_case",
        "tests.unit.test_x::test_guarded",
    )
    assert guess.inventory.pass_to_pass == (
        "tests.unit.test_x::test_same",
        "tests.unit.test_x.TestThing::test_inner",
    )
    assert guess.unknown == (
        "tests.unit.test_x::test_many is parametrized, so its ids are known only after a run",
    )


def test_an_added_file_is_all_new() -> None:
    guess = build_python_inventory([PythonTestFile(path="test_x.py", old=None, new="def test_a(): ...")])
    assert guess.inventory.fail_to_pass == ("test_x::test_a",)


@pytest.mark.parametrize(
    "source",
    ["def broken(", "\0", "(" * 5000, "-" * 100_000 + "1", "x" * 2_000_001, "def test_a():\n  '''"],
    ids=["syntax", "nul", "nested", "deep", "large", "open"],
)
def test_sources_that_are_no_programs_are_named(source: str) -> None:
    guess = build_python_inventory([PythonTestFile(path="tests/test_x.py", old=None, new=source)])
    assert guess.inventory.fail_to_pass == ()
    assert guess.unknown == ("tests/test_x.py cannot be parsed, so its tests are not known",)


def test_warnings_of_the_source_stay_quiet() -> None:
    guess = build_python_inventory([PythonTestFile(path="test_x.py", old="", new='def test_a(): "\\d" is 1')])
    assert guess.inventory.fail_to_pass == ("test_x::test_a",)


_MARKS = """
import unittest
import pytest

@pytest.fixture(params=[1, 2])
def number(request): ...

@pytest.fixture
def plain(): ...

def test_fixture(number): ...

def test_plain(plain): ...

@pytest.mark.skip(reason="never")
def test_never(): ...

@pytest.mark.skipif(True, reason="not here")
def test_not_here(): ...

@pytest.mark.xfail
def test_known(): ...

@pytest.mark.timeout(5, reason="skip this early")
def test_slow(): ...

@unittest.skipUnless(False, "no")
class Cases(unittest.TestCase):
    def test_case(self): ...
"""


def test_what_may_be_skipped_or_runs_several_times_is_left_to_a_run() -> None:
    guess = build_python_inventory([PythonTestFile(path="test_x.py", old=None, new=_MARKS)])
    assert guess.inventory.fail_to_pass == ("test_x::test_plain", "test_x::test_slow")
    marked = "is marked to be skipped or to fail, so only a run tells whether it passes"
    assert guess.unknown == (
        "test_x::test_fixture is parametrized, so its ids are known only after a run",
        f"test_x::test_never {marked}",
        f"test_x::test_not_here {marked}",
        f"test_x::test_known {marked}",
        f"test_x.Cases::test_case {marked}",
    )
