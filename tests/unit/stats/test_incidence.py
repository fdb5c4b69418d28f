"""Cumulative incidence: a case by hand, lifelines beside it, and where the curve ends."""

from __future__ import annotations

import numpy as np
import pytest

from repotrial._core.absence import NotComputable
from repotrial.stats import Incidence, TimedEnd, estimate_incidence

SEED = np.random.SeedSequence(20260307)


def _estimate(ends: list[TimedEnd], cause: str = "success") -> Incidence:
    found = estimate_incidence(ends, cause, seed_sequence=SEED)
    assert isinstance(found, Incidence)
    return found


def _ends(*rows: tuple[float, str | None]) -> list[TimedEnd]:
    return [TimedEnd(key=f"{index:03}", at=at, cause=cause) for index, (at, cause) in enumerate(rows)]


def test_a_case_by_hand() -> None:
    # At 2 one of four; at 3 one of three is censored; at 4 one of the two left: 1/4 + 3/4 * 1/2.
    found = _estimate(_ends((2, "success"), (3, None), (4, "success"), (5, "failure")))
    assert [point.at for point in found.points] == [2, 4]
    assert [point.value for point in found.points] == pytest.approx([0.25, 0.625])
    assert (found.final, found.n_units, found.n_censored) == pytest.approx((0.625, 4, 1))


def test_without_censoring_the_curve_ends_at_the_rate_and_failures_are_no_successes_to_come() -> None:
    ends = _ends((1, "failure"), (2, "success"), (2, "limit"), (3, "failure"), (9, "success"))
    assert _estimate(ends).final == pytest.approx(2 / 5)
    causes = ("success", "failure", "limit")
    assert sum(_estimate(ends, cause).final for cause in causes) == pytest.approx(1)


def test_it_is_what_lifelines_gives() -> None:
    from lifelines import AalenJohansenFitter

    generator = np.random.default_rng(20260307)
    at = generator.exponential(10, size=200) + np.arange(200) * 1e-6
    codes = generator.choice([0, 1, 2, 3], p=[0.1, 0.4, 0.3, 0.2], size=200)
    names = (None, "success", "failure", "crash")
    found = _estimate(_ends(*((float(t), names[c]) for t, c in zip(at, codes, strict=True))))
    fitter = AalenJohansenFitter(calculate_variance=False).fit(at, codes, event_of_interest=1)
    known = fitter.cumulative_density_["CIF_1"]
    for point in found.points:
        # lifelines rounds times a little.
        assert point.value == pytest.approx(float(known[known.index <= point.at + 1e-7].iloc[-1]), abs=1e-9)


def test_the_band_holds_the_truth_where_tasks_differ() -> None:
    generator = np.random.default_rng(20260307)
    repeats, hits = 150, 0
    for index in range(repeats):
        chances = generator.beta(1, 1, size=40)
        ends = [
            TimedEnd(
                key=str(task),
                at=float(generator.random()),
                cause="success" if generator.random() < chance else "failure",
            )
            for task, chance in enumerate(chances)
            for _ in range(3)
        ]
        found = estimate_incidence(ends, "success", seed_sequence=np.random.SeedSequence(index), draws=200)
        assert isinstance(found, Incidence)
        last = found.points[-1]
        assert last.low is not None
        assert last.high is not None
        hits += last.low <= 0.5 <= last.high
    assert hits / repeats > 0.9 - 3 * np.sqrt(0.9 * 0.1 / repeats)


def test_narrow_input_has_no_band_or_no_curve() -> None:
    assert estimate_incidence([], "success", seed_sequence=SEED) == NotComputable(reason="there are no runs")
    lonely = _estimate([TimedEnd(key="a", at=1, cause="success"), TimedEnd(key="a", at=2, cause=None)])
    assert [(point.value, point.low) for point in lonely.points] == [(0.5, None)]
    none = _estimate(_ends((1, "failure"), (2, "failure")))
    assert (none.points, none.final) == ((), 0)
    with pytest.raises(ValueError, match="at least 0"):
        estimate_incidence(_ends((-1, "success")), "success", seed_sequence=SEED)


def test_a_long_curve_is_thinned_and_keeps_its_last_point() -> None:
    found = _estimate(_ends(*((float(at), "success") for at in range(500))))
    assert len(found.points) == 60
    assert (found.points[-1].at, found.points[-1].value) == pytest.approx((499, 1))
