"""Runs that the operator or the harness ended: that comes first, and what is missing after it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from repotrial.report import build_run_page
from repotrial.signing import SigningKey
from repotrial.trace import seal_run
from support.command_line import call, surroundings
from support.pages import read_page
from support.score_runs import CHECKS, ScoreRun


def write_stopped(root: Path, **end: str) -> Path:
    """A run that ended while the agent worked: no change, no check."""
    run = ScoreRun(root)
    values = {"category": "operator-abort", "code": "run-stopped", "rationale": "stopped by the operator"}
    run.end_acting(**{**values, **end})
    run.finish()
    run.paths.change.unlink()
    return _seal(run)


def write_stopped_later(root: Path) -> Path:
    """A run that was stopped while its checks were executed."""
    run = ScoreRun(root)
    run.end_acting()
    run.apply()
    run.check(CHECKS[0])
    run.alert("run-stopped", phase="accept", severity="critical", monitor="harness")
    run.finish()
    return _seal(run)


def _seal(run: ScoreRun) -> Path:
    key = SigningKey.load(run.paths.root.parent / "config" / "repotrial" / "seal-key.pem")
    seal_run(run.paths, key, harness_version="0.1.0")
    return run.paths.root


@pytest.mark.parametrize(
    ("write", "words"),
    [
        (write_stopped, "stopped by the operator before the agent was done"),
        (write_stopped_later, "stopped by the operator before it was judged"),
    ],
)
def test_a_stopped_run_says_so_first(
    write: Callable[[Path], Path], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run")
    page = read_page(build_run_page(run)).text
    assert f"Nothing can be said about success: {words} (and " in page
    assert page.index(f"operator-abort {words}") < page.index("missing-execution")
    shown = call(capsys, "run", "show", run, "--verdict").out.splitlines()
    assert shown[1].strip() == f"operator-abort: {words}"
    listed = call(capsys, "run", "list", run).out
    assert "(stopped by the operator)" in listed
    (entry,) = json.loads(call(capsys, "run", "list", run, "--json").out)
    assert (entry["why"], entry["is_stopped"]) == (words, True)


def test_a_list_says_why_a_run_is_invalid(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_stopped(tmp_path / "run", category="harness-fault", code="disk-full", rationale="no room")
    assert "  (the harness failed: disk-full: no room)  " in call(capsys, "run", "list", run).out


def test_so_does_one_that_the_harness_failed_in(tmp_path: Path) -> None:
    run = write_stopped(tmp_path / "run", category="harness-fault", code="disk-full", rationale="no room")
    page = read_page(build_run_page(run)).text
    assert "Nothing can be said about success: the harness failed: disk-full: no room (and " in page


def test_a_killed_harness_comes_before_what_it_could_not_write(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.finish()
    run.paths.change.unlink()
    lines = run.paths.trace.read_bytes().splitlines(keepends=True)
    run.paths.trace.write_bytes(b"".join(lines[:-1]))  # the phase seal was never entered
    page = read_page(build_run_page(run.paths.root)).text
    assert "about success: expected the phase seal at the end of the trace" in page


@pytest.mark.parametrize("write", [write_stopped, write_stopped_later])
def test_a_stopped_run_is_verified_as_such_and_nobody_is_sent_to_fetch_it(
    write: Callable[[Path], Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write(tmp_path / "run")
    with surroundings(XDG_CONFIG_HOME=str(tmp_path / "config")):
        ended = call(capsys, "run", "verify", run, run)
    assert ended.status == 1, "completeness was checked, and does not hold"
    assert ended.out.startswith("stopped")
    assert "there is nothing to fetch" in ended.out
    assert "fetch the run directory again" not in ended.out
    assert ended.out.splitlines()[-1] == "2 runs: 2 stopped"


def test_a_stopped_run_that_was_changed_since_does_not_hold(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_stopped(tmp_path / "run")
    (run / "spec.json").write_bytes((run / "spec.json").read_bytes() + b" ")
    with surroundings(XDG_CONFIG_HOME=str(tmp_path / "config")):
        ended = call(capsys, "run", "verify", run)
    assert ended.out.startswith("does not hold")
    assert "fetch the run directory again" in ended.out
