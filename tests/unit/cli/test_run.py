"""`repotrial run` and `repotrial trace` on records that hold, do not hold, and are none."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from support.command_line import call, surroundings
from support.run_directories import append_unknown_event, build_run, build_sealed_run
from support.score_runs import FAILED, UNIT, build_contract, write_run


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path) -> Iterator[None]:
    with surroundings(XDG_CONFIG_HOME=str(tmp_path / "config")):
        yield


@pytest.fixture
def run(tmp_path: Path) -> Path:
    paths, _ = build_sealed_run(tmp_path / "run")
    return paths.root


@pytest.fixture
def public_key(run: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    path = run.parent / "public.pem"
    path.write_text(call(capsys, "trace", "key", "show", "--key-file", run.parent / "seal.pem").out)
    return path


def tamper(run: Path) -> None:
    trace = run / "trace.jsonl"
    trace.write_bytes(trace.read_bytes().replace(b'"passed_count":3', b'"passed_count":4'))


def test_a_run_holds_under_the_signers_key(
    run: Path, public_key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "verify", run, "--key", public_key)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith(f"holds         {run}: 21 events verified\n")
    assert "fix:" not in ended.out


def test_this_machines_own_key_is_trusted_unless_told(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "config" / "repotrial" / "seal-key.pem"
    own.parent.mkdir(parents=True)
    (tmp_path / "seal.pem").rename(own)
    assert call(capsys, "run", "verify", run).status == 0


def test_without_a_key_the_signer_is_open_and_the_way_on_is_named(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "verify", run)
    assert ended.status == 1
    assert "  seal         could not be checked\n" in ended.out
    assert "  fix: name the signer's public key with --key" in ended.out
    assert not (tmp_path / "config").exists(), "verifying makes no key"


def test_integrity_needs_no_key(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(capsys, "run", "verify", run, "--integrity-only").status == 0
    tamper(run)
    assert call(capsys, "run", "verify", run, "--integrity-only").status == 1


def test_a_tampered_run_does_not_hold(
    run: Path, public_key: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tamper(run)
    ended = call(capsys, "run", "verify", run, "--key", public_key)
    assert ended.status == 1
    assert "    event 19: tampered" in ended.out
    assert "  fix: fetch the run directory again" in ended.out


def test_several_runs_get_their_verdicts_and_a_summary(
    run: Path, public_key: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unsealed = build_run(tmp_path / "unsealed").root
    ended = call(capsys, "run", "verify", unsealed, tmp_path / "nowhere", run, "--key", public_key)
    assert ended.status == 2
    assert "error[run-directory-missing]" in ended.err
    assert ended.out.endswith("3 runs: 1 not holding, 1 could not be looked at, 1 holding\n")


def test_verification_as_json(run: Path, public_key: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "run", "verify", run, run / "nowhere", "--key", public_key, "--json")
    assert (ended.status, ended.err) == (2, "")
    good, missing = json.loads(ended.out)
    assert good["holds"] is good["is_unchanged"] is True
    assert (good["run_id"], good["event_count"]) == ("run-1", 21)
    assert {good[aspect]["verdict"] for aspect in ("chain", "seal", "completeness", "identity")} == {"holds"}
    assert missing["error"]["code"] == "run-directory-missing"


def test_a_timeline_has_a_line_per_event(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "run", "show", run, "--timeline")
    assert (ended.status, ended.err) == (0, "")
    lines = ended.out.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(21))
    assert "brief → act" in lines[3]


def test_a_record_without_a_contract_is_shown_as_invalid(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ended = call(capsys, "run", "show", run)
    assert (ended.status, ended.err) == (0, "")
    assert ended.out.startswith("invalid  ")
    assert (
        "      no-contract: contract.json: expected a file, found: No such file or directory\n" in ended.out
    )
    assert "brief → act" in ended.out


def test_a_record_without_a_seal_says_so_beside_its_verdict(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "not sealed" not in call(capsys, "run", "show", run, "--verdict").out
    (run / "seal.json").unlink()
    assert "  not sealed: nothing shows" in call(capsys, "run", "show", run, "--verdict").out


def test_a_timeline_as_json_lines(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [json.loads(line) for line in call(capsys, "run", "show", run, "--json").out.splitlines()]
    assert [row["seq"] for row in rows] == list(range(21))
    assert rows[0].keys() == {"seq", "elapsed_us", "actor", "type", "summary", "marker"}


def test_types_are_selected_and_a_missing_one_is_told(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "run", "show", run, "--type", "termination", "--type", "terminated")
    assert ended.status == 0
    assert len(ended.out.splitlines()) == 1
    assert ended.err.startswith("no event of type terminated; this trace has acceptance-execution, ")


def test_an_event_of_a_later_release_is_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from repotrial.trace import RunPaths

    append_unknown_event(RunPaths(run))
    assert "from-the-future" in call(capsys, "run", "show", run, "--type", "from-the-future").out


def test_an_empty_trace_is_not_silence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "trace.jsonl").touch()
    ended = call(capsys, "run", "show", tmp_path, "--timeline")
    assert (ended.status, ended.out) == (0, "")
    assert "no events" in ended.err


def test_what_was_read_before_a_broken_line_is_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (run / "trace.jsonl").open("a") as stream:
        stream.write("{}\n")
    ended = call(capsys, "run", "show", run, "--timeline")
    assert ended.status == 1
    assert len(ended.out.splitlines()) == 21
    assert "error[malformed-event]" in ended.err
    *rows, last = call(capsys, "run", "show", run, "--json").out.splitlines()
    assert len(rows) == 21
    assert json.loads(last)["error"]["code"] == "malformed-event"


@pytest.mark.parametrize("verb", ["show", "verify"])
@pytest.mark.parametrize("name", ["nowhere", "file", "x" * 300, "loop"])
def test_what_is_not_a_directory_is_bad_usage(
    verb: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    ended = call(capsys, "run", verb, tmp_path / name)
    assert ended.status == 2
    assert "error[run-directory-missing]" in ended.err


def test_a_record_whose_trace_is_gone_does_not_hold(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / "trace.jsonl").unlink()
    assert call(capsys, "run", "show", run).status == 2
    assert call(capsys, "run", "verify", run).status == 1


def test_the_key_is_made_on_first_use_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first = call(capsys, "trace", "key", "show")
    assert first.status == 0
    assert first.out.startswith("-----BEGIN PUBLIC KEY-----\n")
    assert "private part in" in first.err
    path = tmp_path / "config" / "repotrial" / "seal-key.pem"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(call(capsys, "trace", "key", "show", "--json").out)["public_key"] == first.out


def test_a_private_key_is_not_taken_for_a_public_one(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ended = call(capsys, "run", "verify", run, "--key", run.parent / "seal.pem")
    assert ended.status == 2
    assert "found a private one" in ended.err


def test_a_key_that_others_can_read_is_refused(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    key = run.parent / "seal.pem"
    key.chmod(0o644)
    ended = call(capsys, "trace", "key", "show", "--key-file", key)
    assert ended.status == 3
    assert "fix: " in ended.err


def test_a_relative_configuration_home_is_ignored(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with surroundings(tmp_path, XDG_CONFIG_HOME="relative", HOME=str(tmp_path / "home")):
        assert call(capsys, "trace", "key", "show").status == 0
    assert (tmp_path / "home" / ".config" / "repotrial" / "seal-key.pem").exists()
    assert not (tmp_path / "relative").exists()


def test_a_tag_that_two_checks_give_is_listed_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = (UNIT, msgspec.structs.replace(UNIT, id="more"))
    run = write_run(
        tmp_path / "runs" / "one", {"unit": FAILED, "more": FAILED}, contract=build_contract(checks)
    )
    (listed,) = json.loads(call(capsys, "run", "list", run.parent, "--json").out)
    assert listed["tags"] == ["acceptance-failure"]
    assert call(capsys, "run", "list", run.parent).out.count("acceptance-failure") == 1
    shown = call(capsys, "run", "show", run, "--verdict").out
    (line,) = (line for line in shown.splitlines() if line.startswith("  tag "))
    assert "check more" in line
    assert "check unit" in line
