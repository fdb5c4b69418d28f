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
