"""Looks: published boundaries, sizes where nothing differs, and estimates that are right in the median."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from repotrial.stats import (
    Interval,
    adjust_holm,
    build_always_valid,
    compute_sequential_p,
    estimate_after_looks,
    plan_looks,
)
from support.exhaustive import IS_EXHAUSTIVE
from support.outcomes import draw_chances, draw_paired_chances

_REPEATS = 20_000 if IS_EXHAUSTIVE else 3000


def _allow(bound: float, repeats: int) -> float:
    return bound + 3 * float(np.sqrt(bound * (1 - bound) / repeats))


@pytest.mark.parametrize(
    ("looks", "published"),
    [
        (1, (1.9600,)),
        (2, (2.9626, 1.9686)),
        (3, (3.7103, 2.5114, 1.9930)),
        (4, (4.3326, 2.9631, 2.3590, 2.0141)),
        (5, (4.8769, 3.3570, 2.6803, 2.2898, 2.0310)),
    ],
)
def test_boundaries_are_those_published_for_gsdesign(looks: int, published: tuple[float, ...]) -> None:
    found = plan_looks([(look + 1) / looks for look in range(looks)])
    assert [round(look.critical, 4) for look in found] == list(published)
    assert found[-1].spent == pytest.approx(0.05)
    assert [look.level for look in found] == pytest.approx(
        [2 * stats.norm.sf(each) for each in published], 1e-3
    )


def test_boundaries_spend_what_the_function_says() -> None:
    # One multivariate normal integral for each look, another way to the same chance.
    fractions = np.array([0.3, 0.55, 1.0])
    looks = plan_looks(fractions.tolist(), spending="pocock")
    correlation = np.sqrt(np.minimum.outer(fractions, fractions) / np.maximum.outer(fractions, fractions))
    for count in range(1, 4):
        # From three looks on it is drawn at random: with ten times the precision that is held against it.
        stay = stats.multivariate_normal.cdf(
            [look.critical for look in looks[:count]],
            cov=correlation[:count, :count],
            abseps=1e-6,
            releps=1e-6,
        )
        assert 2 * (1 - stay) == pytest.approx(looks[count - 1].spent, abs=2e-5)


def test_what_was_spent_under_another_plan_stays_spent() -> None:
    planned = plan_looks([0.4, 0.7, 1.0])
    # Tasks were removed: the first look, held at 0.4, turns out to have had half of the information.
    again = plan_looks([0.5, 0.8, 1.0], spent=[planned[0].spent])
    assert again[0].spent == planned[0].spent
    assert again[0].critical == pytest.approx(planned[0].critical)
    assert again[-1].spent == pytest.approx(0.05)


@pytest.mark.parametrize("fractions", [[], [0.0, 1.0], [0.5, 0.5], [0.6, 0.4], [0.5, 1.1]])
def test_fractions_that_are_no_plan_are_refused(fractions: list[float]) -> None:
    with pytest.raises(ValueError, match="fractions"):
        plan_looks(fractions)


def test_more_spent_than_there_is_is_refused() -> None:
    with pytest.raises(ValueError, match="spent"):
        plan_looks([0.5, 1.0], spent=[0.06])
    with pytest.raises(ValueError, match="spent"):
        plan_looks([1.0], spent=[0.01, 0.02])


def test_a_result_on_the_boundary_has_the_level_spent_so_far_as_p_value() -> None:
    looks = plan_looks([1 / 3, 2 / 3, 1])
    for count in (1, 2, 3):
        held = looks[:count]
        assert compute_sequential_p(held, held[-1].critical) == pytest.approx(held[-1].spent)
        assert compute_sequential_p(held, -held[-1].critical) == pytest.approx(held[-1].spent)
    assert compute_sequential_p(plan_looks([1.0]), 1.7) == pytest.approx(2 * stats.norm.sf(1.7))


def _draw_statistics(fractions: np.ndarray, drift: float, repeats: int) -> np.ndarray:
    generator = np.random.default_rng(20260307)
    steps = np.diff(fractions, prepend=0)
    walk = np.cumsum(generator.normal(drift * steps, np.sqrt(steps), size=(repeats, len(fractions))), axis=1)
    return np.asarray(walk / np.sqrt(fractions))


@pytest.mark.parametrize("drift", [0.0, 2.0, 3.5] if IS_EXHAUSTIVE else [2.0])
def test_the_estimate_after_a_stop_is_right_in_the_median_where_the_plain_one_is_not(drift: float) -> None:
    fractions = np.array([0.4, 0.7, 1.0])
    looks = plan_looks(fractions.tolist(), spending="pocock")
    repeats = 3000 if IS_EXHAUSTIVE else 250
    critical = np.array([look.critical for look in looks])
    above, covered = 0, 0
    for row in _draw_statistics(fractions, drift, repeats):
        crossed = np.flatnonzero(np.abs(row) >= critical)
        last = int(crossed[0]) if len(crossed) else 2
        error = 1 / np.sqrt(fractions[last])
        found = estimate_after_looks(
            looks[: last + 1], float(row[last] * error), float(error), n_units=1, n_clusters=1
        )
        above += found.value > drift
        assert isinstance(found.interval, Interval)
        covered += found.interval.low <= drift <= found.interval.high
    assert abs(above / repeats - 0.5) < 3 * np.sqrt(0.25 / repeats) + 0.01
    assert covered / repeats > 0.95 - 3 * np.sqrt(0.95 * 0.05 / repeats) - 0.005


def test_the_estimate_after_one_look_is_the_plain_one() -> None:
    found = estimate_after_looks(plan_looks([1.0]), -0.3, 0.1, n_units=9, n_clusters=3)
    assert isinstance(found.interval, Interval)
    assert (found.value, found.interval.low, found.interval.high) == pytest.approx(
        (-0.3, -0.3 - 0.1959964, -0.3 + 0.1959964)
    )
    with pytest.raises(ValueError, match="standard error"):
        estimate_after_looks(plan_looks([1.0]), 0.3, 0.0, n_units=9, n_clusters=3)


def _draw_null(tasks: int, runs: int, repeats: int, sides: int = 2) -> np.ndarray:
    """Means of tasks of sides that do not differ; chances are shared, each side's own runs independent."""
    generator = np.random.default_rng(20260307)
    chances = draw_chances(generator, 0.6, 0.65, (repeats, tasks))
    return generator.binomial(runs, chances, size=(sides, repeats, tasks)) / runs


