"""What is said while runs are conducted."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from repotrial.api import RunNotConducted, RunPhase, RunScored, RunStarted, TrialEvent, judge_run
from repotrial.cli._output import Screen
from repotrial.cli._progress import open_progress, tell_neighbors
from support.score_runs import FAILED, write_run


def start(run_id: str) -> RunStarted:
    return RunStarted(run_id=run_id, contract="thing", agent=run_id, replicate=0)


def tell(capsys: pytest.CaptureFixture[str], *events: TrialEvent, total: int) -> list[str]:
    """The lines, without their times."""
    with open_progress(Screen(), total=total, as_json=False, has_person=False) as progress:
        for event in events:
            progress.show(event)
    return [re.sub(r"^ *[0-9.]+s  ", "", line) for line in capsys.readouterr().out.splitlines()]


def test_an_outcome_that_changes_is_said_again(capsys: pytest.CaptureFixture[str]) -> None:
    outcomes = [{}, {"unit": "pass"}, {"unit": "pass", "types": "pass"}, {"unit": "fail", "types": "pass"}]
    phases = [RunPhase(run_id="one", phase="accept", checks=checks) for checks in outcomes]
    assert tell(capsys, start("one"), *phases, total=1) == [
        "thing  one #0  started",
        "thing  one #0  accept",
        "thing  one #0  unit pass",
        "thing  one #0  types pass",
        "thing  one #0  unit fail",
    ]


def test_ends_are_counted_against_all_that_is_planned(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = judge_run(write_run(tmp_path / "run", {"unit": FAILED})).entry
    events: list[TrialEvent] = [
        start("one"),
        RunScored(run_id="one", entry=entry),
        start("two"),
        RunNotConducted(run_id="two", fault="run-under-way: another does"),
        RunScored(run_id="three", entry=entry),
    ]
    gates = "failure  G1 pass  G2 pass  G3 FAIL  G4 pass"
    assert tell(capsys, *events, total=3) == [
        "thing  one #0  started",
        f"thing  one #0  {gates}  (1 of 3)",
        "thing  two #0  started",
        "thing  two #0  not conducted  run-under-way: another does  (2 of 3)",
        f"  before  three  {gates}  (3 of 3)",
    ]
    assert "of 1" not in "".join(tell(capsys, *events[:2], total=1))


@pytest.mark.parametrize("shared", [(), ("processor time", "files of shared trees")])
def test_what_runs_share_is_said_once_where_several_run_at_a_time(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, shared: tuple[str, ...]
) -> None:
    monkeypatch.setattr("repotrial.api.list_shared_by_runs", lambda _: shared)
    tell_neighbors(1, None, json=False)
    assert capsys.readouterr() == ("", "")
    tell_neighbors(2, None, json=False)
    told = capsys.readouterr().err
    assert told.count("processor time; files of shared trees") == bool(shared)
    tell_neighbors(2, None, json=True)
    assert bool(capsys.readouterr().out) == bool(shared)
