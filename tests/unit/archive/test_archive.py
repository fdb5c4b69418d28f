"""Tiers of runs: planned, approved, applied and accounted for (P26)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import MachineError
from repotrial._core.files import write_atomic
from repotrial.archive import apply_plan, approve_plan, build_plan, load_approved_plan, write_plan
from repotrial.score import find_status, iter_judged_runs, judge_run, write_verdict
from repotrial.signing import PublicKey, SigningKey, TrustedKeys
from repotrial.trace import DoesNotHold, Holds, RunPaths, RunVerification, check_run
from support.errors import raises_code
from support.score_runs import FAILED, PATCH, write_run


@pytest.fixture
def key(tmp_path: Path) -> SigningKey:
    return SigningKey.load(tmp_path / "keys" / "seal.pem")


@pytest.fixture
def runs(tmp_path: Path, key: SigningKey) -> Path:
    """Two sealed runs, and where they lie."""
    place = tmp_path / "runs"
    write_run(place / "good", key=key)
    write_run(place / "bad", {"unit": FAILED}, key=key)
    return place


def _plan(runs: Path, key: SigningKey) -> Path:
    path = runs / "plan.json"
    write_plan(build_plan([runs / "bad", runs / "good"], beside=runs), path)
    approve_plan(path, key, approved_by="custodian", reason="the pilot is over")
    return path


def _apply(path: Path, key: SigningKey) -> None:
    plan, approval, digest = load_approved_plan(path, [key.public_key])
    apply_plan(plan, approval, digest, beside=path.parent, key=key)


def _check(run: Path, *keys: PublicKey) -> RunVerification:
    return check_run(RunPaths(run), trusted_keys=keys or None)


def _rewrite(run: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    custody = RunPaths(run).custody
    custody.write_bytes(b"".join(line + b"\n" for line in change(custody.read_bytes().splitlines())))


def test_an_archived_run_verifies_and_every_verdict_stays(runs: Path, key: SigningKey) -> None:
    before = {run.directory.name: run for run in iter_judged_runs(runs)}
    _apply(_plan(runs, key), key)
    for after in iter_judged_runs(runs):
        old = before[after.directory.name]
        assert after.card == old.card
        assert after.entry == old.entry
        found = _check(after.directory)
        assert isinstance(found.chain, Holds)
        assert isinstance(found.completeness, Holds)
        assert found.seal_report.is_intact
        assert found.custody.last is not None
        assert (found.custody.last.action, found.custody.last.approved_by) == ("done", "custodian")
    assert {find_status(run.card) for run in iter_judged_runs(runs)} == {"success", "failure"}


def test_nothing_that_an_agent_wrote_is_left(runs: Path, key: SigningKey) -> None:
    assert any(b"zweite" in path.read_bytes() for path in runs.rglob("*") if path.is_file())
    _apply(_plan(runs, key), key)
    assert b"zweite" in PATCH
    left = [path for path in runs.rglob("*") if path.is_file() and b"zweite" in path.read_bytes()]
    assert left == []
    assert not RunPaths(runs / "good").change.exists()


def test_a_receipt_lists_what_was_there_before_and_after(runs: Path, key: SigningKey) -> None:
    patch = digest_bytes(RunPaths(runs / "good").change.read_bytes())
    _apply(_plan(runs, key), key)
    begun, done = _check(runs / "good").custody.entries
    seal = digest_bytes(RunPaths(runs / "good").seal.read_bytes())
    assert begun.previous == seal
    assert {file.name: file.digest for file in begun.before}["change.patch"] == patch
    assert done.after == begun.after
    assert begun.changed_paths == done.changed_paths == ("src/wrap.py",)
    assert {file.name for file in done.after} == {
        "contract.json",
        "manifest.json",
        "spec.json",
        "trace.jsonl",
    }


def test_a_plan_changes_nothing_and_applies_only_as_it_was_approved(runs: Path, key: SigningKey) -> None:
    before = {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}
    path = _plan(runs, key)
    assert all(one.read_bytes() == data for one, data in before.items())
    path.write_bytes(path.read_bytes().replace(b'"minimal"', b'"minimal" '))
    with raises_code("archive-not-approved", match="expected the plan that was approved"):
        _apply(path, key)
    path.with_name("plan.json.approval").unlink()
    with raises_code("archive-not-approved", match="expected an approval"):
        _apply(path, key)


def test_the_approval_of_an_unknown_key_approves_nothing(runs: Path, key: SigningKey, tmp_path: Path) -> None:
    path = _plan(runs, SigningKey.load(tmp_path / "other.pem"))
    with raises_code("archive-not-approved", match="trusted key"):
        _apply(path, key)
    assert RunPaths(runs / "good").change.exists()


def test_a_run_that_changed_since_it_was_planned_is_refused_and_none_is_moved(
    runs: Path, key: SigningKey
) -> None:
    path = _plan(runs, key)
    RunPaths(runs / "good").change.write_text("other")
    with raises_code("archive-refused", match="good: expected a sealed run that holds"):
        _apply(path, key)
    assert not RunPaths(runs / "bad").custody.exists()


def test_a_trace_of_version_1_is_refused_by_name(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("repotrial.archive._plan._VERSION", "repotrial/trace@3")
    with raises_code("archive-refused", match="good: expected a trace of version 2.*found repotrial/trace@2"):
        build_plan([runs / "good"], beside=runs)


def test_a_file_that_no_receipt_accounts_for_breaks_the_seal(runs: Path, key: SigningKey) -> None:
    _apply(_plan(runs, key), key)
    RunPaths(runs / "good").spec.unlink()
    assert not _check(runs / "good").seal_report.is_intact


def test_evidence_taken_away_without_a_receipt_breaks_the_run(runs: Path) -> None:
    RunPaths(runs / "good").change.unlink()
    assert not _check(runs / "good").seal_report.is_intact
    assert find_status(judge_run(runs / "good").card) == "invalid"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda lines: lines[1:], id="the first line is gone"),
        pytest.param(lambda lines: lines[::-1], id="the lines are in another order"),
        pytest.param(lambda lines: [*lines, lines[-1]], id="a line stands twice"),
        pytest.param(lambda lines: [lines[0].replace(b"sig", b"gis"), lines[1]], id="no signature"),
        pytest.param(lambda _: [], id="an empty log"),
    ],
)
def test_an_edited_custody_log_accounts_for_nothing(
    runs: Path, key: SigningKey, change: Callable[[list[bytes]], list[bytes]]
) -> None:
    _apply(_plan(runs, key), key)
    _rewrite(runs / "good", change)
    found = _check(runs / "good")
    assert isinstance(found.seal, DoesNotHold)
    assert find_status(judge_run(runs / "good").card) == "invalid"


def test_the_log_of_another_run_accounts_for_nothing(runs: Path, key: SigningKey) -> None:
    _apply(_plan(runs, key), key)
    RunPaths(runs / "good").custody.write_bytes(RunPaths(runs / "bad").custody.read_bytes())
    assert isinstance(_check(runs / "good").seal, DoesNotHold)


def test_a_forged_card_is_not_taken(runs: Path, key: SigningKey) -> None:
    _apply(_plan(runs, key), key)
    RunPaths(runs / "bad").score.write_bytes(RunPaths(runs / "good").score.read_bytes())
    run = judge_run(runs / "bad")
    assert find_status(run.card) == "invalid"
    assert any("as in the custody log" in reason.message for reason in run.reasons)


def test_a_receipt_by_an_unknown_key_is_not_believed(runs: Path, key: SigningKey, tmp_path: Path) -> None:
    """Without this, a failure could be archived by its author with a card that says success."""
    thief = SigningKey.load(tmp_path / "thief.pem")
    _apply(_plan(runs, thief), thief)
    assert isinstance(_check(runs / "good", key.public_key).seal, DoesNotHold)
    keys = TrustedKeys.build(key.public_key, [])
    assert judge_run(runs / "good", keys).trust == "unknown signer"
    assert not judge_run(runs / "good", keys).is_believed
    both = TrustedKeys.build(key.public_key, [("archive", thief.public_key)])
    assert judge_run(runs / "good", both).is_believed


class _CutError(OSError):
    """The machine died here."""


def test_a_cut_at_any_point_leaves_runs_that_hold_and_the_same_command_finishes(
    runs: Path, key: SigningKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = judge_run(runs / "good").card
    cuts = 0
    while True:
        place = runs.with_name(f"copy-{cuts}")
        shutil.copytree(runs / "good", place / "good")
        path = place / "plan.json"
        write_plan(build_plan([place / "good"], beside=place), path)
        approve_plan(path, key, approved_by="custodian", reason="the pilot is over")
        with monkeypatch.context() as patched:
            _cut_after(patched, cuts + 1)
            try:
                _apply(path, key)
                break
            except (_CutError, MachineError):  # as it is, or as `archive-write`
                pass
        cuts += 1
        assert judge_run(place / "good").card == old
        assert _check(place / "good").seal_report.is_intact
        _apply(path, key)
        assert [one.action for one in _check(place / "good").custody.entries] == ["begun", "done"]
        assert judge_run(place / "good").card == old
    assert cuts >= 6


def _cut_after(patched: pytest.MonkeyPatch, steps: int) -> None:
    """The call that changes something for the `steps`th time does not come to it."""
    left = steps

    def wrap(action: Callable[..., Any]) -> Callable[..., Any]:
        def act(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left == 0:
                raise _CutError("cut here")
            return action(*arguments, **options)

        return act

    patched.setattr("repotrial.archive._apply.write_atomic", wrap(write_atomic))
    patched.setattr("repotrial.archive._apply.write_verdict", wrap(write_verdict))
    patched.setattr(Path, "unlink", wrap(Path.unlink))


def test_a_second_application_changes_nothing(runs: Path, key: SigningKey) -> None:
    path = _plan(runs, key)
    _apply(path, key)
    before = {one: one.read_bytes() for one in runs.rglob("*") if one.is_file()}
    _apply(path, key)
    assert {one: one.read_bytes() for one in runs.rglob("*") if one.is_file()} == before


def test_an_archived_run_is_not_planned_again(runs: Path, key: SigningKey) -> None:
    _apply(_plan(runs, key), key)
    with raises_code("archive-refused", match="found one in the tier minimal"):
        build_plan([runs / "good"], beside=runs)


def test_the_plan_is_plain_json(runs: Path, key: SigningKey) -> None:
    plan = json.loads(_plan(runs, key).read_bytes())
    assert (plan["tier"], [run["directory"] for run in plan["runs"]]) == ("minimal", ["bad", "good"])
