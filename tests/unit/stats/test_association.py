from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from repotrial._core.absence import NotComputable
from repotrial.stats import Association, Interval, PairedValue, estimate_association
from repotrial.stats._association import _rank_weighted


def estimate(values: list[PairedValue], *, seed: int = 1, draws: int = 400) -> Association | NotComputable:
    return estimate_association(
        values, seed_sequence=np.random.SeedSequence(seed), draws=draws, rearrangements=draws
    )


def build(x: list[float], y: list[float]) -> list[PairedValue]:
    return [PairedValue(key=f"t{n:03}", x=a, y=b) for n, (a, b) in enumerate(zip(x, y, strict=True))]


def test_five_tasks_by_hand() -> None:
    # Ranks 1 2 3 4 5 against 2 1 4 3 5: 1 - 6 * 4 / (5 * 24) = 0.8, and 16 of 120 orders are as extreme.
    found = estimate(build([1, 2, 3, 4, 5], [20, 10, 40, 30, 50]))
    assert isinstance(found, Association)
    assert found.value == pytest.approx(0.8)
    assert found.p_value == pytest.approx(16 / 120)
    assert found.method == "cluster-permutation-exact"
    assert (found.n_units, found.n_clusters) == (5, 5)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.floats(-10, 10).map(lambda v: round(v, 1))), min_size=5, max_size=7
    )
)
def test_values_and_exact_p_values_are_those_of_scipy(pairs: list[tuple[int, float]]) -> None:
    x, y = [float(a) for a, _ in pairs], [b for _, b in pairs]
    found = estimate(build(x, y), draws=50)
    if len(set(x)) == 1 or len(set(y)) == 1:
        assert isinstance(found, NotComputable)
        return
    assert isinstance(found, Association)
    assert found.value == pytest.approx(float(scipy_stats.spearmanr(x, y).statistic), abs=1e-12)
    ranks = scipy_stats.rankdata(y)
    orders = np.array(list(itertools.permutations(ranks)))
    centered = scipy_stats.rankdata(x) - np.mean(scipy_stats.rankdata(x))
    observed = abs(float(ranks @ centered))
    assert found.p_value == pytest.approx(float(np.mean(np.abs(orders @ centered) >= observed - 1e-9)))


def test_a_sampled_p_value_is_close_to_that_of_the_t_distribution() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=60)
    y = 0.4 * x + rng.normal(size=60)
    found = estimate(build(list(x), list(y)), draws=4000)
    assert isinstance(found, Association)
    assert found.method == "cluster-permutation-monte-carlo"
    assert isinstance(found.p_value, float)
    assert found.p_value == pytest.approx(float(scipy_stats.spearmanr(x, y).pvalue), abs=0.01)


def test_the_interval_is_that_of_resamples_written_out() -> None:
    rng = np.random.default_rng(6)
    x, y = list(rng.integers(0, 5, size=30).astype(float)), list(rng.normal(size=30))
    found = estimate(build(x, y), draws=4000)
    assert isinstance(found, Association)
    assert isinstance(found.interval, Interval)
    drawn = rng.integers(30, size=(2000, 30))
    ranks = [scipy_stats.rankdata(np.array(column)[drawn], axis=1) for column in (x, y)]
    values = [np.corrcoef(one, other)[0, 1] for one, other in zip(*ranks, strict=True)]
    low, high = np.quantile(values, (0.025, 0.975))
    assert found.interval.low == pytest.approx(low, abs=0.05)
    assert found.interval.high == pytest.approx(high, abs=0.05)


@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 3)), min_size=1, max_size=12).filter(
        lambda pairs: any(weight for _, weight in pairs)
    )
)
def test_ranks_with_weights_are_ranks_of_repeated_values(pairs: list[tuple[int, int]]) -> None:
    column = np.array([value for value, _ in pairs], dtype=np.float64)
    weights = np.array([[weight for _, weight in pairs]], dtype=np.float64)
    repeated = [value for value, weight in pairs for _ in range(weight)]
    expected = dict(zip(repeated, scipy_stats.rankdata(repeated), strict=True))
    for place, (value, weight) in enumerate(pairs):
        if weight:
            assert _rank_weighted(column, weights)[0, place] == pytest.approx(expected[value])


def test_repeats_of_a_task_do_not_count_as_tasks() -> None:
    single = build([1, 2, 3, 4, 5, 6], [1, 3, 2, 5, 4, 6])
    repeated = [
        PairedValue(key=value.key, slot=str(n), x=value.x, y=value.y) for value in single for n in range(20)
    ]
    one, many = estimate(single), estimate(repeated)
    assert isinstance(one, Association)
    assert isinstance(many, Association)
    assert many.n_units == 120
    assert many.n_clusters == 6
    assert many.p_value == pytest.approx(one.p_value)


def test_only_tasks_with_runs_in_the_same_slots_are_rearranged() -> None:
    values = [
        PairedValue(key=f"t{n}", slot="abcde"[n] * (n + 1), x=float(n), y=float(n * n)) for n in range(5)
    ]
    found = estimate(values)
    assert isinstance(found, Association)
    assert isinstance(found.p_value, NotComputable)
    mixed = estimate([*build([1, 2, 3], [1, 3, 2]), PairedValue(key="u", slot="s", x=9, y=9), *build([], [])])
    assert isinstance(mixed, NotComputable)


def test_order_makes_no_difference_and_the_seed_decides() -> None:
    rng = np.random.default_rng(7)
    values = build(list(rng.normal(size=25)), list(rng.normal(size=25)))
    assert estimate(values) == estimate(list(reversed(values)))
    assert estimate(values) != estimate(values, seed=2)


def test_too_few_tasks_constant_values_and_numbers_that_are_none() -> None:
    few = estimate(build([1, 2, 3, 4], [1, 2, 3, 4]))
    assert few == NotComputable("needs at least 5 tasks, found 4")
    constant = estimate(build([1, 1, 1, 1, 1], [1, 2, 3, 4, 5]))
    assert constant == NotComputable("the first quantity is the same in all 5 runs")
    with pytest.raises(ValueError, match="finite"):
        estimate(build([1, 2, 3, 4, math.nan], [1, 2, 3, 4, 5]))


def test_a_perfect_association_has_no_interval_of_no_width() -> None:
    found = estimate(build([1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 5, 6]))
    assert isinstance(found, Association)
    assert found.value == 1
    assert found.p_value == pytest.approx(2 / 720)
    assert isinstance(found.interval, NotComputable)
