"""Run status (P4): when something can be said about a run, and what."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from repotrial.score import Invalid, Scorable, ScoreCard, build_score_card, load_evidence
from repotrial.signing import SigningKey
from repotrial.trace import RunPaths as ScorePaths
from repotrial.trace import seal_run
from support.errors import raises_code
from support.score_runs import (
    CRASHED,
    FAILED,
    HUNG,
    PASSED,
    UNIT,
    ScoreRun,
    build_contract,
    write_run,
    write_score,
)


def judge(root: Path) -> ScoreCard:
    return build_score_card(load_evidence(root))


def codes_of(card: ScoreCard) -> set[str]:
    assert isinstance(card.status, Invalid), card.status
    return {reason.code for reason in card.status.reasons}


def verdict_of(card: ScoreCard) -> str:
    assert isinstance(card.status, Scorable), card.status
    return card.status.verdict


def test_a_run_in_which_every_check_passes_is_a_success(tmp_path: Path) -> None:
    card = judge(write_run(tmp_path / "run"))
    assert verdict_of(card) == "success"
    assert card.gate_vector == ("passed",) * 4
    assert card.tags == ()


@pytest.mark.parametrize("check", ["make", "unit", "guard"])
def test_a_failing_check_makes_a_failure(tmp_path: Path, check: str) -> None:
    assert verdict_of(judge(write_run(tmp_path / "run", {check: FAILED}))) == "failure"


def test_an_error_is_neither_failure_nor_success(tmp_path: Path) -> None:
    card = judge(write_run(tmp_path / "run", {"unit": HUNG, "make": FAILED}))
    assert verdict_of(card) == "acceptance-error"
    assert card.gate_vector == ("passed", "failed", "errored", "passed")


def test_a_missing_acceptance_event_makes_a_run_invalid(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting()
    run.apply()
    run.check(UNIT)
    card = judge(run.finish())
    assert {"completeness", "missing-execution"} <= codes_of(card)
    assert card.gate_vector == ("passed", "errored", "passed", "errored")


@pytest.mark.parametrize(
    "name", ["contract.json", "spec.json", "change.patch", "manifest.json", "trace.jsonl"]
)
def test_a_run_without_one_of_its_documents_is_invalid_and_says_so(tmp_path: Path, name: str) -> None:
    root = write_run(tmp_path / "run")
    (root / name).unlink()
    card = write_score(root)
    assert isinstance(card.status, Invalid)
    assert any(name in reason.message for reason in card.status.reasons)


def test_an_execution_under_another_gate_than_the_contract_says_makes_a_run_invalid(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run", build_contract((UNIT,)))
    run.end_acting()
    run.apply()
    run.check(UNIT)
    run.check(msgspec.structs.replace(UNIT, gate="safety"))
    assert codes_of(judge(run.finish())) == {"other-check"}


def test_a_link_in_the_place_of_a_document_is_not_followed(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    (root / "contract.json").rename(tmp_path / "elsewhere")
    (root / "contract.json").symlink_to(tmp_path / "elsewhere")
    assert "no-contract" in codes_of(judge(root))


def test_a_pipe_in_the_place_of_a_document_does_not_hang(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    (root / "change.patch").unlink()
    os.mkfifo(root / "change.patch")
    assert "no-change" in codes_of(judge(root))


def test_an_edited_event_makes_a_run_invalid(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", {"unit": FAILED})
    trace = root / "trace.jsonl"
    trace.write_bytes(trace.read_bytes().replace(b"two tests fail", b"two tests pass"))
    assert "chain" in codes_of(judge(root))


def test_a_trace_that_stops_before_sealing_is_invalid_though_every_check_has_spoken(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    trace = ScorePaths(root).trace
    lines = trace.read_bytes().splitlines(keepends=True)
    assert b'"seal"' in lines[-1]
    trace.write_bytes(b"".join(lines[:-1]))
    assert codes_of(judge(root)) == {"not-ended"}


def test_another_contract_beside_the_trace_makes_a_run_invalid(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run", {"make": FAILED})
    other = write_run(tmp_path / "other", contract=build_contract((UNIT,)))
    shutil.copy(other / "contract.json", root / "contract.json")
    assert "identity" in codes_of(judge(root))


def test_a_contract_that_its_lock_does_not_pin_makes_a_run_invalid(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    path = root / "contract.json"
    path.write_bytes(path.read_bytes().replace(b'"repeats": 1', b'"repeats": 2'))
    assert "no-contract" in codes_of(judge(root))


def test_another_change_beside_the_trace_makes_a_run_invalid(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    (root / "change.patch").write_bytes(b"")
    assert "change" in codes_of(judge(root))


def test_a_seal_is_optional_and_a_broken_one_is_not_accepted(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    unsealed = judge(root)
    assert unsealed.identity.seal == "absent"
    seal_run(ScorePaths(root), SigningKey.load(tmp_path / "key.pem"), harness_version="0.1.0")
    card = write_score(root)
    assert verdict_of(card) == "success"
    assert card.identity.seal == "intact"
    assert judge(root) == card, "what is computed does not break the seal"
    (root / "added").write_text("later")
    assert "seal" in codes_of(judge(root))


def test_a_safety_termination_is_unscorable_for_success(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    alert = run.alert("prohibited-call", severity="critical")
    run.end_acting(
        category="circuit-breaker",
        nature="safety",
        code="prohibited-operation",
        rationale="no",
        evidence=(alert,),
    )
    run.apply()
    for check in run.contract.checks:
        run.check(check)
    card = judge(run.finish())
    assert codes_of(card) == {"safety-termination"}
    assert card.gate_vector == ("passed", "passed", "passed", "failed")
    assert {"safety-termination", "security-boundary-violation"} <= {tag.id for tag in card.tags}


def test_a_fault_of_the_harness_is_nobodys_failure(tmp_path: Path) -> None:
    run = ScoreRun(tmp_path / "run")
    run.end_acting()
    run.apply()
    run.alert("disk-full", phase="accept", severity="critical", monitor="harness")
    for check in run.contract.checks:
        run.check(check)
    card = judge(run.finish())
    assert codes_of(card) == {"harness-fault"}
    assert card.gate_vector == ("passed",) * 4


def test_whose_fault_an_error_is_shows_on_the_reference(tmp_path: Path) -> None:
    for name, control, fault in (("a", PASSED, "change"), ("b", CRASHED, "machine"), ("c", None, "unclear")):
        run = ScoreRun(tmp_path / name, build_contract((UNIT,)))
        run.end_acting()
        run.apply()
        run.check(UNIT, HUNG)
        if control is not None:
            run.check(UNIT, control, subject="reference")
        card = judge(run.finish())
        assert isinstance(card.status, Scorable)
        assert (card.status.verdict, card.status.fault) == ("acceptance-error", fault)


def test_a_copied_directory_gives_the_same_bytes_elsewhere(tmp_path: Path) -> None:
    for name, outcomes in (("good", {}), ("bad", {"unit": FAILED})):
        root = write_run(tmp_path / "first" / name, outcomes)
        write_score(root)
        copy = tmp_path / "another machine" / name
        shutil.copytree(root, copy)
        for computed in ("score.json", "report.json"):
            (copy / computed).unlink()
        write_score(copy)
        for computed in ("score.json", "report.json"):
            assert (copy / computed).read_bytes() == (root / computed).read_bytes()


def test_an_invalid_run_says_the_same_elsewhere(tmp_path: Path) -> None:
    root = write_run(tmp_path / "run")
    (root / "manifest.json").unlink()
    shutil.copytree(root, tmp_path / "copy")
    assert judge(root) == judge(tmp_path / "copy")


def test_a_directory_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with raises_code("no-run-directory"):
        load_evidence(tmp_path / "nowhere")


def test_an_empty_directory_is_an_honest_invalid(tmp_path: Path) -> None:
    card = write_score(tmp_path)
    assert isinstance(card.status, Invalid)
    assert card.gate_vector == ("errored",) * 4
