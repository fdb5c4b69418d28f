"""`repotrial run show --output`, `--tests` and `--diff`: what a run printed, from its record alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from repotrial.contract import Check, ResultFile
from repotrial.trace import BuildCheck, CheckOutcome, LogPointer, TestIds
from support.command_line import Ended, call
from support.score_runs import CHECKS, FAILED, PASSED, UNIT, ScoreRun, build_contract, write_run

JUNIT = b"""<testsuite><testcase classname="m" name="new"><failure/></testcase>
<testcase classname="m" name="old[a/b]"/><testcase classname="m" name="later"><skipped/></testcase>
</testsuite>"""
REPORTING = Check(
    id="unit",
    gate="acceptance",
    run="pytest",
    timeout_seconds=60,
    results=(ResultFile(format="junit", path="junit.xml"),),
)


def begin(root: Path, check: Check = UNIT, *, stdout: bytes = b"thinking\n") -> ScoreRun:
    """A run up to its checks, in which a program of the agent's worked."""
    run = ScoreRun(root, build_contract((check,)))
    run.builder.program(stdout=stdout)
    run.end_acting()
    run.apply()
    return run


def report(run: ScoreRun, data: bytes = JUNIT, **fields: Any) -> None:
    blob = run.builder.writer.blob(data)
    assert blob is not None
    values = {
        "failing": TestIds.build(["m::new"]),
        "passed_count": 1,
        "skipped_count": 1,
        "logs": (LogPointer(name="junit.xml", blob=blob),),
    }
    run.check(REPORTING, FAILED, **{**values, **fields})


def show(capsys: pytest.CaptureFixture[str], run: Path, *options: str) -> Ended:
    return call(capsys, "run", "show", run, *options)


def test_what_a_check_printed_is_shown_run_by_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = begin(tmp_path / "run")
    run.check(UNIT, FAILED, output=b"E  assert 1 == 2\n")
    run.twins(UNIT)
    run.check(UNIT, subject="reference", output=b"fine")
    ended = show(capsys, run.finish(), "--output", "unit")
    assert (ended.status, ended.err) == (0, "")
    first, twins, control = ended.out.split("unit: ")[1:]
    assert first.startswith("plain run, attempt 1 (event 8): exit 1, fail: two tests fail\n  $ sh -c run\n")
    assert "  stdout, 17 bytes:\n  | E  assert 1 == 2\n  stderr: empty\n" in first
    heading, _ = twins.split("\n", 1)
    assert heading == (
        "twin run, wrong expectations mixed in, attempt 1 (event 9): "
        "exit 0, moot, since the plain run does not pass"
    )
    assert control.startswith("control: plain run on the reference, attempt 1 (event 10)")
    assert "  | fine\n" in control


@pytest.mark.parametrize(
    ("plain", "said"), [(PASSED, "exit 1, not held: two tests fail"), (FAILED, "exit 1, moot, since")]
)
def test_a_twin_run_that_came_first_stands_after_its_plain_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], plain: CheckOutcome, said: str
) -> None:
    run = begin(tmp_path / "run")
    run.twins(UNIT, FAILED)
    run.check(UNIT, plain)
    directory = run.finish()
    first, second = show(capsys, directory, "--output", "unit").out.split("unit: ")[1:]
    assert first.startswith("plain run, attempt 1 (event 9)")
    assert second.startswith(f"twin run, wrong expectations mixed in, attempt 1 (event 8): {said}")
    lines = show(capsys, directory, "--output", "unit", "--json").out.splitlines()
    assert [json.loads(line)["is_moot"] for line in lines] == [False, plain == FAILED]


def test_a_twin_run_without_its_plain_run_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path / "run")
    run.twins(UNIT, FAILED)
    assert "(event 8): exit 1, not held" in show(capsys, run.finish(), "--output", "unit").out


def test_what_the_agents_program_printed_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = show(capsys, begin(tmp_path / "run").finish(), "--output", "agent")
    assert ended.out == (
        "agent: the agent's program (event 4): exit 3\n  $ /bin/sh 'work it'\n"
        "  stdout, 9 bytes:\n  | thinking\n  stderr, 3 bytes:\n  | oh\n"
    )


def test_all_is_everything_and_an_unknown_name_is_told_what_there_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path / "run")
    run.check(UNIT)
    directory = run.finish()
    lines = show(capsys, directory, "--output", "all").out.splitlines()
    headings = [line.split(":")[0] for line in lines if not line.startswith(" ")]
    assert headings == ["agent", "patch", "unit"]
    ended = show(capsys, directory, "--output", "units", "--output", "agent")
    assert ended.status == 2
    assert "error[output-unknown]" in ended.err
    assert "output of units, found none on record" in ended.err
    assert "the record has agent, patch, unit; `all` stands for each of them" in ended.err
    assert ended.out.startswith("agent: "), "what there is, is shown"


def test_no_output_forges_a_line_or_moves_the_cursor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path / "run")
    run.check(UNIT, FAILED, output=b"a\n\x1b[2J\rgone\xff\n\tunit: plain run\n")
    out = show(capsys, run.finish(), "--output", "unit").out
    assert r"  | \x1b[2J\rgone\xff" in out
    assert "\n  |         unit: plain run\n" in out
    assert not any(not character.isprintable() for character in out.replace("\n", ""))


