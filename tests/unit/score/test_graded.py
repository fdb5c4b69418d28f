"""Graded dimensions, their weights and the general score (S6, C15)."""

from __future__ import annotations

import json
from decimal import Decimal
from itertools import product
from pathlib import Path

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.absence import NotComputable
from repotrial.contract import ChangeEnvelope, DimensionWeights, InterfaceWeights, Policy, Scoring
from repotrial.score import Graded, ScoreCard, build_score_card, load_evidence
from repotrial.score._graded import _find_extreme, render_share
from support.score_runs import FAILED, HUNG, UNIT, ScoreRun, build_contract, write_run

STYLE = msgspec.structs.replace(UNIT, id="style", is_mandatory=False)
FORMAT = msgspec.structs.replace(UNIT, id="format", is_mandatory=False)
PUBLISHED = Path(__file__).parents[3] / "schemas" / "rubric"


def judge(root: Path) -> ScoreCard:
    return build_score_card(load_evidence(root))


def graded_of(card: ScoreCard) -> Graded:
    assert isinstance(card.graded, Graded), card.graded
    return card.graded


def test_a_change_beyond_its_envelope_costs_score(tmp_path: Path) -> None:
    scoring = Scoring(decay=Decimal(1), envelope=ChangeEnvelope(lines=1, files=1))
    graded = graded_of(judge(write_run(tmp_path / "run", contract=build_contract((UNIT,), scoring=scoring))))
    # Three lines where one is free: exp(-2).
    assert graded.dimensions[0].value == "0.135335283"
    assert graded.sensitivity.simplex.minimum == "0.135335283"
    assert graded.sensitivity.simplex.maximum == "1"


def test_maintainability_is_the_share_of_its_checks_and_an_error_earns_nothing(tmp_path: Path) -> None:
    scoring = Scoring(maintainability=("style", "format"))
    contract = build_contract((UNIT, STYLE, FORMAT), scoring=scoring)
    for name, outcome in (("a", FAILED), ("b", HUNG)):
        graded = graded_of(judge(write_run(tmp_path / name, {"style": outcome}, contract=contract)))
        assert graded.dimensions[2].value == "0.5"
        assert graded.score == "0.85"


def test_weights_of_what_cannot_be_computed_are_shared_out(tmp_path: Path) -> None:
    weights = DimensionWeights(minimal=Decimal(0), trace=Decimal(0), maintainable=Decimal(1))
    contract = build_contract((UNIT,), scoring=Scoring(weights=weights))
    graded = graded_of(judge(write_run(tmp_path / "run", contract=contract)))
    assert [dimension.weight for dimension in graded.dimensions] == ["0.5", "0.5", "0"]


def test_the_weight_of_an_unknown_dimension_goes_to_the_others_in_proportion(tmp_path: Path) -> None:
    weights = DimensionWeights(minimal=Decimal("0.5"), trace=Decimal("0.3"), maintainable=Decimal("0.2"))
    contract = build_contract((UNIT,), scoring=Scoring(weights=weights))
    graded = graded_of(judge(write_run(tmp_path / "run", contract=contract)))
    assert [dimension.weight for dimension in graded.dimensions] == ["0.625", "0.375", "0"]
    assert [dimension.declared_weight for dimension in graded.dimensions] == ["0.5", "0.3", "0.2"]


def test_a_record_that_lacks_provenance_earns_nothing_for_its_trace(tmp_path: Path) -> None:
    evidence = load_evidence(write_run(tmp_path / "run"))
    facts = msgspec.structs.replace(evidence.facts, has_briefing=False)
    graded = graded_of(build_score_card(msgspec.structs.replace(evidence, facts=facts)))
    assert graded.dimensions[1].value == "0"
    assert graded.dimensions[1].why == "missing: the briefing"
    assert graded_of(build_score_card(evidence)).dimensions[1].value == "1"


def test_the_local_sensitivity_moves_each_weight_by_a_tenth(tmp_path: Path) -> None:
    scoring = Scoring(decay=Decimal(1), envelope=ChangeEnvelope(lines=1, files=1))
    graded = graded_of(judge(write_run(tmp_path / "run", contract=build_contract((UNIT,), scoring=scoring))))
    small, weight = Decimal(graded.dimensions[0].value), Decimal(graded.dimensions[0].weight)  # type: ignore[arg-type]
    for end, moved in (
        (graded.sensitivity.perturbed.minimum, "0.1"),
        (graded.sensitivity.perturbed.maximum, "-0.1"),
    ):
        share = weight + Decimal(moved)
        assert abs(Decimal(end) - (share * small + (1 - share))) < Decimal("1e-8")


