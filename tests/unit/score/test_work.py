"""Figures of how an agent worked, from the programs that ran: calls, cycles, times, lines (B16, P23, P31)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from repotrial._core.absence import Unknown
from repotrial.score import RunReport, build_run_report, build_score_card, load_evidence
from support.score_runs import UNIT, ScoreRun, build_contract
from support.work_runs import Worker


def _summarize(report: RunReport) -> Any:
    assert not isinstance(report.work, msgspec.UnsetType)
    return report.work


def test_cycles_are_the_test_programs_and_all_failing_ones_count(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.programs.start("agent")
    red = worker.shell("pytest -q", 1)
    green = worker.shell("pytest -q", 0)
    later = worker.shell("pytest -q", 1)
    worker.shell("git status", 1)
    report = worker.judge()
    work = _summarize(report)
    assert report.tool_calls == report.cost.tool_calls == 4
    assert (report.test_cycles, work.failed_test_cycles, work.unknown_test_cycles) == (3, 2, 0)
    assert (work.last_green, work.first_red) == (green, later)
    assert report.cost.failed_check_cycles == 2
    assert red < green < later


def test_an_agent_that_calls_no_tool_has_zero_calls_and_its_tests_count(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    script = worker.programs.start("sh", "fix.sh", parent=None)
    test = worker.programs.start("python", "-m", "pytest", parent=script)
    worker.programs.end(test, 0)
    report = worker.judge()
    assert (report.tool_calls, report.cost.tool_calls, report.test_cycles) == (0, 0, 1)
    assert report.cost.failed_check_cycles == 0


def test_without_a_witness_the_words_of_a_runner_count(tmp_path: Path) -> None:
    worker = Worker(tmp_path, sees=False)
    worker.call("pytest -q", worker.tick(), result=b"1 failed in 0.1s")
    worker.call("pytest -q", worker.tick(), result=b"nothing to see")
    report = worker.judge()
    assert report.test_cycles == 2
    assert _summarize(report).failed_test_cycles == 1
    assert _summarize(report).unknown_test_cycles == 1


def test_calls_at_the_same_time_count_once(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    since_us = worker.tick()
    for _ in range(20):
        worker.call("true", since_us)
    report = worker.judge()
    assert isinstance(report.durations.acting_us, int)
    assert 0 < report.durations.tools_us <= report.durations.acting_us


def test_lines_before_the_first_test_are_those_recorded_before_it(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.programs.start("agent")
    worker.change(3, cause=worker.call("apply x", worker.tick()))
    worker.change(4, cause=worker.call("apply y", worker.tick()))
    worker.shell("pytest -q", 1)
    worker.change(100, cause=worker.call("apply z", worker.tick()))
    assert _summarize(worker.judge()).lines_before_first_test == 7


def test_no_change_before_the_first_test_is_zero(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.programs.start("agent")
    worker.shell("pytest -q", 1)
    assert _summarize(worker.judge()).lines_before_first_test == 0


def test_a_change_whose_content_is_lost_makes_the_lines_unknown(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.programs.start("agent")
    worker.change(1, is_kept=False)
    worker.shell("pytest -q", 1)
    found = _summarize(worker.judge()).lines_before_first_test
    assert found == Unknown(reason="the content of x was not kept")


def test_an_edit_in_the_same_step_as_the_first_test_makes_the_lines_unknown(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.programs.start("agent")
    since_us = worker.tick()
    test = worker.programs.start("pytest")
    worker.programs.end(test, 1)
    worker.change(5, cause=worker.call("sed -i s/a/b/ x && pytest", since_us))
    found = _summarize(worker.judge()).lines_before_first_test
    assert found == Unknown(reason="files were changed in the step that ran the first test")


def test_a_run_without_tests_says_so(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.shell("ls -l", 0)
    found = _summarize(worker.judge()).lines_before_first_test
    assert found == Unknown(reason="no test run was seen")


def test_a_run_without_a_report_of_its_witness_keeps_its_figures(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run", build_contract((UNIT,)))
    run.end_acting()
    run.apply()
    run.check(UNIT)
    evidence = load_evidence(run.finish())
    report = build_run_report(evidence, build_score_card(evidence))
    assert "work" not in msgspec.to_builtins(report)
