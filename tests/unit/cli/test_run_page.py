"""`repotrial run page`: where the page goes, and where it may not."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from repotrial.report._facts import build_commands
from support.command_line import call, iter_commands, surroundings
from support.pages import read_page
from support.run_directories import build_sealed_run
from support.score_runs import write_run


def list_files(run: Path) -> list[Path]:
    return sorted(run.rglob("*"))


def test_the_page_is_named_after_the_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "runs" / "one")
    with surroundings(tmp_path):
        ended = call(capsys, "run", "page", "runs/one")
    assert (ended.status, ended.out, ended.err) == (0, "one.html\n", "")
    assert "Success" in read_page((tmp_path / "one.html").read_text(encoding="utf-8")).text
    assert not list(run.glob("*.html"))


def test_it_goes_where_one_says_and_replaces_an_older_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    output = tmp_path / "pages" / "p.html"
    for _ in range(2):
        ended = call(capsys, "run", "page", run, "-o", output, "--json")
        assert json.loads(ended.out) == {"page": str(output), "beside": []}
    assert output.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")


@pytest.mark.parametrize("place", ["x.html", "blobs/x.html", "../run/x.html", "score.json"])
def test_a_sealed_directory_gets_no_further_file(
    place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, _ = build_sealed_run(tmp_path / "run")
    before = list_files(paths.root)
    ended = call(capsys, "run", "page", paths.root, "-o", paths.root / place)
    assert ended.status == 2
    assert "error[page-inside-run]" in ended.err
    assert list_files(paths.root) == before


def test_not_by_standing_in_it_or_through_a_link_either(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, _ = build_sealed_run(tmp_path / "run")
    (tmp_path / "link").symlink_to(paths.root)
    before = list_files(paths.root)
    with surroundings(paths.root):
        assert "error[page-inside-run]" in call(capsys, "run", "page", ".").err
    ended = call(capsys, "run", "page", paths.root, "-o", tmp_path / "link" / "x.html")
    assert "error[page-inside-run]" in ended.err
    assert list_files(paths.root) == before


def test_a_place_that_cannot_be_written_is_the_machines_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    (tmp_path / "file").touch()
    ended = call(capsys, "run", "page", run, "-o", tmp_path / "file" / "x.html")
    assert ended.status == 3
    assert "error[page-write]" in ended.err
    (tmp_path / "folder").mkdir()
    for what, words in (("page", ("page", run, "-o")), ("report", ("summary", tmp_path, "--page"))):
        ended = call(capsys, "run", *words, tmp_path / "folder")
        said, *fix = ended.err.splitlines()
        assert ended.status == 3
        assert said.startswith(f"error[{what}-write]")
        assert said.endswith(f"folder: expected to write the {what}, found: Is a directory")
        assert str(words[-1]) in " ".join(fix), "the fix names the option of this command"


def test_no_directory_is_bad_usage(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "run", "page", tmp_path / "nowhere")
    assert ended.status == 2
    assert "error[run-directory-missing]" in ended.err


def test_the_commands_that_a_page_prints_exist() -> None:
    commands = dict(iter_commands())
    for printed in build_commands("a run"):
        program, noun, verb, name, *others = shlex.split(printed.line)
        assert (program, name) == ("repotrial", "a run")
        options = {option for parameter in commands[noun, verb].params for option in parameter.opts}
        assert {word for word in others if word.startswith("--")} <= options