def test_a_run_that_does_not_pass_all_gates_has_no_grade(tmp_path: Path) -> None:
    assert not isinstance(judge(write_run(tmp_path / "run", {"make": FAILED})).graded, Graded)


def test_the_general_score_charges_for_violations(tmp_path: Path) -> None:
    interface = InterfaceWeights(ok=Decimal("0.6"), value=Decimal("0.2"), violation=Decimal("0.2"))
    policy = Policy(max_files_changed=0)
    contract = build_contract((UNIT,), policy=policy, scoring=Scoring(interface=interface))
    general = judge(write_run(tmp_path / "run", contract=contract)).general
    assert not isinstance(general, NotComputable)
    assert general.score == "0.78"


def test_an_error_has_no_general_score(tmp_path: Path) -> None:
    assert isinstance(judge(write_run(tmp_path / "run", {"unit": HUNG})).general, NotComputable)


def test_equal_changes_with_equal_violations_score_equally_whatever_happened_on_the_way(
    tmp_path: Path,
) -> None:
    """Patch-equivalence invariance (C15)."""
    contract = build_contract((UNIT,))
    short = judge(write_run(tmp_path / "short", contract=contract))
    run = ScoreRun(tmp_path / "long", contract)
    for number in range(30):
        run.builder.tool(output=b"x" * number)
    run.end_acting(category="agent-exit", code="exit")
    run.apply()
    run.twins(UNIT)
    run.check(UNIT)
    long = judge(run.finish())
    assert short.general == long.general
    assert graded_of(short).score == graded_of(long).score


def test_the_published_weights_are_the_defaults() -> None:
    published, scoring = json.loads(PUBLISHED.joinpath("weights.json").read_bytes()), Scoring()
    for field in ("weights", "envelope", "lambda"):
        assert msgspec.convert({field: published[field]}, Scoring) == scoring
    assert sum(map(Decimal, published["weights"].values())) == 1


def test_published_artifacts_are_json() -> None:
    assert json.loads(PUBLISHED.joinpath("rubric.json").read_bytes())["outcomes"] == [
        "passed",
        "failed",
        "errored",
    ]


_NAMES = ("minimal", "trace", "maintainable")
_SHARES = st.lists(st.integers(0, 20), min_size=3, max_size=3).filter(any)
_VALUES = st.lists(st.integers(0, 10), min_size=3, max_size=3)


@given(shares=_SHARES, values=_VALUES, distance=st.integers(0, 10))
def test_no_weights_within_reach_give_more_or_less_than_the_stated_range(
    shares: list[int], values: list[int], distance: int
) -> None:
    weights = {name: Decimal(share) / sum(shares) for name, share in zip(_NAMES, shares, strict=True)}
    q = {name: Decimal(value) / 10 for name, value in zip(_NAMES, values, strict=True)}
    reach = Decimal(distance) / 20
    low = _find_extreme(weights, q, reach, is_maximum=False)  # type: ignore[arg-type]
    high = _find_extreme(weights, q, reach, is_maximum=True)  # type: ignore[arg-type]
    slack = Decimal("1e-20")
    assert low <= sum(weights[name] * q[name] for name in _NAMES) + slack
    assert high >= sum(weights[name] * q[name] for name in _NAMES) - slack
    for first, second in product((-reach, Decimal(0), reach), repeat=2):
        moved = [weights["minimal"] + first, weights["trace"] + second]
        moved.append(Decimal(1) - moved[0] - moved[1])
        within = abs(moved[2] - weights["maintainable"]) <= reach and all(0 <= w <= 1 for w in moved)
        if within:
            s = sum(w * q[name] for w, name in zip(moved, _NAMES, strict=True))
            assert low - slack <= s <= high + slack


def test_a_gigantic_change_has_a_score_of_zero_and_not_a_crash() -> None:
    assert render_share(Decimal("1E-3284")) == "0"
