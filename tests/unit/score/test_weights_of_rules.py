"""How much a broken rule weighs is the contract's decision, rule by rule (C7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from repotrial.contract import Policy
from repotrial.score import ScoreCard, build_score_card, load_evidence
from support.programs import ProgramEvent, Programs
from support.score_runs import UNIT, ScoreRun, build_contract
from support.traces import ref_of

BREAKERS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "protected": ({"protected": ["**"]}, ("true",)),
    "writable": ({}, ("touch", "/mnt/left")),
    "tools": ({"tools": {"denied": ["uname"]}}, ("uname", "-a")),
    "dependencies": (
        {"dependencies": {"rule": "free", "max_resolutions": 0}},
        ("pip", "install", "left-pad"),
    ),
}


def _judge(root: Path, policy: dict[str, Any], argv: tuple[str, ...]) -> ScoreCard:
    run = ScoreRun(root, build_contract((UNIT,), policy=msgspec.convert(policy, Policy)), policy_rules=2)

    def add(event: ProgramEvent) -> int:
        return ref_of(run.builder.writer.append(event, actor="agent")).seq

    programs = Programs(add, now=lambda: 1_000_000, phase="act")
    programs.start(*argv, parent=programs.start("sh", "fix.sh"))
    run.end_acting()
    run.apply()
    run.check(UNIT)
    return build_score_card(load_evidence(run.finish()))


@pytest.mark.parametrize("rule", sorted(BREAKERS))
def test_a_broken_rule_weighs_what_the_contract_says(tmp_path: Path, rule: str) -> None:
    policy, argv = BREAKERS[rule]
    for severity, outcome in (("hard", "failed"), ("compliance", "passed")):
        card = _judge(tmp_path / severity, {**policy, "violations": {rule: severity}}, argv)
        assert [(each.rule, each.severity) for each in card.violations] == [(rule, severity)]
        assert card.gates[3].outcome == outcome
    honest = _judge(tmp_path / "honest", {**policy, "protected": []}, ("true",))
    assert honest.violations == ()
