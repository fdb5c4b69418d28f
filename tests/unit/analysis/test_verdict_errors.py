"""Wrong verdicts by the labels of people (X1), stricter caps (Q18) and undiscovered failure modes (Q20)."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import msgspec
import pytest

from repotrial import api
from repotrial._core.absence import NotComputable
from repotrial.analysis import Analysis, ConductedPilot, PilotFigures, ReviewedRun, ReviewLabel, analyze_pilot
from repotrial.cost import load_price_book
from support.miniature_pilots import conduct_pilot


def _label(verdict: str, *, reviewer: str = "kim", chance: str = "1", mode: str | None = None) -> ReviewLabel:
    return msgspec.convert(
        {
            "case": "case-1",
            "chance": chance,
            "verdict": verdict,
            "failure_mode": mode,
            "reviewer": reviewer,
            "reason": "read",
            "minutes": 5,
            "at_us": 1,
        },
        ReviewLabel,
        strict=False,
    )


def _ask(arm: str, place: int, *labels: ReviewLabel, chance: str = "1") -> ReviewedRun:
    return ReviewedRun(
        case=f"case-{arm}-{place}",
        run_id=f"{arm}-{place}",
        task=f"t{place:02}",
        arm=arm,
        repeat=0,
        chance=Decimal(chance),
        reasons=(),
        labels=labels,
    )


def _analyze(pilot: ConductedPilot, *reviews: ReviewedRun) -> Analysis:
    return analyze_pilot(msgspec.structs.replace(pilot, reviews=reviews), load_price_book(None))


def _pilot(analysis: Analysis) -> PilotFigures:
    assert not isinstance(analysis.pilot, NotComputable)
    return analysis.pilot


@pytest.fixture(scope="module")
def conducted(tmp_path_factory: pytest.TempPathFactory) -> ConductedPilot:
    return conduct_pilot(tmp_path_factory.mktemp("pilot"), {"a": ["s"] * 4 + ["f"] * 4, "b": ["f"] * 8})


def test_labels_are_weighted_by_the_inverse_of_their_chance(conducted: ConductedPilot) -> None:
    found = _pilot(
        _analyze(
            conducted,
            _ask("b", 0, _label("correct")),
            _ask("b", 1, _label("incorrect", chance="0.25"), chance="0.25"),
            _ask("a", 0, _label("correct")),
            _ask("a", 1, _label("incorrect", mode="acceptance-failure")),
        )
    ).verdict_errors
    assert not isinstance(found, NotComputable)
    # Rejected: one correct of weight 1, one incorrect of weight 4.
    assert not isinstance(found.rejected_correct.share, NotComputable)
    assert found.rejected_correct.share.estimate == pytest.approx(1 / 5)
    # Correct: one rejected, one accepted, of weight 1 each.
    assert not isinstance(found.correct_rejected.share, NotComputable)
    assert found.correct_rejected.share.estimate == pytest.approx(1 / 2)
    assert not isinstance(found.accepted_incorrect.share, NotComputable)
    assert found.accepted_incorrect.share.estimate == pytest.approx(1 / 2)
    # Incorrect: one accepted of weight 1, one rejected of weight 4.
    assert not isinstance(found.incorrect_accepted.share, NotComputable)
    assert found.incorrect_accepted.share.estimate == pytest.approx(1 / 5)
    assert (found.asked, found.labeled, found.minutes, found.minutes_per_finding) == (4, 4, 20, 10)
    assert "false positive is a correct change that the checks rejected" in found.definition


def test_unclear_missing_and_disputed_labels_enter_bounds_only(conducted: ConductedPilot) -> None:
    found = _pilot(
        _analyze(
            conducted,
            _ask("b", 0, _label("correct")),
            _ask("b", 1, _label("incorrect")),
            _ask("b", 2, _label("unclear")),
            _ask("b", 3),
            _ask("b", 4, _label("correct"), _label("incorrect", reviewer="lee")),
        )
    ).verdict_errors
    assert not isinstance(found, NotComputable)
    share = found.rejected_correct
    assert not isinstance(share.share, NotComputable)
    assert (share.share.estimate, share.lowest, share.highest, share.labels) == pytest.approx(
        (1 / 2, 1 / 5, 4 / 5, 2)
    )
    assert (found.unclear, found.disputed, found.labeled) == (1, 1, 2)
    assert isinstance(found.incorrect_accepted.share, msgspec.Struct)


def test_an_open_case_counts_for_a_share_only_with_the_verdict_that_it_has(conducted: ConductedPilot) -> None:
    """One accepted and two rejected runs without a clear label, beside a rejected one that is incorrect."""
    found = _pilot(
        _analyze(conducted, _ask("b", 1, _label("incorrect")), _ask("a", 0), _ask("b", 2), _ask("b", 3))
    ).verdict_errors
    assert not isinstance(found, NotComputable)
    share = found.incorrect_accepted
    assert (share.lowest, share.highest, share.labels) == pytest.approx((0, 1 / 2, 1))


def test_a_person_who_says_it_again_counts_once(conducted: ConductedPilot) -> None:
    found = _pilot(_analyze(conducted, _ask("b", 0, _label("incorrect"), _label("correct")))).verdict_errors
    assert not isinstance(found, NotComputable)
    assert not isinstance(found.rejected_correct.share, NotComputable)
    assert found.rejected_correct.share.estimate == 1


def test_no_finding_is_not_a_rate_of_zero_for_sure(conducted: ConductedPilot) -> None:
    cases = [_ask("b", place, _label("incorrect")) for place in range(6)]
    found = _pilot(_analyze(conducted, *cases)).verdict_errors
    assert not isinstance(found, NotComputable)
    share = found.rejected_correct.share
    assert not isinstance(share, NotComputable)
    assert (share.estimate, share.low) == (0, 0)
    assert share.high == pytest.approx(1 - 0.05 ** (1 / 6))
    assert isinstance(found.minutes_per_finding, NotComputable)
    assert isinstance(found.accepted_incorrect.share, NotComputable)


def test_modes_are_the_tags_of_rejected_and_the_findings_in_accepted_runs(conducted: ConductedPilot) -> None:
    found = _pilot(
        _analyze(
            conducted,
            _ask("b", 0, _label("correct")),
            _ask("a", 0, _label("incorrect", mode="policy-violation")),
            _ask("a", 1, _label("correct")),
        )
    ).verdict_errors
    assert not isinstance(found, NotComputable)
    modes = {one.mode: one for one in found.modes}
    assert {"acceptance-failure", "policy-violation"} <= modes.keys()
    positive = modes["acceptance-failure"].false_positives.share
    negative = modes["policy-violation"].false_negatives.share
    assert not isinstance(positive, NotComputable)
    assert not isinstance(negative, NotComputable)
    assert (positive.estimate, negative.estimate) == pytest.approx((1, 1 / 2))


def test_labels_change_neither_verdict_nor_rate_and_stand_beside_it(conducted: ConductedPilot) -> None:
    plain = _analyze(conducted)
    labeled = _analyze(conducted, *(_ask("a", place, _label("incorrect")) for place in range(4)))
    assert [arm.rate for arm in labeled.arms] == [arm.rate for arm in plain.arms]
    assert isinstance(_pilot(plain).verdict_errors, NotComputable)
    errors = _pilot(labeled).verdict_errors
    assert not isinstance(errors, NotComputable)
    assert not isinstance(errors.rates["a"].share, NotComputable)
    assert errors.rates["a"].share.estimate == 0


def test_every_row_under_a_stricter_cap_says_provisional(conducted: ConductedPilot) -> None:
    analysis = _analyze(conducted)
    rows = _pilot(analysis).counterfactual
    assert {(one.cap, one.share) for one in rows} >= {("wall_seconds", 0.5), ("cost_usd", 0.25)}
    assert all(one.label == "provisional" for one in rows)
    text = api.report_analysis(analysis)["analysis.md"]
    table = [line for line in text.splitlines() if " of wall_seconds" in line]
    assert table
    assert all("provisional" in line for line in table)


def test_a_success_beyond_the_stricter_cap_is_lost_and_no_failure_is_won(tmp_path: Path) -> None:
    # Task n takes n + 1 seconds; the contract allows 1,800 for the clock.
    pilot = conduct_pilot(tmp_path, {"a": ["s"] * 2 + ["f"] * 2, "b": ["f"] * 4}, seconds=400)
    rows = {(one.arm, one.cap, one.share): one.rate for one in _pilot(_analyze(pilot)).counterfactual}
    assert rows["a", "wall_seconds", 0.5] == pytest.approx(2 / 4)
    assert rows["a", "wall_seconds", 0.25] == pytest.approx(1 / 4)
    assert rows["b", "wall_seconds", 0.5] == 0


def test_one_more_failure_mode_costs_the_mean_trial_over_the_chance_of_a_new_one(
    conducted: ConductedPilot,
) -> None:
    found = _pilot(_analyze(conducted)).discovery
    assert found.modes["acceptance-failure"] == 12
    # Every mode was seen more than once.
    assert found.chance_of_another == 0
    assert isinstance(found.usd_for_another, NotComputable)


def test_a_flagged_success_that_a_person_looked_at_is_no_longer_doubtful(tmp_path: Path) -> None:
    pilot = conduct_pilot(tmp_path, {"a": ["d", "s", "s"], "b": ["f"] * 3})
    assert _pilot(_analyze(pilot)).arms[0].doubtful == 1
    assert _pilot(_analyze(pilot, _ask("a", 0, _label("correct")))).arms[0].doubtful == 0
