"""A small product, its tests with twins, and a real pytest that judges both."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from repotrial.judging import build_python_twins
from repotrial.judging._results._parse import parse_results
from repotrial.judging._results._summary import ResultsSummary, merge_results
from repotrial.judging._twins._judge import judge_twins
from repotrial.judging._twins._model import TwinnedFile, TwinVerdict

__all__ = ["execute_pytest", "has_held", "judge_product"]


def execute_pytest(root: Path) -> ResultsSummary:
    """The results of every test below `root/acceptance`, as the contract's checks take them."""
    report = root / "junit.xml"
    report.unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-q", "--noconftest", "-p", "no:cacheprovider", "--rootdir=."]
    subprocess.run(
        [*command, f"--junitxml={report}", "acceptance"], cwd=root, capture_output=True, check=False
    )
    return merge_results([parse_results(report.read_bytes(), format="junit")])


def has_held(verdict: TwinVerdict) -> bool:
    """Whether exactly the twins failed, and at least one did."""
    return bool(verdict.expected_failing) and not (
        verdict.survived or verdict.missing or verdict.evaded or verdict.other_failing
    )


def judge_product(root: Path, *, product: str, tests: str, seed: int = 7) -> tuple[TwinnedFile, TwinVerdict]:
    """Lay `product.py` and the twinned tests, run them, and judge the twins."""
    (root / "acceptance").mkdir(exist_ok=True)
    (root / "product.py").write_text(product, encoding="utf-8")
    path = "acceptance/test_product.py"
    twinned = build_python_twins(tests.encode(), path=path, seed=seed)
    (root / path).write_bytes(twinned.source)
    return twinned, judge_twins(execute_pytest(root), twinned.twins)
