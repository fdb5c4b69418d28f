"""The general score interface: hand-computed values, bounds, monotony, and patch-equivalence (C15)."""

from __future__ import annotations

import decimal
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Literal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.absence import NotComputable, Unknown
from repotrial.contract import (
    ChangeEnvelope,
    ChangeSummary,
    EnvelopeValue,
    ScoreInputs,
    Scoring,
    Violation,
    build_interface_score,
)
from repotrial.contract._policy import InterfaceWeights
from repotrial.contract._score import InterfaceScore, SaturatingPenalty
from support.errors import raises_code

DIGEST = "sha256:" + "a" * 64
WEIGHTS = InterfaceWeights(ok=Decimal("0.7"), value=Decimal("0.3"), violation=Decimal("0.5"))
VALUE = EnvelopeValue(decay=Decimal("0.5"), envelope=ChangeEnvelope(lines=60, files=3))
SOFT = Violation(rule="change-size", severity="compliance")
HARD = Violation(rule="network", severity="hard")


def change(lines: int = 60, files: int = 3, *, is_applicable: bool = True) -> ChangeSummary:
    return ChangeSummary(
        change_digest=DIGEST, is_applicable=is_applicable, lines_changed=lines, files_changed=files
    )


def score(
    outcome: Literal["pass", "fail"] = "pass",
    delta: ChangeSummary | None = None,
    violations: tuple[Violation, ...] = (),
    *,
    weights: InterfaceWeights = WEIGHTS,
) -> InterfaceScore:
    inputs = ScoreInputs(outcome=outcome, change=delta or change(), violations=violations)
    result = build_interface_score(inputs, weights, value=VALUE)
    assert isinstance(result, InterfaceScore)
    return result


def test_small_change_that_passes_scores_one() -> None:
    assert score() == InterfaceScore(
        score=Decimal("1.0"),
        ok=Decimal("0.7"),
        value=Decimal("0.3"),
        violation=Decimal(0),
        minimum=Decimal("-0.5"),
        maximum=Decimal("1.0"),
    )


def test_twice_the_lines_cost_a_factor_of_exp_minus_one_half() -> None:
    # d = 120/60 - 1 = 1; V = exp(-0.5) = 0.60653065971263342360379953499…; S = 0.7 + 0.3·V
    assert VALUE(change(lines=120)) == Decimal("0.6065306597126334236037995350")
    assert score(delta=change(lines=120)).score == Decimal("0.8819591979137900270811398605")


def test_lines_and_files_beyond_the_envelope_add_up() -> None:
    # d = (90/60 - 1) + (6/3 - 1) = 1.5; V = exp(-0.75)
    assert VALUE(change(lines=90, files=6)) == Decimal("0.4723665527410147071380465509")


def test_change_inside_the_envelope_costs_nothing() -> None:
    assert VALUE(change(lines=0, files=0)) == VALUE(change(lines=60, files=3)) == 1


def test_change_that_does_not_apply_has_no_value() -> None:
    assert score("fail", change(is_applicable=False)).score == 0


def test_two_violations_cost_two_steps() -> None:
    # P = 2 · 0.1; S = 1 - 0.5·0.2
    assert score(violations=(SOFT, SOFT)).score == Decimal("0.90")


def test_penalty_saturates() -> None:
    many = msgspec.structs.replace(SOFT, count=2**53 - 1)
    assert score(violations=(many,)).score == Decimal("0.5")


def test_hard_violation_takes_the_pass_away_and_the_full_penalty() -> None:
    # S = 0 + 0.3 - 0.5
    assert score(violations=(HARD,)).score == Decimal("-0.2")


def test_error_is_not_a_failure_and_not_a_zero() -> None:
    inputs = ScoreInputs(
        outcome=Unknown(reason="check 'unit' timed out"), change=change(), violations=(HARD,)
    )
    result = build_interface_score(inputs, WEIGHTS, value=VALUE)
    assert result == NotComputable(reason="the outcome is not known: check 'unit' timed out")


def test_value_function_comes_from_the_contract() -> None:
    assert EnvelopeValue.from_scoring(Scoring()) == VALUE


@pytest.mark.parametrize("weight", ["-0.1", "1.1", "NaN", "Infinity"])
@pytest.mark.parametrize("name", ["ok", "value", "violation"])
def test_weight_that_is_no_share_is_refused(name: str, weight: str) -> None:
    weights = msgspec.structs.replace(WEIGHTS, **{name: Decimal(weight)})
    with raises_code("score-range", match=f"weight {name}"):
        score(weights=weights)


@pytest.mark.parametrize("number", ["-0.001", "1.001", "NaN"])
def test_declared_functions_are_held_to_their_range(number: str) -> None:
    inputs = ScoreInputs(outcome="pass", change=change())
    with raises_code("score-range", match="V:"):
        build_interface_score(inputs, WEIGHTS, value=lambda _: Decimal(number))
    with raises_code("score-range", match="P:"):
        build_interface_score(inputs, WEIGHTS, value=VALUE, penalty=lambda _: Decimal(number))


@pytest.mark.parametrize("decay", ["-1", "NaN"])
def test_decay_that_would_reward_size_is_refused(decay: str) -> None:
    with raises_code("score-range", match="λ"):
        EnvelopeValue(decay=Decimal(decay), envelope=VALUE.envelope)(change())


def test_step_that_is_no_share_is_refused() -> None:
    with raises_code("score-range", match="step"):
        SaturatingPenalty(step=Decimal(2))((SOFT,))


