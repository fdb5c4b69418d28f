"""Repeats of one contract: pass@k by listing all choices, correlation against a published table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.absence import NotComputable
from repotrial.stats import Cluster, Estimate, Interval, estimate_icc, estimate_pass_k
from repotrial.stats._repeat import compute_pass_all_k, compute_pass_at_k
from support.outcomes import LEVELS, binary_cluster_lists, clusters_of, draw_chances, shuffle


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_choices_with_a_success(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        choices = [any(index < c for index in choice) for choice in itertools.combinations(range(n), k)]
        assert compute_pass_at_k(n, c, k) == pytest.approx(np.mean(choices))


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_all_k_is_the_share_of_choices_without_a_failure(n: int) -> None:
    for c, k in itertools.product(range(n + 1), range(1, n + 1)):
        choices = [all(index < c for index in choice) for choice in itertools.combinations(range(n), k)]
        assert compute_pass_all_k(n, c, k) == pytest.approx(np.mean(choices))


def test_over_contracts_every_contract_weighs_the_same_and_those_with_too_few_runs_are_left_out() -> None:
    clusters = clusters_of([1, 0, 0, 0], [1, 1], [1])
    one, every = (estimate_pass_k(clusters, 2, of=each) for each in ("any", "all"))
    assert isinstance(one, Estimate)
    assert isinstance(every, Estimate)
    assert (one.value, every.value) == pytest.approx(((0.5 + 1) / 2, (0 + 1) / 2))
    assert (one.n_clusters, every.n_clusters) == (2, 2)
    assert isinstance(one.interval, Interval)
    assert one.interval.low < 0.75 < one.interval.high


def test_over_contracts_with_too_few_runs_there_is_none() -> None:
    assert estimate_pass_k(clusters_of([1], [0]), 2, of="any") == NotComputable(
        reason="no contract has 2 runs"
    )
    assert estimate_pass_k(clusters_of(), 1, of="all") == NotComputable(reason="no contract has 1 runs")


def test_pass_at_k_holds_for_counts_whose_binomials_are_no_floats() -> None:
    found = compute_pass_at_k(10_000, 10, 5000)
    assert isinstance(found, float)
    assert found == pytest.approx(1 - 0.5**10, rel=1e-4)


def test_pass_at_k_is_unbiased() -> None:
    generator = np.random.default_rng(20260307)
    known = {c: compute_pass_at_k(6, c, 3) for c in range(7)}
    mean = np.mean([known[int(c)] for c in generator.binomial(6, 0.2, size=20_000)])
    assert mean == pytest.approx(1 - 0.8**3, abs=0.01)


def test_pass_at_more_than_there_are_runs_is_not_computable() -> None:
    assert compute_pass_at_k(3, 1, 4) == NotComputable(reason="pass@4 needs at least 4 runs, found 3")


@pytest.mark.parametrize(("n", "c", "k"), [(3, 4, 1), (3, -1, 1), (3, 1, 0)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match="expected k"):
        compute_pass_at_k(n, c, k)
    with pytest.raises(ValueError, match="expected k"):
        compute_pass_all_k(n, c, k)


def test_correlation_of_a_published_table() -> None:
    # Shrout and Fleiss (1979), table 2: six targets, four judges; ICC(1,1) is 0.17.
    found = estimate_icc(
        clusters_of([9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7])
    )
    assert isinstance(found, Estimate)
    assert isinstance(found.interval, Interval)
    assert found.value == pytest.approx(0.1657, abs=5e-4)
    assert (found.interval.low, found.interval.high) == pytest.approx((-0.133, 0.723), abs=5e-3)
    assert found.interval.method == "anova-one-way"


def test_correlation_is_that_of_the_analysis_of_variance_in_statsmodels() -> None:
    import pandas as pd
    from statsmodels.formula.api import ols
    from statsmodels.stats.anova import anova_lm

    generator = np.random.default_rng(20260307)
    runs = (generator.random((5, 30)) < draw_chances(generator, 0.6, 0.5, (30,))).T.astype(float)
    frame = pd.DataFrame({"y": runs.ravel(), "task": np.repeat(np.arange(30), 5)})
    between, within = anova_lm(ols("y ~ C(task)", data=frame).fit())["mean_sq"]
    found = estimate_icc(clusters_of(*runs))
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx((between - within) / (between + 4 * within))


@pytest.mark.parametrize("icc", [0.1, 0.4, 0.8])
def test_correlation_is_found_where_it_is_known(icc: float) -> None:
    generator = np.random.default_rng(20260307)
    runs = (generator.random((4, 3000)) < draw_chances(generator, 0.6, icc, (3000,))).T
    found = estimate_icc(clusters_of(*(row[: 2 + index % 3] for index, row in enumerate(runs.astype(float)))))
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(icc, abs=0.04)


@pytest.mark.parametrize(
    ("clusters", "reason"),
    [
        (clusters_of(), "2 contracts"),
        (clusters_of([1, 0]), "2 contracts"),
        (clusters_of([1], [0]), "a repeat"),
        (clusters_of([0.1, 0.1], [0.1]), "same outcome"),
    ],
    ids=["nothing", "one cluster", "no repeats", "no spread"],
)
def test_without_repeats_or_spread_there_is_no_correlation(clusters: list[Cluster], reason: str) -> None:
    found = estimate_icc(clusters)
    assert isinstance(found, NotComputable)
    assert reason in found.reason


@pytest.mark.parametrize(
    ("clusters", "value"), [(clusters_of([1, 1], [0, 0]), 1), (clusters_of([1, 0], [0, 1]), -1)]
)
def test_perfect_correlations_have_no_interval(clusters: list[Cluster], value: float) -> None:
    found = estimate_icc(clusters)
    assert isinstance(found, Estimate)
    assert found.value == pytest.approx(value)
    assert isinstance(found.interval, NotComputable)


@given(binary_cluster_lists(), LEVELS, st.integers(0, 1000))
def test_correlation_does_not_depend_on_order_and_is_at_most_1(
    clusters: list[Cluster], level: float, seed: int
) -> None:
    found = estimate_icc(clusters, level=level)
    assert found == estimate_icc(shuffle(clusters, seed), level=level)
    if isinstance(found, Estimate) and isinstance(found.interval, Interval):
        assert found.value <= 1
        assert found.interval.low < found.interval.high <= 1
