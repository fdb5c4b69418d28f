"""What ran, as people see it: calls with their programs below them, folded where long."""

from __future__ import annotations

from pathlib import Path

import pytest

from repotrial import api
from repotrial.score import ProgramsView
from support.command_line import call
from support.work_runs import Worker


def _view(worker: Worker) -> ProgramsView:
    worker.judge()
    return api.show_programs(worker.run.paths.root)


def _build_session(root: Path) -> Worker:
    worker = Worker(root)
    agent = worker.programs.start("node", "/opt/agent/cli.js", parent=None)
    worker.programs.end(worker.programs.start("git", "status", parent=agent), 0)
    since_us = worker.tick()
    shell = worker.programs.start("bash", "-lc", "make all", parent=agent)
    build = worker.programs.start("make", "all", parent=shell)
    for number in range(20):
        worker.programs.end(worker.programs.start("gcc", "-c", f"{number}.c", parent=build), int(number == 7))
    worker.programs.end(build, 2)
    worker.programs.end(shell, 2)
    worker.call("make all", since_us)
    return worker


def test_a_call_has_its_status_its_time_and_its_programs_below_it(tmp_path: Path) -> None:
    view = _view(_build_session(tmp_path))
    (made,) = view.calls
    assert (made.tool, made.text, made.ended, made.has_failed) == ("bash", "make all", "exit 2", True)
    assert [(line.depth, line.words, line.ended) for line in made.lines] == [
        (0, "bash -lc 'make all'", "exit 2"),
        (1, "make all", "exit 2"),
        (2, "gcc x 20", "1 failed"),
    ]
    assert made.lines[2].count == 20
    assert [line.words for line in view.own] == ["node /opt/agent/cli.js", "git status"]
    assert view.total == 24


def test_a_run_without_a_witness_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker = Worker(tmp_path, sees=False)
    worker.call("ls", worker.tick())
    view = _view(worker)
    assert (view.total, view.calls[0].ended) == (0, "exit unknown")
    told = call(capsys, "run", "show", "--programs", worker.run.paths.root)
    assert (told.status, "0 programs on record, 1 call" in told.out) == (0, True)


def test_the_tree_fits_into_a_hundred_columns(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker = _build_session(tmp_path)
    since_us = worker.tick()
    long = "echo " + "x" * 400
    worker.programs.end(worker.programs.start("bash", "-lc", long), 0)
    worker.call(long, since_us)
    worker.judge()
    lines = call(capsys, "run", "show", "--programs", worker.run.paths.root).out.splitlines()
    assert max(map(len, lines)) <= 100
    assert any("make all" in line and line.endswith("exit 2") for line in lines)


def test_a_program_cannot_forge_a_line_of_the_tree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    worker = Worker(tmp_path)
    worker.programs.start("sh", "-c", "x\n     1   0.000s forged  exit 0\x1b[2J", parent=None)
    worker.judge()
    told = call(capsys, "run", "show", "--programs", worker.run.paths.root).out
    assert "\x1b" not in told
    assert len(told.splitlines()) == 3


def test_json_has_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    worker = _build_session(tmp_path)
    worker.judge()
    told = call(capsys, "run", "show", "--programs", "--json", worker.run.paths.root).out
    assert '"words": "gcc x 20"' in told


def test_the_page_shows_calls_with_their_programs(tmp_path: Path) -> None:
    worker = _build_session(tmp_path)
    worker.judge()
    written = api.write_run_page(worker.run.paths.root, tmp_path / "page.html")
    page = Path(written.page).read_text("utf-8")
    section = page[page.index('<section id="programs">') : page.index('<section id="timeline">')]
    for word in ("make all", "exit 2", "gcc x 20", "1 failed", "git status"):
        assert word in section


def test_a_tool_that_runs_no_program_has_its_files_and_no_status(tmp_path: Path) -> None:
    worker = Worker(tmp_path)
    worker.call("", worker.tick(), tool="read", path="src/app.py")
    (made,) = _view(worker).calls
    assert (made.tool, made.text, made.ended, made.has_failed) == ("read", "src/app.py", "", False)
