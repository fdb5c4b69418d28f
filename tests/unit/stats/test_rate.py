"""Rates: closed forms, another way to the same figures, and coverage where the truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, stats

from repotrial._core.absence import NotComputable
from repotrial.stats import Cluster, Estimate, Interval, compute_standard_error, estimate_clustered_rate
from repotrial.stats._rate import RateBounds, bound_rate, estimate_rate
from support.exhaustive import IS_EXHAUSTIVE, sample
from support.outcomes import LEVELS, binary_cluster_lists, clusters_of, draw_chances, shuffle


def _interval(result: Estimate | NotComputable) -> Interval:
    assert isinstance(result, Estimate)
    assert isinstance(result.interval, Interval)
    return result.interval


@pytest.mark.parametrize(("successes", "n"), [(0, 1), (0, 12), (1, 12), (7, 12), (12, 12), (431, 1000)])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_a_simple_rate_has_the_interval_that_scipy_gives(successes: int, n: int, level: float) -> None:
    known = stats.binomtest(successes, n).proportion_ci(level, method="wilson")
    found = _interval(estimate_rate(successes, n, level=level))
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=1e-12)
    assert found.method == "wilson"


def test_a_rate_of_nothing_is_not_computable() -> None:
    assert estimate_rate(0, 0) == NotComputable(reason="there are no runs")
    assert estimate_clustered_rate([]) == NotComputable(reason="there are no runs")
    assert bound_rate(0, 0, 0) == NotComputable(reason="there are no runs")


@pytest.mark.parametrize(("successes", "n"), [(-1, 3), (4, 3), (0, -1)])
def test_impossible_counts_are_refused(successes: int, n: int) -> None:
    with pytest.raises(ValueError, match="successes"):
        estimate_rate(successes, n)


@pytest.mark.parametrize("counts", [(-1, 2, 2), (2, -1, 2), (2, 2, -1)])
def test_negative_counts_have_no_bounds(counts: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="at least 0"):
        bound_rate(*counts)


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40), LEVELS)
def test_bounds_hold_whatever_the_indeterminate_runs_would_have_been(
    s: int, f: int, i: int, level: float
) -> None:
    bounds = bound_rate(s, f, i, level=level)
    if s + f + i == 0:
        assert isinstance(bounds, NotComputable)
        return
    assert isinstance(bounds, RateBounds)
    assert (bounds.n_units, bounds.n_indeterminate) == (s + f + i, i)
    for turned in range(i + 1):
        resolved = estimate_rate(s + turned, s + f + i, level=level)
        assert isinstance(resolved, Estimate)
        assert bounds.low <= resolved.value <= bounds.high
        assert bounds.interval.low <= _interval(resolved).low + 1e-12
        assert _interval(resolved).high <= bounds.interval.high + 1e-12


def test_the_rate_is_over_all_runs_and_counts_clusters() -> None:
    found = estimate_clustered_rate(clusters_of([1, 1, 1], [0], [1, 0]))
    assert isinstance(found, Estimate)
    assert (found.value, found.n_units, found.n_clusters) == (4 / 6, 6, 3)


def test_one_cluster_has_a_rate_but_no_interval() -> None:
    found = estimate_clustered_rate(clusters_of([1, 0, 1]))
    assert isinstance(found, Estimate)
    assert found.value == 2 / 3
    assert isinstance(found.interval, NotComputable)


@pytest.mark.parametrize("outcome", [0, 1])
def test_where_all_runs_ended_alike_repeats_do_not_narrow_the_interval(outcome: int) -> None:
    found = _interval(estimate_clustered_rate(clusters_of(*[[outcome] * 50] * 6)))
    single = _interval(estimate_clustered_rate(clusters_of(*[[outcome]] * 6)))
    assert found.method == "wilson-on-clusters"
    assert (found.low, found.high) == pytest.approx((single.low, single.high))
    t = float(stats.t.isf(0.025, 5))
    assert found.high - found.low == pytest.approx(t * t / (6 + t * t))


def test_one_cluster_with_the_rarer_outcome_says_as_little_about_repeats_as_none() -> None:
    found = _interval(estimate_clustered_rate(clusters_of(*[[0] * 5] * 19, [1, 0, 0, 0, 0])))
    assert found.method == "wilson-on-clusters"
    assert (found.low, found.high) == pytest.approx(_solve_wilson(1 / 100, 20, 19))
    more = _interval(estimate_clustered_rate(clusters_of(*[[0] * 5] * 18, *[[1, 0, 0, 0, 0]] * 2)))
    assert more.method == "wilson-effective-size"


def test_clusters_that_agree_by_chance_do_not_narrow_the_interval_below_that_of_independent_runs() -> None:
    found = _interval(estimate_clustered_rate(clusters_of(*[[0, 1]] * 8)))
    assert (found.low, found.high) == pytest.approx(_solve_wilson(1 / 2, 16, 7))
    assert found.method == "wilson-effective-size"


def _solve_wilson(rate: float, n: float, degrees: float) -> tuple[float, float]:
    """Wilson's interval by the quadratic it solves: (rate - p)² = t² p (1 - p) / n."""
    square = float(stats.t.isf(0.025, degrees)) ** 2 / n
    low, high = np.sort(np.roots([1 + square, -2 * rate - square, rate**2]).real)
    return float(low), float(high)


