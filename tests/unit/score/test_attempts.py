"""Which attempts count: what only the harness can have brought about stands for nothing if it is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial.score import find_repeated, judge_run
from support.score_runs import ScoreRun, write_run


def break_off(root: Path, code: str) -> Path:
    """An attempt that the harness broke off while the agent was to work."""
    run = ScoreRun(root, run_id=root.name)
    run.end_acting(category="harness-fault", code=code)
    return run.finish()


@pytest.mark.parametrize("code", ["agent-not-started", "model-unreachable"])
def test_an_attempt_in_which_nothing_was_measured_does_not_count(tmp_path: Path, code: str) -> None:
    broken = break_off(tmp_path / "broken", code)
    whole = write_run(tmp_path / "whole", run_id="whole")
    assert list(find_repeated(map(judge_run, (broken, whole)))) == [broken]
    assert not find_repeated([judge_run(broken)]), "not repeated, it is all that there is"


def test_breaking_the_harness_does_not_rid_an_agent_of_its_attempt(tmp_path: Path) -> None:
    broken = break_off(tmp_path / "broken", "harness-exception")
    whole = write_run(tmp_path / "whole", run_id="whole")
    assert not find_repeated(map(judge_run, (broken, whole)))


def test_an_attempt_that_was_stopped_while_it_was_judged_does_not_count(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "stopped", run_id="stopped")
    run.end_acting()
    run.alert("run-stopped", monitor="harness", phase="accept", severity="critical")
    stopped = judge_run(run.finish())
    assert stopped.entry.is_stopped
    whole = judge_run(write_run(tmp_path / "whole", run_id="whole"))
    assert find_repeated([stopped, whole]) == {stopped.directory: "stopped by the operator"}