def _test_t(differences: np.ndarray) -> np.ndarray:
    count = differences.shape[1]
    spread = differences.std(axis=1, ddof=1)
    t = differences.mean(axis=1) / np.where(spread > 0, spread, np.inf) * np.sqrt(count)
    return np.asarray(2 * stats.t.sf(np.abs(t), count - 1))


@pytest.mark.parametrize(
    ("tasks", "runs", "at"), [(20, 3, (6, 12, 20)), (40, 3, (10, 20, 30, 40)), (80, 1, (16, 48, 80))]
)
def test_t_at_spent_levels_keeps_its_size_over_looks(tasks: int, runs: int, at: tuple[int, ...]) -> None:
    one, other = _draw_null(tasks, runs, _REPEATS)
    looks = plan_looks([count / tasks for count in at])
    stops = [_test_t((one - other)[:, :count]) <= look.level for count, look in zip(at, looks, strict=True)]
    assert np.mean(np.any(stops, axis=0)) < _allow(0.055, _REPEATS)
    plain = np.mean(np.any([_test_t((one - other)[:, :count]) <= 0.05 for count in at], axis=0))
    assert plain > 0.06, "the simulation would not notice a test that spends nothing"


def test_repeats_chosen_from_squared_differences_keep_the_size() -> None:
    # After one run of each side the number of repeats follows from the spread of differences, names hidden.
    generator = np.random.default_rng(20260307)
    chances = draw_chances(generator, 0.6, 0.65, (_REPEATS, 40))
    first = generator.binomial(1, chances, size=(2, _REPEATS, 40)).astype(float)
    square = np.mean((first[0] - first[1]) ** 2, axis=1)
    runs = np.where(square > np.median(square), 5, 2)[:, None]
    more = generator.binomial(runs - 1, chances, size=(2, _REPEATS, 40))
    means = (first + more) / runs
    assert np.mean(_test_t(means[0] - means[1]) <= 0.05) < _allow(0.055, _REPEATS)


def test_a_family_with_one_contrast_that_may_stop_keeps_its_error() -> None:
    sides = _draw_null(40, 3, _REPEATS, sides=3)
    at = (16, 28, 40)
    looks = plan_looks([count / 40 for count in at])
    first = sides[0] - sides[1]
    held = np.array([_test_t(first[:, :count]) for count in at])
    crossed = held <= np.array([look.level for look in looks])[:, None]
    last = np.where(crossed.any(axis=0), crossed.argmax(axis=0), 2)
    others = [_test_t(sides[0] - sides[2]), _test_t(sides[1] - sides[2])]
    rejected = 0
    for index, stop in enumerate(last):
        statistic = float(stats.norm.isf(held[stop, index] / 2))
        # Most samples reject nothing: only those that might are worth the integration.
        if held[stop, index] > 0.06 and min(one[index] for one in others) > 0.05:
            continue
        sequential = compute_sequential_p(looks[: int(stop) + 1], statistic)
        rejected += min(adjust_holm([sequential, *(float(one[index]) for one in others)])) <= 0.05
    assert rejected / _REPEATS < _allow(0.055, _REPEATS)


@pytest.mark.parametrize(("rates", "runs"), [((0.5, 0.5), 1), ((0.2, 0.5), 3), ((0.9, 0.9), 3)])
def test_the_always_valid_band_hardly_ever_leaves_the_truth(rates: tuple[float, float], runs: int) -> None:
    generator = np.random.default_rng(20260307)
    repeats = 2000 if IS_EXHAUSTIVE else 100
    one, other = draw_paired_chances(generator, rates, 0.5, 0.5, (repeats, 200))
    differences = (generator.binomial(runs, one) - generator.binomial(runs, other)) / runs
    truth = rates[0] - rates[1]
    missed, width = 0, 0.0
    for row in differences:
        band = build_always_valid(row.tolist())
        missed += not all(each.low <= truth <= each.high for each in band)
        width += band[-1].high - band[-1].low
    assert missed / repeats < _allow(0.05, repeats)
    fixed = 2 * 1.96 * float(np.std(differences)) / np.sqrt(200)
    assert width / repeats < 2.2 * fixed, "a band that wide says nothing"


def test_the_band_never_widens_and_starts_from_everything() -> None:
    band = build_always_valid([1.0, -1.0, *[1.0] * 30])
    assert (band[0].low, band[0].high) == (-1, 1)
    assert all(b.low >= a.low and b.high <= a.high for a, b in itertools.pairwise(band))
    assert band[-1].low > 0
    assert build_always_valid([]) == ()
    with pytest.raises(ValueError, match="between -1 and 1"):
        build_always_valid([1.5])
