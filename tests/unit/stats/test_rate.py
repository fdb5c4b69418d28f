"""Rates: closed forms, another way to the same figures, and coverage where the truth is known."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import linalg, special, stats

from repotrial._core.absence import NotComputable
from repotrial.stats import Cluster, Estimate, Interval, estimate_clustered_rate
from repotrial.stats._rate import RateBounds, bound_rate, estimate_rate
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
    found = estimate_clustered_rate(clusters_of(*[[outcome] * 50] * 6))
    simple = _interval(estimate_rate(6 * outcome, 6))
    assert _interval(found).method == "wilson-on-clusters"
    assert (_interval(found).low, _interval(found).high) == (simple.low, simple.high)


def test_clusters_that_agree_by_chance_do_not_narrow_the_interval_below_that_of_independent_runs() -> None:
    found = _interval(estimate_clustered_rate(clusters_of(*[[0, 1]] * 8)))
    assert found.method == "logit-cluster-robust"
    half = float(stats.t.isf(0.025, 7)) * np.sqrt(0.25 / 16) / 0.25
    assert (found.low, found.high) == pytest.approx((special.expit(-half), special.expit(half)))


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
    assert variance > rate * (1 - rate) / n, "the floor would hide a mistake"
    half = stats.t.isf(0.025, degrees) * np.sqrt(variance) / (rate * (1 - rate))
    found = _interval(estimate_clustered_rate(clusters))
    center = special.logit(rate)
    assert (found.low, found.high) == pytest.approx(
        (special.expit(center - half), special.expit(center + half))
    )


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


@pytest.mark.parametrize(
    ("rate", "icc", "sizes"),
    [
        (0.5, 0.05, [5] * 30),
        (0.8, 0.4, [5] * 10),
        (0.7, 0.9, [5] * 30),
        (0.95, 0.4, [5] * 30),
        (0.7, 0.4, [1, 2, 6, 6] * 10),
    ],
    ids=["nearly independent", "few clusters", "nearly identical", "extreme rate", "unequal sizes"],
)
def test_intervals_cover_the_truth_as_often_as_they_say(rate: float, icc: float, sizes: list[int]) -> None:
    generator = np.random.default_rng(20260307)
    repeats = 1500
    chances = draw_chances(generator, rate, icc, (repeats, len(sizes)))
    hits = 0
    for row in chances:
        runs = [generator.random(size) < chance for chance, size in zip(row, sizes, strict=True)]
        interval = _interval(estimate_clustered_rate(clusters_of(*(each.astype(float) for each in runs))))
        hits += interval.low <= rate <= interval.high
    # Three Monte Carlo standard errors, and 0.01 for the known shortfall near 0 and 1.
    assert hits / repeats > 0.95 - 3 * np.sqrt(0.95 * 0.05 / repeats) - 0.01
    assert hits / repeats < 0.99, "an interval that always covers says too little"


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
