"""Verbs that conclude something from a record say so where it is not whole, and conclude nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from repotrial.signing import SigningKey
from repotrial.trace import seal_run
from support.command_line import call
from support.score_runs import ScoreRun, write_run


def _tear(run: Path) -> None:
    trace = run / "trace.jsonl"
    trace.write_bytes(trace.read_bytes()[:-40])


def _cut(run: Path) -> None:
    """Between two lines: the chain holds as far as it goes."""
    trace = run / "trace.jsonl"
    trace.write_bytes(b"".join(trace.read_bytes().splitlines(keepends=True)[:-1]))


def _empty(run: Path) -> None:
    (run / "trace.jsonl").write_bytes(b"")


def _lose(run: Path) -> None:
    (run / "trace.jsonl").unlink()


def _destroy_contract(run: Path) -> None:
    (run / "contract.json").write_bytes(b"{}")


def _seal(run: ScoreRun) -> None:
    key = SigningKey.load(run.paths.root.parent / "key.pem")
    seal_run(run.paths, key, harness_version="0.1.0")


BREAKS = [_tear, _cut, _empty, _lose]


@pytest.mark.parametrize("damage", [*BREAKS, _destroy_contract])
@pytest.mark.parametrize("verb", ["recompute", "compare"])
def test_nothing_is_concluded_from_a_record_that_is_not_whole(
    verb: str, damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [write_run(tmp_path / "broken"), write_run(tmp_path / "other")]
    words: list[str | Path] = ["run", verb, *(runs if verb == "compare" else runs[:1])]
    assert call(capsys, *words).status == 0
    damage(runs[0])
    ended = call(capsys, *words)
    assert (ended.status, ended.out) == (1, "")
    file = "contract.json" if damage is _destroy_contract else "trace.jsonl"
    deed = "be compared" if verb == "compare" else "be checked"
    assert f"error[record-broken] {runs[0]}: could not {deed}: {file}: " in ended.err
    assert "  fix: `repotrial run verify RUN_DIR`" in ended.err


@pytest.mark.parametrize("damage", [_tear, _cut, _empty])
def test_what_is_left_of_a_record_is_priced_as_that(
    damage: Callable[[Path], None], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole, broken = write_run(tmp_path / "runs" / "whole"), write_run(tmp_path / "runs" / "broken")
    damage(broken)
    ended = call(capsys, "run", "cost", broken)
    assert "partial record, the amounts are those of what is left: trace.jsonl: " in ended.out
    listed = json.loads(call(capsys, "run", "cost", tmp_path / "runs", "--json").out)
    why = {Path(entry["directory"]): entry["partial_because"] for entry in listed}
    assert why[whole] is None
    assert why[broken].startswith("trace.jsonl: ")
    total = call(capsys, "run", "cost", tmp_path / "runs").out.splitlines()[-2]
    assert total.startswith("in all")
    assert total.endswith("partial record of 1 of 2 runs")


def test_without_a_trace_there_is_no_price(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run")
    _lose(run)
    ended = call(capsys, "run", "cost", run)
    assert (ended.status, ended.out) == (1, "")
    assert f"error[trace-unreadable] {run / 'trace.jsonl'}: " in ended.err


def test_a_book_that_is_not_there_is_said_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "other"):
        write_run(tmp_path / "runs" / name)
    ended = call(capsys, "run", "cost", tmp_path / "runs", "--prices", tmp_path / "nothere.csv")
    assert (ended.status, ended.out) == (2, "")
    assert ended.err.count("error[") == 1


def test_a_stopped_run_has_nothing_to_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stopped = ScoreRun(tmp_path / "run")
    stopped.end_acting(category="operator-abort", code="run-stopped", rationale="stopped by the operator")
    run = stopped.finish()
    stopped.paths.change.unlink()
    _seal(stopped)
    ended = call(capsys, "run", "replay", run, "--contract", tmp_path)
    assert ended.status == 2
    assert f"error[nothing-to-replay] {run}: expected a run with a change" in ended.err
    assert call(capsys, "run", "recompute", run).status == 0, "its record is whole"


def test_a_torn_trace_is_not_replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = write_run(tmp_path / "run")
    _tear(run)
    ended = call(capsys, "run", "replay", run, "--contract", tmp_path)
    assert ended.status == 1
    assert f"error[record-broken] {run}: could not be replayed: trace.jsonl: " in ended.err
    assert "allow_torn_tail" not in ended.err


def test_a_change_that_was_taken_away_after_sealing_is_no_stopped_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting()
    run.apply()
    run.finish()
    _seal(run)
    run.paths.change.unlink()
    ended = call(capsys, "run", "replay", run.paths.root, "--contract", tmp_path)
    assert ended.status == 1
    assert "change.patch: expected the sealed file, found none" in ended.err


@pytest.mark.parametrize("words", [("verify",), ("cost",), ("verify", "--key", "nothere.pem")])
def test_a_file_that_is_not_there_is_named_once_and_in_words(
    words: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path / "run")
    _lose(run)
    ended = call(capsys, "run", words[0], run, *words[1:])
    said = ended.out + ended.err
    assert "No such file or directory" in said
    assert "Errno" not in said


def test_a_replay_is_not_recorded_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    run = write_run(tmp_path / "run")
    ended = call(capsys, "run", "replay", run, "--contract", tmp_path, "--runs", tmp_path / "taken")
    assert ended.status == 2
    assert "error[not-a-runs-directory]" in ended.err
