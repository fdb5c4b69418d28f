"""Which attempts count: a cause that no candidate can bring about excuses one, and nothing else does (P5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.score import find_uncounted, group_attempts, judge_run
from support.score_runs import ScoreRun, write_run


def break_off(root: Path, code: str) -> Path:
    """An attempt that the harness broke off while the agent was to work."""
    run = ScoreRun(root, run_id=root.name)
    run.end_acting(category="harness-fault", code=code)
    return run.finish()


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("agent-not-started", "configuration"),
        ("launcher-lost", "harness"),
        ("helper-lost", "harness"),
        ("agent-sandbox-lost", "machine"),
    ],
)
def test_an_attempt_that_the_harness_lost_is_excused(tmp_path: Path, code: str, cause: str) -> None:
    broken = judge_run(break_off(tmp_path / "broken", code))
    whole = judge_run(write_run(tmp_path / "whole", run_id="whole"))
    assert (broken.cause.cause, broken.cause.is_excused) == (cause, True)
    assert find_uncounted([broken, whole]) == {broken.directory: f"excused: {cause}"}
    (planned,) = group_attempts([broken])
    assert planned.is_indeterminate, "not repeated, it counts 0"


@pytest.mark.parametrize("code", ["harness-exception", "workspace-copy-failed", "model-unreachable"])
def test_breaking_the_harness_does_not_rid_an_agent_of_its_attempt(tmp_path: Path, code: str) -> None:
    broken = judge_run(break_off(tmp_path / "broken", code))
    whole = judge_run(write_run(tmp_path / "whole", run_id="whole"))
    (planned,) = group_attempts([broken, whole])
    assert planned.counted is broken
    assert not planned.is_success


def test_three_excused_attempts_are_indeterminate_and_a_fourth_does_not_count(tmp_path: Path) -> None:
    lost = [judge_run(break_off(tmp_path / f"a{number}", "launcher-lost")) for number in range(3)]
    whole = judge_run(write_run(tmp_path / "b", run_id="b"))
    (planned,) = group_attempts([*lost, whole])
    assert planned.counted is None
    assert planned.is_final
    assert planned.could_be_success
