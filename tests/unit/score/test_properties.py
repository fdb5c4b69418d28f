"""Properties of the whole function from evidence to card."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.contract import Policy
from repotrial.score import (
    Evidence,
    Graded,
    ScoreCard,
    build_run_report,
    build_score_card,
    load_evidence,
    load_taxonomy,
)
from repotrial.trace import CheckOutcome, Errored, Failed, Passed
from support.score_runs import CRASHED, FAILED, HUNG, PASSED, SAFETY, UNIT, ScoreRun, build_contract

REPEATED = msgspec.structs.replace(UNIT, repeats=3, rule="passes-required", passes_required=2)
BUILD = msgspec.structs.replace(UNIT, id="make", gate="build", layer=None)
OUTCOMES: list[CheckOutcome] = [PASSED, FAILED, HUNG, CRASHED]


@cache
def base() -> Evidence:
    """A good run with reruns, twins, alerts that do not count, and a control execution."""
    with TemporaryDirectory() as place:
        run = ScoreRun(Path(place) / "run", build_contract((BUILD, REPEATED, SAFETY), policy=Policy()))
        run.alert("call-flood")
        run.end_acting()
        run.apply()
        run.check(BUILD)
        for _ in range(3):
            run.twins(REPEATED)
            run.check(REPEATED)
        run.check(SAFETY)
        run.check(REPEATED, subject="reference")
        return load_evidence(run.finish())


def with_outcomes(evidence: Evidence, outcomes: list[CheckOutcome]) -> Evidence:
    executions = tuple(
        msgspec.structs.replace(execution, outcome=outcome)
        for execution, outcome in zip(evidence.facts.executions, outcomes, strict=True)
    )
    facts = msgspec.structs.replace(evidence.facts, executions=executions)
    return msgspec.structs.replace(evidence, facts=facts)


def vectors() -> st.SearchStrategy[list[CheckOutcome]]:
    return st.lists(st.sampled_from(OUTCOMES), min_size=9, max_size=9)


def rank(card: ScoreCard) -> tuple[bool, ...]:
    """What is good about a card: success, gates, a grade, no tags."""
    passed = (gate.outcome == "passed" for gate in card.gates)
    is_success = getattr(card.status, "verdict", None) == "success"
    return (is_success, *passed, isinstance(card.graded, Graded), not card.tags)


@pytest.fixture(scope="module", autouse=True)
def _close() -> Iterator[None]:
    yield
    base.cache_clear()


def test_the_base_is_a_success() -> None:
    assert all(rank(build_score_card(base())))


@given(outcomes=vectors(), place=st.integers(0, 8), worse=st.sampled_from([FAILED, HUNG]))
def test_a_worse_outcome_never_improves_anything(
    outcomes: list[CheckOutcome], place: int, worse: CheckOutcome
) -> None:
    """Gates are non-compensatory: nothing is earned by failing or hanging."""
    before = build_score_card(with_outcomes(base(), outcomes))
    if not isinstance(outcomes[place], Passed) or base().facts.executions[place].subject != "candidate":
        return
    after = build_score_card(with_outcomes(base(), [*outcomes[:place], worse, *outcomes[place + 1 :]]))
    assert all(was or not now for was, now in zip(rank(before), rank(after), strict=True))


@given(outcomes=vectors())
def test_a_grade_stands_only_beside_four_passed_gates(outcomes: list[CheckOutcome]) -> None:
    card = build_score_card(with_outcomes(base(), outcomes))
    assert isinstance(card.graded, Graded) == (card.gate_vector == ("passed",) * 4)


@given(outcomes=vectors())
def test_no_tag_is_without_evidence_and_no_open_gate_without_a_tag(outcomes: list[CheckOutcome]) -> None:
    card = build_score_card(with_outcomes(base(), outcomes))
    modes = {mode.id: mode for mode in load_taxonomy()}
    explained = set()
    for tag in card.tags:
        assert tag.evidence
        assert set(tag.gates) <= set(modes[tag.id].gates)
        explained |= set(tag.gates)
    assert explained == {gate.gate for gate in card.gates if gate.outcome != "passed"}


@given(outcomes=vectors())
def test_an_errored_gate_always_has_an_evaluation_error(outcomes: list[CheckOutcome]) -> None:
    card = build_score_card(with_outcomes(base(), outcomes))
    errored = {gate.gate for gate in card.gates if gate.outcome == "errored"}
    tagged = {gate for tag in card.tags if tag.id == "evaluation-error" for gate in tag.gates}
    assert errored <= tagged


@given(outcomes=vectors())
def test_the_same_evidence_gives_the_same_bytes(outcomes: list[CheckOutcome]) -> None:
    evidence = with_outcomes(base(), outcomes)
    first, second = build_score_card(evidence), build_score_card(evidence)
    data = msgspec.json.encode(first)
    assert data == msgspec.json.encode(second)
    assert msgspec.json.decode(data, type=ScoreCard) == first
    reports = [msgspec.json.encode(build_run_report(evidence, card)) for card in (first, second)]
    assert reports[0] == reports[1]


@given(outcomes=vectors(), data=st.data())
def test_the_order_of_independent_executions_is_irrelevant(outcomes: list[CheckOutcome], data: Any) -> None:
    evidence = with_outcomes(base(), outcomes)
    shuffled = data.draw(st.permutations(evidence.facts.executions))
    facts = msgspec.structs.replace(evidence.facts, executions=tuple(shuffled))
    other = build_score_card(msgspec.structs.replace(evidence, facts=facts))
    card = build_score_card(evidence)
    assert other.status == card.status
    assert other.gate_vector == card.gate_vector
    assert other.graded == card.graded
    assert other.general == card.general
    assert {(tag.id, tag.gates) for tag in other.tags} == {(tag.id, tag.gates) for tag in card.tags}


@given(outcomes=vectors())
def test_the_status_follows_the_outcomes(outcomes: list[CheckOutcome]) -> None:
    """P4: success, failure and acceptance error exclude one another, and error is not fail."""
    card = build_score_card(with_outcomes(base(), outcomes))
    verdicts = {result.verdict for result in card.checks}
    expected = "success"
    if "errored" in verdicts:
        expected = "acceptance-error"
    elif "failed" in verdicts:
        expected = "failure"
    assert getattr(card.status, "verdict", None) == expected
    assert any(isinstance(o, Failed | Errored) for o in outcomes[:8]) or expected == "success"
