"""Two records of one acceptance: what differs, and what is allowed to."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.run._replay import compare_outcomes
from repotrial.trace import CheckOutcome, RunPaths
from support.score_runs import FAILED, HUNG, PASSED, UNIT, ScoreRun, build_contract


def write_record(place: Path, plain: CheckOutcome, twins: CheckOutcome | None) -> RunPaths:
    run = ScoreRun(place, build_contract((UNIT,)))
    run.end_acting()
    run.apply()
    if twins is not None:
        run.twins(UNIT, twins)
    run.check(UNIT, plain)
    run.finish()
    return run.paths


def find_divergences(
    place: Path,
    one: tuple[CheckOutcome, CheckOutcome | None],
    other: tuple[CheckOutcome, CheckOutcome | None],
) -> list[tuple[str, str, str]]:
    found = compare_outcomes(write_record(place / "one", *one), write_record(place / "other", *other))
    return [(each.what, each.recorded.split(",")[0], each.replayed.split(",")[0]) for each in found]


@pytest.mark.parametrize("other", [PASSED, FAILED, HUNG, None])
def test_twins_that_say_nothing_may_come_out_in_any_way(tmp_path: Path, other: CheckOutcome | None) -> None:
    """They are drawn anew, and a wrong product meets some of them and others not."""
    assert find_divergences(tmp_path, (FAILED, PASSED), (FAILED, other)) == []


@pytest.mark.parametrize("outcome", [FAILED, HUNG])
def test_twins_of_a_suite_that_passed_are_compared(tmp_path: Path, outcome: CheckOutcome) -> None:
    (found,) = find_divergences(tmp_path, (PASSED, PASSED), (PASSED, outcome))
    assert found[:2] == ("unit (twins) #1 on the candidate", "pass")


def test_a_suite_that_fails_the_second_time_diverges(tmp_path: Path) -> None:
    names = [what for what, _, _ in find_divergences(tmp_path, (PASSED, PASSED), (FAILED, PASSED))]
    assert names == ["unit (plain) #1 on the candidate", "unit (twins) #1 on the candidate"]
