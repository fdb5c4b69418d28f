"""Runs recorded by earlier releases: each verdict and each decision of a breaker is derived again, the same."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from repotrial import api
from repotrial.score import build_run_report, build_score_card, load_evidence, render_document

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
    card = build_score_card(evidence)
    assert render_document(card) == (GOLDEN / name / "score.json").read_bytes()
    assert render_document(build_run_report(evidence, card)) == (GOLDEN / name / "report.json").read_bytes()


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