def test_a_long_stream_says_where_it_is_cut(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = begin(tmp_path / "run", stdout=b"0123456789\n" * 10_000).finish()
    out = show(capsys, run, "--output", "agent").out
    assert "  stdout, 110000 bytes:\n" in out
    assert "\n  cut here: 4096 of 110000 bytes are left\n  stderr, 3 bytes:\n" in out


@pytest.mark.parametrize("damage", ["gone", "other"])
def test_a_blob_that_is_lost_is_said_to_be(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path / "run")
    whole = b"first\n" + b"x" * 9000 + b"\nlast\n"
    stdout = run.builder.stream(whole)
    fields = {**run._execution(FAILED), "stdout": stdout}
    run.builder.add(BuildCheck(**fields, check_id="unit", gate="build", attempt=1))
    directory = run.finish()
    assert "  | last\n" in show(capsys, directory, "--output", "unit").out
    assert stdout.log is not None
    name = stdout.log.digest.removeprefix("sha256:")
    blob = directory / "blobs" / name[:2] / name[2:]
    if damage == "gone":
        blob.unlink()
    else:
        blob.write_bytes(b"y" * len(whole))
    ended = show(capsys, directory, "--output", "unit")
    assert ended.status == 1
    assert f"  not as it was recorded: {blob}: expected" in ended.out
    assert "  cut here: 4096 of 9012 bytes are left\n" in ended.out
    ended = show(capsys, directory, "--output", "unit", "--json")
    assert ended.status == 1
    entry = json.loads(ended.out.splitlines()[-1])["stdout"]
    assert (entry["is_whole"], entry["length_bytes"]) == (False, 9012)
    assert str(blob) in entry["lost"]


def test_output_as_json_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = begin(tmp_path / "run", stdout=b"\xff\x00")
    run.check(UNIT, FAILED, output=b"said\n")
    ended = show(capsys, run.finish(), "--output", "all", "--json")
    agent, _, unit = [json.loads(line) for line in ended.out.splitlines()]
    assert (agent["kind"], agent["subject"], agent["exit"]) == ("agent", None, {"kind": "exited", "code": 3})
    assert (agent["stdout"]["text"], agent["stdout"]["base64"]) == (None, "/wA=")
    assert unit["stdout"] == {"length_bytes": 5, "is_whole": True, "lost": None, "text": "said\n"}
    assert (unit["name"], unit["variant"], unit["attempt"]) == ("unit", "plain", 1)
    assert unit["outcome"]["kind"] == "fail"


def test_json_is_of_one_kind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run")
    for more in (["--tests", "unit"], ["--timeline"], ["--diff"], ["--verdict"]):
        assert show(capsys, run, "--json", "--output", "unit", *more).status == 2


def test_every_test_is_listed_with_its_outcome(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = begin(tmp_path / "run", REPORTING)
    report(run, missing=TestIds.build(["m::silent"]))
    run.twins(REPORTING)
    directory = run.finish()
    ended = show(capsys, directory, "--tests", "unit")
    assert (ended.status, ended.err) == (0, "")
    assert ended.out == (
        "unit: plain run, attempt 1 (event 8): 1 failed, 1 missing, 1 skipped, 1 passed\n"
        "  failed  m::new\n  missing m::silent\n  skipped m::later\n  passed  m::old[a/b]\n"
    )
    entry = json.loads(show(capsys, directory, "--tests", "all", "--json").out)
    assert (entry["check"], entry["passed"], entry["failed"]) == ("unit", ["m::old[a/b]"], ["m::new"])
    assert (entry["remark"], entry["is_lost"]) == (None, False)
    ended = show(capsys, directory, "--tests", "agent")
    assert ended.status == 2
    assert "the record has unit" in ended.err


def test_tests_whose_results_are_lost_are_not_taken_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path / "run", REPORTING)
    report(run)
    directory = run.finish()
    for blob in [path for path in (directory / "blobs").rglob("*") if path.is_file()]:
        blob.unlink()
    ended = show(capsys, directory, "--tests", "unit")
    assert ended.status == 1
    assert "  failed  m::new\n  not all are known: " in ended.out


def test_results_that_were_not_judged_are_not_taken_for_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path / "run", REPORTING)
    report(run, passed_count=2)
    assert "not all are known: the results on record are not all" in (
        show(capsys, run.finish(), "--tests", "unit").out
    )


def test_a_check_without_results_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = show(capsys, write_run(tmp_path / "run"), "--tests", "unit")
    assert ended.status == 0
    assert "no test\n  not all are known: the check leaves no results: its exit code speaks\n" in ended.out
    assert ended.out.endswith("  `--output unit` shows what it printed\n")


def test_the_verdict_lists_the_tests_that_its_reason_leaves_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = begin(tmp_path / "run")
    run.check(UNIT, FAILED, failing=TestIds.build([f"test_{number:03}" for number in range(70)]))
    out = show(capsys, run.finish(), "--verdict").out
    assert "      test_000\n" in out
    assert "      test_039\n      … and 30 more: `--tests unit` lists all\n" in out


def test_a_change_that_is_lost_is_not_an_empty_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    assert show(capsys, run, "--diff").status == 0
    (run / "change.patch").write_bytes(b"")
    assert show(capsys, run, "--diff").status == 1
    (run / "change.patch").unlink()
    ended = show(capsys, run, "--diff")
    assert (ended.status, ended.out) == (1, "")
    assert f"error[change-lost] {run}/change.patch: expected a file, found: No such file" in ended.err
    assert "no change" not in ended.err


def test_a_change_that_was_empty_needs_no_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run", patch=b"")
    (run / "change.patch").unlink()
    ended = show(capsys, run, "--diff")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err.startswith("no change")


def test_a_run_that_ended_before_its_change_has_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ScoreRun(tmp_path / "run", build_contract(CHECKS))
    run.builder.writer.close()
    ended = show(capsys, run.paths.root, "--diff")
    assert (ended.status, ended.out) == (0, "")
    assert ended.err.startswith("no change")
    assert "no check with output was executed" in show(capsys, run.paths.root, "--output", "all").err