def test_decay_beyond_all_bounds_leaves_nothing() -> None:
    assert EnvelopeValue(decay=Decimal("1e999999"), envelope=VALUE.envelope)(change(lines=2**53 - 1)) == 0


def test_score_does_not_depend_on_the_context_of_the_caller() -> None:
    expected = score(delta=change(lines=71, files=5), violations=(SOFT,))
    with decimal.localcontext(prec=3, rounding=decimal.ROUND_UP):
        assert score(delta=change(lines=71, files=5), violations=(SOFT,)) == expected


SHARES = st.decimals(0, 1, places=6)
WEIGHT_SETS = st.builds(InterfaceWeights, ok=SHARES, value=SHARES, violation=SHARES)
SIZES = st.integers(0, 2**53 - 1) | st.integers(0, 300)
DELTAS = st.builds(
    ChangeSummary,
    change_digest=st.just(DIGEST),
    is_applicable=st.booleans(),
    lines_changed=SIZES,
    files_changed=SIZES,
)
VIOLATIONS = st.builds(
    Violation,
    rule=st.sampled_from(["network", "writable", "change-size"]),
    severity=st.sampled_from(["hard", "compliance"]),
    count=st.integers(1, 20),
)
VIOLATION_LISTS = st.lists(VIOLATIONS, max_size=5).map(tuple)
OUTCOMES = st.sampled_from(["pass", "fail"])


@dataclass(frozen=True)
class ToyTrace:
    """A trace with everything that must not matter."""

    outcome: Literal["pass", "fail"]
    delta: ChangeSummary
    violations: tuple[Violation, ...]
    started_us: int
    tokens: int
    visited: tuple[str, ...]

    def project(self) -> ScoreInputs:
        return ScoreInputs(outcome=self.outcome, change=self.delta, violations=self.violations)


NOISE = st.tuples(
    st.integers(0, 2**50), st.integers(0, 10**6), st.lists(st.text(max_size=5), max_size=3).map(tuple)
)


@given(OUTCOMES, DELTAS, VIOLATION_LISTS, WEIGHT_SETS, NOISE, NOISE, st.randoms())
def test_equal_changes_and_violations_score_equally_whatever_else_differs(
    outcome: Literal["pass", "fail"],
    delta: ChangeSummary,
    violations: tuple[Violation, ...],
    weights: InterfaceWeights,
    one: tuple[int, int, tuple[str, ...]],
    other: tuple[int, int, tuple[str, ...]],
    random: Random,
) -> None:
    shuffled = list(violations)
    random.shuffle(shuffled)
    first = ToyTrace(outcome, delta, violations, *one)
    second = ToyTrace(outcome, delta, tuple(shuffled), *other)
    assert build_interface_score(first.project(), weights, value=VALUE) == build_interface_score(
        second.project(), weights, value=VALUE
    )


@given(VIOLATION_LISTS)
def test_counting_violations_one_by_one_changes_nothing(violations: tuple[Violation, ...]) -> None:
    singly = tuple(
        msgspec.structs.replace(violation, count=1)
        for violation in violations
        for _ in range(violation.count)
    )
    assert score(violations=singly) == score(violations=violations)


@given(VIOLATION_LISTS, st.randoms())
def test_penalty_of_anyones_making_cannot_see_the_order(
    violations: tuple[Violation, ...], random: Random
) -> None:
    def first_rule(given: tuple[Violation, ...]) -> Decimal:
        return Decimal(len(given[0].rule)) / 100 if given else Decimal(0)

    shuffled = list(violations)
    random.shuffle(shuffled)
    one, other = (
        build_interface_score(
            ScoreInputs(outcome="pass", change=change(), violations=tuple(order)),
            WEIGHTS,
            value=VALUE,
            penalty=first_rule,
        )
        for order in (violations, shuffled)
    )
    assert one == other


@given(OUTCOMES, DELTAS, VIOLATION_LISTS, WEIGHT_SETS)
def test_score_keeps_its_bounds(
    outcome: Literal["pass", "fail"],
    delta: ChangeSummary,
    violations: tuple[Violation, ...],
    weights: InterfaceWeights,
) -> None:
    result = score(outcome, delta, violations, weights=weights)
    assert -1 <= result.minimum <= result.score <= result.maximum <= 2
    assert (result.minimum, result.maximum) == (-weights.violation, weights.ok + weights.value)


@given(DELTAS, VIOLATION_LISTS, WEIGHT_SETS)
def test_passing_never_scores_less_than_failing(
    delta: ChangeSummary, violations: tuple[Violation, ...], weights: InterfaceWeights
) -> None:
    passed, failed = (score(outcome, delta, violations, weights=weights) for outcome in ("pass", "fail"))
    assert passed.score >= failed.score


@given(OUTCOMES, DELTAS, VIOLATION_LISTS, VIOLATIONS, WEIGHT_SETS)
def test_another_violation_never_raises_the_score(
    outcome: Literal["pass", "fail"],
    delta: ChangeSummary,
    violations: tuple[Violation, ...],
    another: Violation,
    weights: InterfaceWeights,
) -> None:
    before = score(outcome, delta, violations, weights=weights)
    after = score(outcome, delta, (*violations, another), weights=weights)
    assert after.score <= before.score


@given(DELTAS, st.integers(1, 1000))
def test_larger_change_never_scores_more(delta: ChangeSummary, more: int) -> None:
    larger = msgspec.structs.replace(delta, lines_changed=delta.lines_changed + more)
    assert score(delta=larger).score <= score(delta=delta).score