def test_identical_repeats_count_once() -> None:
    repeated = _interval(estimate_clustered_rate(clusters_of([1] * 9, [0] * 9, [1] * 9, [1] * 9, [0] * 9)))
    single = _interval(estimate_clustered_rate(clusters_of([1], [0], [1], [1], [0])))
    assert (repeated.low, repeated.high) == pytest.approx((single.low, single.high))


def test_the_standard_error_is_that_of_the_general_matrix_formulas() -> None:
    clusters = clusters_of([1, 1, 1, 0], [0, 0], [1], [1, 1, 1, 1, 1, 0], [0, 0, 0], [1, 0])
    y = np.concatenate([cluster.values for cluster in clusters])
    labels = np.repeat(np.arange(6), [len(cluster.values) for cluster in clusters])
    n = len(y)
    residual_maker = np.eye(n) - np.full((n, n), 1 / n)
    columns = []
    for label in range(6):
        inside = np.flatnonzero(labels == label)
        block = linalg.fractional_matrix_power(residual_maker[np.ix_(inside, inside)], -0.5)
        columns.append(residual_maker[:, inside] @ block @ np.full(len(inside), 1 / n))
    weights = np.array(columns).T
    variance = np.sum((weights.T @ y) ** 2)
    gram = weights.T @ weights
    degrees = np.trace(gram) ** 2 / np.trace(gram @ gram)
    rate = y.mean()
    assert compute_standard_error(clusters) == pytest.approx(np.sqrt(variance))
    assert variance > rate * (1 - rate) / n, "the floor would hide a mistake"
    found = _interval(estimate_clustered_rate(clusters))
    assert (found.low, found.high) == pytest.approx(
        _solve_wilson(float(rate), rate * (1 - rate) / variance, degrees)
    )


def test_the_standard_error_is_that_of_statsmodels() -> None:
    # With clusters of one size CR2 is CR1 but for statsmodels' factor (n - 1) / (n - p).
    import statsmodels.api as sm

    generator = np.random.default_rng(20260307)
    runs = generator.integers(2, size=(23, 4)).astype(float)
    model = sm.OLS(runs.ravel(), np.ones(92)).fit(
        cov_type="cluster", cov_kwds={"groups": np.repeat(np.arange(23), 4)}
    )
    assert compute_standard_error(clusters_of(*runs)) == pytest.approx(float(model.bse[0]), rel=1e-9)


def test_one_cluster_has_no_standard_error() -> None:
    assert isinstance(compute_standard_error(clusters_of([1, 0])), NotComputable)


def test_a_rate_of_something_other_than_success_is_refused() -> None:
    with pytest.raises(ValueError, match="only 0 and 1"):
        estimate_clustered_rate([Cluster(key="a", values=(0.5,))])


@given(binary_cluster_lists(min_size=2), LEVELS)
def test_intervals_contain_the_estimate_lie_in_range_and_have_a_width(
    clusters: list[Cluster], level: float
) -> None:
    found = estimate_clustered_rate(clusters, level=level)
    assert isinstance(found, Estimate)
    interval = _interval(found)
    assert 0 <= interval.low <= found.value <= interval.high <= 1
    assert interval.low < interval.high


