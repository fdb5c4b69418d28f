"""What is no run is refused by every verb, before anything is written."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support.command_line import call
from support.score_runs import write_run

VERBS = ("score", "show", "page", "verify", "cost", "recompute", "list", "summary")


def list_files(directory: Path) -> list[Path]:
    return sorted(directory.rglob("*"))


@pytest.fixture
def other(tmp_path: Path) -> Path:
    directory = tmp_path / "app"
    (directory / ".git").mkdir(parents=True)
    (directory / "manifest.json").write_text("{}")  # as a browser extension has one
    return directory


@pytest.mark.parametrize("verb", VERBS)
def test_a_directory_that_is_no_run_is_refused_and_left_alone(
    verb: str, other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = list_files(other)
    ended = call(capsys, "run", verb, other)
    assert ended.status == 2
    assert "error[run-directory-missing]" in ended.err or "error[no-runs]" in ended.err
    assert list_files(other) == before


@pytest.mark.parametrize("words", [("compare",), ("replay", "--contract", "c")])
def test_so_do_verbs_on_two_things(
    words: tuple[str, ...], other: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    verb, *options = words
    ended = call(capsys, "run", verb, other, *(options or [str(other)]))
    assert (ended.status, "error[run-directory-missing]" in ended.err) == (2, True)


@pytest.mark.parametrize("verb", ["page", "show"])
def test_a_directory_of_runs_is_no_run_and_the_message_names_one(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "runs" / "one")
    ended = call(capsys, "run", verb, tmp_path / "runs")
    assert ended.status == 2
    assert f"name one, as {tmp_path / 'runs' / 'one'}" in ended.err


@pytest.mark.parametrize("verb", ["list", "summary"])
def test_verbs_on_many_runs_ask_for_a_directory_of_runs(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", verb, tmp_path / "nothere")
    assert ended.status == 2
    assert "expected a directory of runs, found nothing there" in ended.err
    assert "trace.jsonl" not in ended.err


def test_a_filter_that_fits_no_run_is_no_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_run(tmp_path / "runs" / "one")
    ended = call(capsys, "run", "list", tmp_path / "runs", "--agent", "nobody")
    assert (ended.status, ended.out) == (0, "0 runs\n")


@pytest.mark.parametrize("verb", ["score", "show", "cost"])
def test_plain_files_beside_runs_are_passed_over(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "runs" / "one")
    (tmp_path / "runs" / "ledger.jsonl").write_text("{}\n")
    (tmp_path / "runs" / "notes.txt").write_text("mine\n")
    ended = call(capsys, "run", verb, *sorted((tmp_path / "runs").iterdir()))
    assert (ended.status, ended.err) == (0, "")


def test_a_file_alone_is_no_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "ledger.jsonl").write_text("{}\n")
    ended = call(capsys, "run", "score", tmp_path / "ledger.jsonl")
    assert (ended.status, "something that is not a directory" in ended.err) == (2, True)


def test_several_runs_are_shown_under_their_names_but_not_as_one_stream(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [write_run(tmp_path / name, run_id=name) for name in ("one", "two")]
    ended = call(capsys, "run", "show", *runs, "--verdict")
    assert [line for line in ended.out.splitlines() if line.endswith(":")] == [f"{run}:" for run in runs]
    refused = call(capsys, "run", "show", *runs, "--json")
    assert (refused.status, refused.err) == (2, "")
    assert "expected one run with --json, found 2" in json.loads(refused.out)["error"]["message"]


def test_a_directory_that_was_made_for_a_page_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    first = call(capsys, "run", "page", run, "-o", tmp_path / "new" / "x.html")
    assert (first.status, first.err) == (0, f"note: made the directory {tmp_path / 'new'}\n")
    assert call(capsys, "run", "page", run, "-o", tmp_path / "new" / "x.html").err == ""
