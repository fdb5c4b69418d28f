"""Honest work beside twins: whatever form a suite has, who does the work is not accused."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest

from repotrial.contract import Check, Inventory, ResultFile, Runner
from repotrial.judging import RunnerRecord, SuiteFile, judge_twinned
from repotrial.judging._results._parse import parse_results
from repotrial.judging._results._summary import merge_results
from repotrial.run._accept._execute import mix_in_twins
from repotrial.trace import CheckOutcome, Exited, Passed

PRODUCT: Final = """
def double(value="a"):
    return value * 2
"""
HEAD: Final = "import sys\nimport unittest\n\nimport pytest\n\nfrom product import double\n\n\n"
ROUNDS: Final = 3
SUITES: Final[dict[str, dict[str, str]]] = {
    "tables-whose-rows-are-named-after-what-they-expect": {
        "test_a.py": """
@pytest.mark.parametrize(("text", "expected"), [("a", "aa"), ("b", "bb"), ("1", "11")])
def test_texts(text, expected):
    assert double(text) == expected
"""
    },
    "tables-with-a-row-that-is-skipped": {
        "test_a.py": """
@pytest.mark.parametrize("text", ["a", pytest.param("b", marks=pytest.mark.skip), "::x[1] (y)"])
def test_texts(text):
    assert double(text) == text + text
    assert double("c") == "cc"
"""
    },
    "subtests": {
        "test_a.py": """
class TestCase(unittest.TestCase):
    def test_several(self):
        for text in ["a", "b"]:
            with self.subTest(text=text):
                self.assertEqual(double("c"), "cc")


def test_more(subtests):
    for text in ["a", "b"]:
        with subtests.test(text=text):
            assert double("c") == "cc"
"""
    },
    "classes-that-inherit-and-hold-others": {
        "test_a.py": """
class TestBase:
    def test_one(self):
        assert double("a") == "aa"


class TestMore(TestBase):
    class TestInner:
        def test_one(self):
            assert double("b") == "bb"


def test_one():
    assert double("c") == "cc"
"""
    },
    "tests-that-another-file-takes": {
        "test_a.py": """
class TestBase:
    def test_one(self):
        assert double("a") == "aa"


def test_two():
    assert double("b") == "bb"
""",
        "test_b.py": """
from test_a import TestBase, test_two


class TestMore(TestBase):
    def test_three(self):
        assert double("c") == "cc"
""",
    },
    "tests-with-another-in-their-place": {
        "test_a.py": """
if sys.platform == "none":
    def test_one():
        assert double("a") == "a"
else:
    def test_one():
        assert double("a") == "aa"


def test_two():
    assert double("b") == "bb"
"""
    },
    "skips-and-expected-failures": {
        "test_a.py": """
@pytest.mark.skipif(True, reason="never here")
def test_one():
    assert double("a") == "aa"


@pytest.mark.xfail
def test_two():
    assert double("a") == "ab"


def test_three():
    if double("a") == "aa":
        pytest.xfail("not yet")
    assert double("a") == "aa"


def test_four():
    assert double("a") == "aa"
"""
    },
}


def execute(root: Path) -> RunnerRecord:
    report = root / "junit.xml"
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "--rootdir=."]
    done = subprocess.run(
        [*command, f"--junitxml={report}", "acceptance"], cwd=root, capture_output=True, check=False
    )
    return RunnerRecord(
        runner=Runner(run="true", results=(ResultFile(format="junit", path="junit.xml"),)),
        exit=Exited(code=done.returncode),
        cause="ended",
        wall_us=1,
        stdout=b"",
        stdout_bytes=0,
        stderr=b"",
        files={"junit.xml": report.read_bytes()},
    )


def judge(root: Path, suite: Mapping[str, str]) -> list[CheckOutcome]:
    """What the suite with twins says of a product that is right, several times."""
    (root / "acceptance").mkdir()
    (root / "product.py").write_text(PRODUCT, encoding="utf-8")
    files = [
        SuiteFile(target=f"acceptance/{name}", content=(HEAD + text).encode(), is_executable=False)
        for name, text in suite.items()
    ]
    for file in files:
        (root / file.target).write_bytes(file.content)
    plain = merge_results([parse_results(execute(root).files["junit.xml"], format="junit")])
    assert plain.passed
    assert not plain.failed
    inventory = Inventory(fail_to_pass=tuple(sorted(plain.passed)))
    check = Check(id="unit", gate="acceptance", run="true", expected_skips=tuple(sorted(plain.skipped)))
    outcomes = []
    for seed in range(ROUNDS):
        mixed, twins = mix_in_twins(files, seed)
        for file in mixed:
            (root / file.target).write_bytes(file.content)
        outcomes.append(judge_twinned(check, inventory, twins, [execute(root)]).outcome)
    return outcomes


@pytest.mark.parametrize("suite", SUITES.values(), ids=SUITES)
def test_honest_work_is_not_accused(tmp_path: Path, suite: dict[str, str]) -> None:
    assert judge(tmp_path, suite) == [Passed()] * ROUNDS