@given(binary_cluster_lists(min_size=2), LEVELS, LEVELS)
def test_more_confidence_never_gives_a_narrower_interval(
    clusters: list[Cluster], one: float, other: float
) -> None:
    narrow, wide = (
        _interval(estimate_clustered_rate(clusters, level=level)) for level in sorted((one, other))
    )
    assert wide.low <= narrow.low
    assert narrow.high <= wide.high


@given(binary_cluster_lists(), st.integers(0, 1000))
def test_the_order_of_runs_and_clusters_changes_nothing(clusters: list[Cluster], seed: int) -> None:
    assert estimate_clustered_rate(shuffle(clusters, seed)) == estimate_clustered_rate(clusters)


@given(binary_cluster_lists(min_size=2))
def test_failure_rates_mirror_success_rates(clusters: list[Cluster]) -> None:
    mirrored = [Cluster(key=each.key, values=tuple(1 - value for value in each.values)) for each in clusters]
    success, failure = (_interval(estimate_clustered_rate(each)) for each in (clusters, mirrored))
    assert (failure.low, failure.high) == pytest.approx((1 - success.high, 1 - success.low))


_RATES = (0.1, 0.3, 0.5, 0.9)
_CORRELATIONS = (0.0, 0.3, 0.65, 0.8)
_CELLS = sample(list(itertools.product(_RATES, _CORRELATIONS, (20, 50, 200), (1, 3, 5))), 7)
_REPEATS = 4000 if IS_EXHAUSTIVE else 600


@pytest.mark.parametrize(("rate", "icc", "tasks", "runs"), _CELLS)
def test_intervals_cover_and_are_hardly_wider_than_with_known_variance(
    rate: float, icc: float, tasks: int, runs: int
) -> None:
    generator = np.random.default_rng(20260307)
    chances = draw_chances(generator, rate, icc, (_REPEATS, tasks))
    hits, width = 0, 0.0
    for row in (generator.random((_REPEATS, runs, tasks)) < chances[:, None, :]).astype(float):
        interval = _interval(estimate_clustered_rate(clusters_of(*row.T)))
        hits += interval.low <= rate <= interval.high
        width += interval.high - interval.low
    known = 2 * stats.norm.isf(0.025) * np.sqrt(rate * (1 - rate) * (1 + (runs - 1) * icc) / (runs * tasks))
    assert hits / _REPEATS > 0.93 - 3 * np.sqrt(0.93 * 0.07 / _REPEATS)
    # Widths vary by less than half of themselves.
    assert width / _REPEATS / known < 1.15 * (1 + 3 * 0.5 / np.sqrt(_REPEATS))


@pytest.mark.parametrize("sizes", [[5] * 8, [1, 2, 6, 6] * 10], ids=["few clusters", "unequal sizes"])
def test_intervals_cover_the_truth_with_few_clusters_and_with_unequal_ones(sizes: list[int]) -> None:
    generator = np.random.default_rng(20260307)
    hits = 0
    for row in draw_chances(generator, 0.7, 0.4, (1000, len(sizes))):
        runs = [generator.random(size) < chance for chance, size in zip(row, sizes, strict=True)]
        interval = _interval(estimate_clustered_rate(clusters_of(*(each.astype(float) for each in runs))))
        hits += interval.low <= 0.7 <= interval.high
    assert hits / 1000 > 0.93 - 3 * np.sqrt(0.93 * 0.07 / 1000)


def test_ignoring_clusters_would_cover_too_seldom() -> None:
    generator = np.random.default_rng(20260307)
    successes = generator.binomial(5, draw_chances(generator, 0.7, 0.9, (1500, 30))).sum(axis=1)
    by_count = {count: _interval(estimate_rate(count, 150)) for count in set(map(int, successes))}
    covered = [by_count[int(count)].low <= 0.7 <= by_count[int(count)].high for count in successes]
    assert np.mean(covered) < 0.75


def test_levels_of_the_wilson_interval_nest() -> None:
    levels = [0.5, 0.8, 0.95, 0.99]
    found = [_interval(estimate_rate(3, 17, level=level)) for level in levels]
    assert all(b.low < a.low and a.high < b.high for a, b in itertools.pairwise(found))
