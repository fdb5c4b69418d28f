"""Which attempts count: a cause that no candidate can bring about excuses one, and nothing else does (P5)."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.score import find_uncounted, group_attempts, judge_run
from support.score_runs import FAILED, PASSED, ScoreRun, write_run


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


def stop_while_judged(root: Path, *, applies: bool = True, judged: int = 0) -> Path:
    """An attempt that the operator stopped after its change was applied, and some checks were executed."""
    run = ScoreRun(root, run_id=root.name)
    run.end_acting()
    run.apply(PASSED if applies else FAILED)
    for check in run.contract.checks[:judged]:
        run.check(check, FAILED)
    run.alert("run-stopped", monitor="harness", phase="accept", severity="critical")
    return run.finish()


def test_a_stop_before_the_first_check_has_ended_is_excused(tmp_path: Path) -> None:
    stopped = judge_run(stop_while_judged(tmp_path / "stopped"))
    assert (stopped.entry.status, stopped.cause.cause, stopped.cause.is_excused) == (
        "invalid",
        "operator",
        True,
    )


@pytest.mark.parametrize(("applies", "judged"), [(True, 1), (False, 0)])
def test_stopping_a_run_that_is_known_to_fail_does_not_repeat_it(
    tmp_path: Path, *, applies: bool, judged: int
) -> None:
    stopped = judge_run(stop_while_judged(tmp_path / "stopped", applies=applies, judged=judged))
    assert (stopped.cause.cause, stopped.cause.is_excused) == ("operator", False)
    (planned,) = group_attempts([stopped])
    assert planned.counted is stopped
    assert not planned.is_success
