"""Runs recorded by earlier releases: every verdict and every decision of a breaker comes out the same."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import msgspec
import pytest

from repotrial import api
from repotrial.contract import parse_record, parse_run_spec
from repotrial.policy import (
    Recomputed,
    Thresholds,
    build_settings,
    parse_thresholds,
    read_thresholds,
    recompute_decisions,
)
from repotrial.run import build_body_reader
from repotrial.score import build_score_card, load_evidence, write_verdict
from repotrial.trace import RunPaths, iter_events, load_manifest
from support.errors import raises_code
from support.score_runs import ScoreRun

GOLDEN = Path(__file__).parents[2] / "data" / "golden-runs"
RUNS = sorted(path.name for path in GOLDEN.iterdir())
FIRED = {
    "dependency-reinstalls": "dependency-reinstalls",
    "identical-calls": "identical-calls",
    "mass-deletion": "mass-deletion",
    "oscillation": "oscillation",
    "prohibited-operation": "prohibited-operation",
    "tool-call-cap": "tool-call-cap",
}
QUIET = ("quiet-failure", "quiet-success")


@pytest.mark.parametrize("name", RUNS)
def test_score_and_report_come_out_byte_for_byte(name: str, tmp_path: Path) -> None:
    # A copy without the documents: nothing can be read from what is to be computed.
    copied = tmp_path / name
    shutil.copytree(GOLDEN / name, copied, ignore=shutil.ignore_patterns("score.json", "report.json"))
    evidence = load_evidence(copied)
    write_verdict(copied, evidence, build_score_card(evidence))
    for document in ("score.json", "report.json"):
        assert (copied / document).read_bytes() == (GOLDEN / name / document).read_bytes()


def test_the_golden_runs_show_every_kind_of_end() -> None:
    runs = [api.judge_run(GOLDEN / name) for name in RUNS]
    cards = [run.card for run in runs]
    assert {run.entry.status for run in runs} == {"success", "failure", "invalid"}
    tags = {tag.id for card in cards for tag in card.tags}
    assert tags >= {"acceptance-failure", "evaluation-invalidity", "policy-violation", "safety-termination"}
    assert {check.twins for card in cards for check in card.checks} >= {"held", "survived", "moot", "not-run"}


@pytest.mark.parametrize("name", [*QUIET, *FIRED])
def test_every_decision_is_derived_again(name: str) -> None:
    found = api.recompute_run(GOLDEN / name)
    assert found.holds
    assert {item.rule for item in found.decisions} == ({FIRED[name]} if name in FIRED else set())
    assert found.rules == 1


def _load_recorded(name: str) -> str:
    """The thresholds that were in force: files of the first release name no version of the rules."""
    models = load_manifest(RunPaths(GOLDEN / name).manifest).configuration.models
    assert models is not None
    assert "rules" not in tomllib.loads(models.thresholds)
    return models.thresholds


def _recompute(name: str, thresholds: Thresholds) -> tuple[Recomputed, ...]:
    paths = RunPaths(GOLDEN / name)
    caps = parse_run_spec(paths.spec.read_bytes()).configuration.caps
    limits = caps.apply_to(parse_record(paths.contract.read_bytes()).contract.limits)
    settings = build_settings(limits, thresholds)
    return recompute_decisions(iter_events(paths.trace), settings, read=build_body_reader(paths.blobs))


class _StrayWrites(msgspec.Struct, frozen=True, kw_only=True):
    """A breaker that did not exist when the golden runs were recorded."""

    alert_after: int = 0


class _LaterThresholds(Thresholds, frozen=True, kw_only=True, rename="kebab"):
    stray_writes: _StrayWrites = _StrayWrites()


@pytest.mark.parametrize("name", [*QUIET, *FIRED])
def test_a_breaker_that_is_added_later_leaves_old_runs_as_they_are(name: str) -> None:
    recorded = _load_recorded(name)
    later = msgspec.convert(tomllib.loads(recorded), _LaterThresholds)
    assert later.stray_writes.alert_after == 0
    assert _recompute(name, later) == api.recompute_run(GOLDEN / name).decisions


@pytest.mark.parametrize("name", [name for name in FIRED if name != "tool-call-cap"])  # the contract's cap
def test_a_section_that_is_absent_is_off(name: str) -> None:
    """Without the section the rule decides nothing, so that what the record has of it is too much."""
    recorded = _load_recorded(name)
    before, _, after = recorded.partition(f"[{FIRED[name]}]")
    without = parse_thresholds(f"{before}[{after.partition('[')[2]}".encode())
    assert {item.status for item in _recompute(name, without)} <= {"alert-extra", "intervention-extra"}


def test_a_file_with_nothing_but_its_head_turns_every_breaker_off() -> None:
    text = read_thresholds().decode()
    head, tail = text[: text.index("[command-ceiling]")], text[text.rindex("[[changes]]") :]
    off = parse_thresholds((head + tail).encode())
    assert off.rules == 3
    for name in FIRED:
        found = _recompute(name, off)
        assert all(item.decision is None or item.rule.endswith("-cap") for item in found)


def test_rules_of_a_later_version_are_answered_by_name(tmp_path: Path) -> None:
    later = (
        read_thresholds().decode().replace("\nrules = 3 ", "\nrules = 4 ") + "\n[stray-writes]\nodd = true\n"
    )
    with raises_code("breaker-rules-unknown", match="version 3 or less, found version 4"):
        api.recompute_run(_record(tmp_path / "run", later))


def test_a_breaker_that_this_release_does_not_have_is_answered_by_name(tmp_path: Path) -> None:
    later = read_thresholds().decode() + "\n[stray-writes]\nalert_after = 3\n"
    with raises_code("thresholds-invalid", match=r"manifest\.json.*stray-writes"):
        api.recompute_run(_record(tmp_path / "run", later))


def test_a_run_of_todays_rules_is_derived_again(tmp_path: Path) -> None:
    found = api.recompute_run(_record(tmp_path / "run", read_thresholds().decode()))
    assert (found.holds, found.rules) == (True, 3)


def _record(root: Path, thresholds: str) -> Path:
    run = ScoreRun(root, thresholds=thresholds)
    run.end_acting()
    run.apply()
    for check in run.contract.checks:
        run.check(check)
    return run.finish()
