"""The cluster bootstrap: repeatable, indifferent to order, and right where the truth is known."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from repotrial._core.absence import NotComputable
from repotrial.stats import Cluster, Estimate, Interval, bootstrap_clustered, estimate_clustered_rate
from repotrial.stats._model import Method
from support.outcomes import LEVELS, cluster_lists, clusters_of, draw_chances, shuffle

BootstrapMethod = Literal[Method.BOOTSTRAP_BCA, Method.BOOTSTRAP_PERCENTILE]
METHODS: tuple[BootstrapMethod, ...] = (Method.BOOTSTRAP_BCA, Method.BOOTSTRAP_PERCENTILE)
SEED = 20260307


def _bootstrap(
    clusters: list[Cluster], *, draws: int = 200, level: float = 0.95, method: BootstrapMethod = METHODS[0]
) -> Estimate | NotComputable:
    seed = np.random.SeedSequence(SEED)
    return bootstrap_clustered(clusters, seed_sequence=seed, draws=draws, level=level, method=method)


def _interval(result: Estimate | NotComputable) -> Interval:
    assert isinstance(result, Estimate)
    assert isinstance(result.interval, Interval)
    return result.interval


@pytest.mark.parametrize("method", METHODS)
def test_clusters_of_one_run_give_the_interval_that_scipy_gives(method: BootstrapMethod) -> None:
    sample = np.random.default_rng(SEED).exponential(size=60)
    known = stats.bootstrap(
        (sample,),
        np.mean,
        n_resamples=20_000,
        method="BCa" if method is Method.BOOTSTRAP_BCA else "percentile",
        rng=np.random.default_rng(1),
    ).confidence_interval
    found = _interval(_bootstrap(clusters_of(*sample[:, None]), draws=20_000, method=method))
    # Both are random: allow each end a few times what 20,000 draws leave open.
    assert (found.low, found.high) == pytest.approx((known.low, known.high), abs=0.02)
    assert found.method is method


def test_the_correction_moves_the_interval_toward_the_long_tail() -> None:
    sample = clusters_of(*np.random.default_rng(SEED).exponential(size=(40, 1)))
    corrected, plain = (_interval(_bootstrap(sample, draws=4000, method=method)) for method in METHODS)
    assert corrected.low > plain.low
    assert corrected.high > plain.high


def test_the_same_seed_gives_the_same_interval_and_another_seed_another() -> None:
    clusters = clusters_of(*np.random.default_rng(1).random((30, 4)))
    first, again = _bootstrap(clusters), _bootstrap(clusters)
    other = bootstrap_clustered(clusters, seed_sequence=np.random.SeedSequence(1), draws=200)
    assert first == again
    assert first != other


def test_large_resamples_are_drawn_in_portions() -> None:
    clusters = clusters_of(*np.random.default_rng(1).random((3000, 1)))
    found = _interval(_bootstrap(clusters, draws=1000))
    error = np.sqrt(1 / 12 / 3000)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.15)


@given(cluster_lists(st.floats(-100, 100)), st.integers(0, 1000))
def test_the_order_of_runs_and_clusters_changes_nothing(clusters: list[Cluster], seed: int) -> None:
    assert _bootstrap(shuffle(clusters, seed)) == _bootstrap(clusters)


@given(cluster_lists(st.integers(-9, 9).map(float), min_size=2), LEVELS, st.sampled_from(METHODS))
def test_intervals_lie_between_the_extreme_clusters(
    clusters: list[Cluster], level: float, method: BootstrapMethod
) -> None:
    found = _bootstrap(clusters, level=level, method=method)
    assert isinstance(found, Estimate)
    means = [cluster.mean for cluster in clusters]
    if isinstance(found.interval, Interval):
        assert min(means) - 1e-9 <= found.interval.low <= found.interval.high <= max(means) + 1e-9


@given(cluster_lists(st.integers(0, 9).map(float), min_size=2), LEVELS, LEVELS, st.sampled_from(METHODS))
def test_more_confidence_never_gives_a_narrower_interval(
    clusters: list[Cluster], one: float, other: float, method: BootstrapMethod
) -> None:
    narrow, wide = (_bootstrap(clusters, level=level, method=method) for level in sorted((one, other)))
    assert isinstance(narrow, Estimate)
    assert isinstance(wide, Estimate)
    if isinstance(narrow.interval, Interval) and isinstance(wide.interval, Interval):
        assert wide.interval.low <= narrow.interval.low + 1e-9
        assert narrow.interval.high <= wide.interval.high + 1e-9


@pytest.mark.parametrize(
    ("clusters", "reason"),
    [(clusters_of([1, 0]), "at least 2 contracts"), (clusters_of([0.1], [0.1, 0.1], [0.1]), "same mean")],
    ids=["one cluster", "no spread"],
)
def test_without_spread_there_is_a_value_but_no_interval(clusters: list[Cluster], reason: str) -> None:
    found = _bootstrap(clusters)
    assert isinstance(found, Estimate)
    assert isinstance(found.interval, NotComputable)
    assert reason in found.interval.reason


def test_the_mean_of_nothing_is_not_computable() -> None:
    assert _bootstrap([]) == NotComputable(reason="there are no runs")


def test_a_single_draw_on_one_side_gives_no_corrected_interval() -> None:
    clusters = clusters_of([0], [1], [1], [1], [1])
    found = [
        bootstrap_clustered(clusters, seed_sequence=np.random.SeedSequence(seed), draws=2)
        for seed in range(60)
    ]
    reasons = {
        each.interval.reason
        for each in found
        if isinstance(each, Estimate) and isinstance(each.interval, NotComputable)
    }
    assert "all resampled means lie on one side of the estimate" in reasons


def test_no_draws_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 draw"):
        _bootstrap(clusters_of([1], [0]), draws=0)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(SEED)
    repeats = 400
    hits = 0
    for chances in draw_chances(generator, 0.6, 0.4, (repeats, 40)):
        runs = (generator.random((4, 40)) < chances).T.astype(float)
        interval = _interval(_bootstrap(clusters_of(*runs), draws=1000))
        hits += interval.low <= 0.6 <= interval.high
    assert abs(hits / repeats - 0.95) < 3 * np.sqrt(0.95 * 0.05 / repeats) + 0.01


def test_it_agrees_with_the_robust_standard_error_where_there_are_many_clusters() -> None:
    generator = np.random.default_rng(SEED)
    runs = (generator.random((4, 300)) < draw_chances(generator, 0.6, 0.4, (300,))).T.astype(float)
    resampled = _interval(_bootstrap(clusters_of(*runs), draws=4000))
    robust = _interval(estimate_clustered_rate(clusters_of(*runs)))
    assert (resampled.low, resampled.high) == pytest.approx((robust.low, robust.high), abs=0.005)


def test_an_extreme_level_of_skewed_contracts_has_no_corrected_interval() -> None:
    found = _bootstrap(clusters_of(*[[0]] * 50, [1]), level=1 - 1e-13)
    assert isinstance(found, Estimate)
    assert isinstance(found.interval, NotComputable)
    assert "too skewed" in found.interval.reason
