"""How far a verdict is protected against the code that it judges: one level, of its weakest check."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from repotrial.contract import Check
from repotrial.score import judge_run
from repotrial.trace import TestIds, TwinCount
from support.score_runs import FAILED, PASSED, UNIT, ScoreRun, build_contract

GOLDEN = Path(__file__).parents[2] / "data" / "golden-runs"
OUTSIDE = msgspec.structs.replace(UNIT, id="outside", judge="out-of-process")
OPTIONAL = msgspec.structs.replace(UNIT, id="extra", is_mandatory=False)


def write(root: Path, *checks: tuple[Check, tuple[int, ...]], is_passed: bool = True) -> Path:
    """A run with an execution of each check, and others with so many twins."""
    run = ScoreRun(root, build_contract(tuple(check for check, _ in checks)))
    run.end_acting()
    run.apply()
    for check, counts in checks:
        for count in counts or (None,):
            if count is not None:
                none = TestIds.build([])
                twins = TwinCount(mixed_in=count, survived=none, silent=none)
                run.check(check, variant="twins", twins=twins)
            run.check(check, PASSED if is_passed else FAILED)
    return run.finish()


def level_of(run: Path) -> tuple[str | None, int | None]:
    entry = judge_run(run).entry
    return entry.assurance, entry.twins


def test_a_judge_outside_of_the_product_is_outside(tmp_path: Path) -> None:
    assert level_of(write(tmp_path / "run", (OUTSIDE, ()))) == ("outside", 0)


def test_a_judge_in_the_products_process_beside_twins_has_their_number(tmp_path: Path) -> None:
    run = write(tmp_path / "run", (UNIT, (7,)))
    assert level_of(run) == ("twins", 7)
    assert judge_run(run).entry.assurance_words == "twins (7)"


def test_a_judge_in_the_products_process_without_twins_is_bare(tmp_path: Path) -> None:
    assert level_of(write(tmp_path / "run", (UNIT, ()))) == ("bare", 0)


def test_twins_of_which_there_are_none_are_no_twins(tmp_path: Path) -> None:
    assert level_of(write(tmp_path / "run", (UNIT, (0,)))) == ("bare", 0)


def test_the_execution_with_the_fewest_twins_counts(tmp_path: Path) -> None:
    check = msgspec.structs.replace(UNIT, repeats=2)
    assert level_of(write(tmp_path / "run", (check, (9, 3)))) == ("twins", 3)


def test_the_weakest_check_that_success_needs_decides(tmp_path: Path) -> None:
    other = msgspec.structs.replace(UNIT, id="other")
    assert level_of(write(tmp_path / "a", (OUTSIDE, ()), (UNIT, (7,)))) == ("twins", 7)
    assert level_of(write(tmp_path / "b", (OUTSIDE, ()), (UNIT, (7,)), (other, ()))) == ("bare", 0)
    assert level_of(write(tmp_path / "c", (OUTSIDE, ()), (OPTIONAL, ()))) == ("outside", 0)


def test_a_failure_has_a_level_too(tmp_path: Path) -> None:
    assert level_of(write(tmp_path / "run", (UNIT, (7,)), is_passed=False)) == ("twins", 7)


def test_a_run_without_a_verdict_has_none(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run", build_contract((UNIT,)))
    run.end_acting()
    judged = judge_run(run.finish())
    assert judged.entry.status == "invalid"
    assert (judged.entry.assurance, judged.entry.assurance_words) == (None, "-")


@pytest.mark.parametrize(
    ("name", "level"),
    [("quiet-success", "outside"), ("feedmill-upgrade-honest", "twins"), ("tillbook-state-cheat", "twins")],
)
def test_recorded_runs_have_the_level_of_their_contract(name: str, level: str) -> None:
    entry = judge_run(GOLDEN / name).entry
    assert entry.assurance == level
    assert bool(entry.twins) == (level == "twins")
