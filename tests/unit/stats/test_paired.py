"""Two agents on the same contracts: figures by other ways, symmetry, and what is said of too little."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from repotrial._core.absence import NotComputable
from repotrial.stats import Cluster, Estimate, Interval, PairedComparison
from repotrial.stats import compare_paired as _compare_paired
from repotrial.stats._permutation import PermutationTest, compare_sign_flips
from support.exhaustive import IS_EXHAUSTIVE, sample
from support.outcomes import (
    LEVELS,
    binary_cluster_lists,
    cluster_lists,
    clusters_of,
    draw_paired_chances,
    shuffle,
)

SEED = 20260307


def compare_paired(
    a: list[Cluster], b: list[Cluster], *, level: float = 0.95, draws: int = 500
) -> PairedComparison:
    return _compare_paired(a, b, seed_sequence=np.random.SeedSequence(SEED), level=level, draws=draws)


def _difference(result: PairedComparison) -> tuple[Estimate, Interval]:
    assert isinstance(result.difference, Estimate)
    assert isinstance(result.difference.interval, Interval)
    return result.difference, result.difference.interval


def _sign_flip(result: PairedComparison) -> PermutationTest:
    assert isinstance(result.sign_flip, PermutationTest)
    return result.sign_flip


def _mcnemar(result: PairedComparison) -> Any:
    assert not isinstance(result.mcnemar, NotComputable)
    return result.mcnemar


def test_the_difference_is_the_paired_t_on_means_of_clusters() -> None:
    generator = np.random.default_rng(SEED)
    a, b = generator.integers(2, size=(24, 5)), generator.integers(2, size=(24, 3))
    known = stats.ttest_rel(a.mean(axis=1), b.mean(axis=1))
    ends = known.confidence_interval(0.9)
    found = compare_paired(clusters_of(*a), clusters_of(*b), level=0.9)
    estimate, interval = _difference(found)
    assert not isinstance(found.t_test, NotComputable)
    assert (found.t_test.statistic, found.t_test.p_value) == pytest.approx((known.statistic, known.pvalue))
    assert found.t_test.degrees == known.df
    assert estimate.value == pytest.approx(a.mean() - b.mean())
    assert (interval.low, interval.high) == pytest.approx((ends.low, ends.high))
    assert interval.method == "paired-t-on-clusters"
    assert (estimate.n_units, estimate.n_clusters) == (192, 24)


def test_unmatched_clusters_are_listed_and_enter_nothing() -> None:
    shared_a, shared_b = clusters_of([1], [1, 0], [1]), clusters_of([0], [0, 0], [1])
    alone = [Cluster(key=key, values=(0,)) for key in ("z", "y")]
    found = compare_paired([*alone, *shared_a], [*shared_b, Cluster(key="x", values=(1,))])
    assert (found.unmatched_a, found.unmatched_b, found.n_pairs) == (("y", "z"), ("x",), 3)
    plain = compare_paired(shared_a, shared_b)
    assert (found.difference, found.mcnemar, found.sign_flip) == (
        plain.difference,
        plain.mcnemar,
        plain.sign_flip,
    )


def test_two_pairs_are_too_few_and_still_name_the_unmatched() -> None:
    found = compare_paired(clusters_of([1], [0], [1]), clusters_of([0], [1]))
    too_few = NotComputable(reason="needs at least 3 matched contracts, found 2")
    assert {found.difference, found.mcnemar, found.t_test, found.sign_flip} == {too_few}
    assert found.differences == {"00000": 1, "00001": -1}
    assert found.unmatched_a == ("00002",)


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_values_outside_of_the_range_are_refused(value: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        compare_paired([], clusters_of([value]))


def _guard(differences: list[float]) -> tuple[float, float]:
    ends = stats.ttest_1samp([*differences, 1, -1], 0).confidence_interval(0.95)
    return max(-1.0, float(ends.low)), min(1.0, float(ends.high))


def test_equal_differences_leave_room_for_clusters_not_seen() -> None:
    same = compare_paired(clusters_of(*[[1, 0]] * 10), clusters_of(*[[0, 1]] * 10))
    interval = _difference(same)[1]
    assert (interval.low, interval.high) == pytest.approx(_guard([0.0] * 10))
    assert not isinstance(same.t_test, NotComputable)
    assert same.t_test.p_value == 1
    assert isinstance(same.t_test.statistic, NotComputable)


def test_a_difference_in_every_cluster_alike_is_found_by_its_signs() -> None:
    apart = compare_paired(clusters_of(*[[1]] * 10), clusters_of(*[[0]] * 10))
    interval = _difference(apart)[1]
    assert (interval.low, interval.high) == pytest.approx(_guard([1.0] * 10))
    assert interval.method == "paired-t-with-two-pseudo-clusters"
    assert not isinstance(apart.t_test, NotComputable)
    assert apart.t_test.p_value == pytest.approx(2 / 2**10)
    assert apart.t_test.method == "sign-flip-exact"


def test_few_clusters_that_differ_widen_the_interval_and_many_do_not() -> None:
    few = [1.0] * 3 + [0.0] * 17
    interval = _difference(compare_paired(clusters_of(*[[one] for one in few]), clusters_of(*[[0]] * 20)))[1]
    plain = stats.ttest_1samp(few, 0).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx(
        (min(plain.low, _guard(few)[0]), max(plain.high, _guard(few)[1]))
    )
    assert interval.method == "paired-t-with-two-pseudo-clusters"
    many = [1.0] * 10 + [0.0] * 17
    interval = _difference(compare_paired(clusters_of(*[[one] for one in many]), clusters_of(*[[0]] * 27)))[1]
    plain = stats.ttest_1samp(many, 0).confidence_interval(0.95)
    assert (interval.low, interval.high) == pytest.approx((plain.low, plain.high))
    assert interval.method == "paired-t-on-clusters"


def test_differences_equal_but_for_rounding_count_as_equal() -> None:
    a, b = clusters_of([0.3], [0.1 + 0.2], [0.3]), clusters_of([0.1], [0.1], [0.1])
    found = compare_paired(a, b)
    assert _difference(found)[1].method == "paired-t-with-two-pseudo-clusters"
    assert not isinstance(found.t_test, NotComputable)
    assert isinstance(found.t_test.statistic, NotComputable)


def test_mcnemar_counts_majorities_and_says_how_many_were_tied() -> None:
    a = clusters_of([1, 1, 0], [1], [1, 1], [1], [1], [0], [1, 0], [1])
    b = clusters_of([0, 0, 1], [0], [0, 0], [0], [0], [0], [0], [0, 1])
    found = _mcnemar(compare_paired(a, b))
    assert (found.only_a, found.only_b, found.tied) == (5, 0, 2)
    assert found.p_value == pytest.approx(2 / 2**5)


def test_mcnemar_without_discordant_clusters_gives_no_evidence() -> None:
    assert _mcnemar(compare_paired(clusters_of([1], [0], [1]), clusters_of([1], [0], [1]))).p_value == 1


def test_mcnemar_needs_a_majority_and_outcomes_of_0_and_1() -> None:
    tied = compare_paired(clusters_of(*[[0, 1]] * 3), clusters_of([1], [0], [1]))
    assert isinstance(tied.mcnemar, NotComputable)
    graded = compare_paired(clusters_of([0.2], [0.3], [0.4]), clusters_of([1], [0], [1]))
    assert isinstance(graded.mcnemar, NotComputable)
    assert not isinstance(graded.sign_flip, NotComputable)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=8))
def test_sign_flips_of_rates_are_those_of_scipy(counts: list[tuple[int, int]]) -> None:
    a = clusters_of(*([1.0] * one + [0.0] * (4 - one) for one, _ in counts))
    b = clusters_of(*([1.0] * other + [0.0] * (4 - other) for _, other in counts))
    known = stats.permutation_test(
        ([one / 4 for one, _ in counts], [other / 4 for _, other in counts]),
        lambda x, y, axis: np.abs(np.mean(x - y, axis=axis)),
        permutation_type="samples",
        alternative="greater",
        n_resamples=1000,
        vectorized=True,
    )
    found = _sign_flip(compare_paired(a, b))
    assert found.p_value == pytest.approx(known.pvalue)
    assert found.method == "sign-flip-exact"


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=8))
def test_sign_flips_of_any_differences_are_those_of_scipy(differences: list[float]) -> None:
    rounded = [round(value, 3) for value in differences]
    known = stats.permutation_test(
        (rounded, np.zeros(len(rounded))),
        lambda x, y, axis: np.abs(np.mean(x - y, axis=axis)),
        permutation_type="samples",
        alternative="greater",
        n_resamples=1000,
        vectorized=True,
    )
    found = compare_sign_flips(rounded, None, seed_sequence=np.random.SeedSequence(1), draws=1)
    assert found.p_value == pytest.approx(known.pvalue)


@given(st.lists(st.integers(-5, 5), min_size=1, max_size=15))
def test_counting_on_a_lattice_gives_what_listing_all_assignments_gives(steps: list[int]) -> None:
    seed = np.random.SeedSequence(1)
    differences = [step / 5 for step in steps]
    counted = compare_sign_flips(differences, steps, seed_sequence=seed, draws=1)
    listed = compare_sign_flips(differences, None, seed_sequence=seed, draws=1)
    assert counted.p_value == pytest.approx(listed.p_value)


def test_many_contracts_are_still_counted_exactly() -> None:
    found = _sign_flip(compare_paired(clusters_of(*[[1]] * 2000), clusters_of(*[[0]] * 2000)))
    assert found.method == "sign-flip-exact"
    assert 0 < found.p_value < 1e-300


def test_what_cannot_be_counted_is_sampled_with_the_given_seed() -> None:
    generator = np.random.default_rng(SEED)
    differences = list(generator.normal(0.2, 1, size=60))
    seed = np.random.SeedSequence(SEED)
    first, again = (compare_sign_flips(differences, None, seed_sequence=seed, draws=20_000) for _ in range(2))
    assert first == again
    assert first.method == "sign-flip-monte-carlo"
    known = stats.ttest_1samp(differences, 0).pvalue
    assert first.p_value == pytest.approx(known, abs=0.02)


def test_a_sampled_p_value_is_never_0() -> None:
    found = compare_sign_flips([0.1] * 60, None, seed_sequence=np.random.SeedSequence(1), draws=99)
    assert found.p_value == 1 / 100


@given(binary_cluster_lists(min_size=3), binary_cluster_lists(min_size=3), LEVELS)
def test_swapping_the_sides_turns_every_figure_around(
    a: list[Cluster], b: list[Cluster], level: float
) -> None:
    there, back = compare_paired(a, b, level=level), compare_paired(b, a, level=level)
    assert (there.unmatched_a, there.unmatched_b) == (back.unmatched_b, back.unmatched_a)
    assert there.sign_flip == back.sign_flip
    if not isinstance(there.mcnemar, NotComputable):
        other = _mcnemar(back)
        assert (there.mcnemar.only_a, there.mcnemar.only_b) == (other.only_b, other.only_a)
        assert there.mcnemar.p_value == pytest.approx(other.p_value)
    if isinstance(there.difference, Estimate):
        (one, ends), (other_one, other_ends) = _difference(there), _difference(back)
        assert one.value == -other_one.value
        assert (ends.low, ends.high) == pytest.approx((-other_ends.high, -other_ends.low))


@given(cluster_lists(st.floats(0, 1), min_size=3), st.data(), LEVELS)
def test_intervals_contain_the_difference_lie_in_range_and_have_a_width(
    a: list[Cluster], data: st.DataObject, level: float
) -> None:
    values = data.draw(st.lists(st.floats(0, 1), min_size=len(a), max_size=len(a)))
    b = [Cluster(key=one.key, values=(value,)) for one, value in zip(a, values, strict=True)]
    estimate, interval = _difference(compare_paired(a, b, level=level))
    assert -1 <= interval.low <= estimate.value <= interval.high <= 1
    assert interval.low < interval.high


@given(binary_cluster_lists(min_size=3), st.integers(0, 1000), st.integers(0, 1000))
def test_the_order_of_runs_and_clusters_changes_nothing(a: list[Cluster], one: int, other: int) -> None:
    b = [Cluster(key=each.key, values=(each.values[0], 1.0)) for each in a]
    assert compare_paired(shuffle(a, one), shuffle(b, other)) == compare_paired(a, b)


_RATES = ((0.1, 0.1), (0.1, 0.2), (0.3, 0.5), (0.8, 0.9), (0.1, 0.9))
_CELLS = sample(list(itertools.product(_RATES, (0.0, 0.65, 0.8), (0.0, 0.58, 0.9), (20, 60), (1, 3, 5))), 5)
_REPEATS = 3000 if IS_EXHAUSTIVE else 300


@pytest.mark.parametrize(("rates", "icc", "shared", "tasks", "runs"), _CELLS)
def test_intervals_cover_and_tests_reject_as_often_as_they_say(
    rates: tuple[float, float], icc: float, shared: float, tasks: int, runs: int
) -> None:
    generator = np.random.default_rng(SEED)
    covered, rejected = 0, 0
    truth = rates[0] - rates[1]
    chances = draw_paired_chances(generator, rates, icc, shared, (_REPEATS, tasks))
    for one, other in zip(*chances, strict=True):
        a, b = ((generator.random((runs, tasks)) < each).T.astype(float) for each in (one, other))
        found = compare_paired(clusters_of(*a), clusters_of(*b), draws=1)
        interval = _difference(found)[1]
        covered += interval.low <= truth + 1e-12 and truth - 1e-12 <= interval.high
        assert not isinstance(found.t_test, NotComputable)
        rejected += found.t_test.p_value <= 0.05
    assert covered / _REPEATS > 0.93 - 3 * np.sqrt(0.93 * 0.07 / _REPEATS)
    if truth == 0:
        assert rejected / _REPEATS < 0.055 + 3 * np.sqrt(0.055 * 0.945 / _REPEATS)
