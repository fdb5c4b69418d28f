"""Two sides on the same clusters: differences of rates, and differences in any unit, each with its tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import special

from repotrial._core.absence import NotComputable
from repotrial.stats._bootstrap import bootstrap_clustered, cut_resampled
from repotrial.stats._model import (
    Cluster,
    Estimate,
    Interval,
    Method,
    is_binary,
    sort_clusters,
    verify_level,
    verify_range,
)
from repotrial.stats._permutation import PermutationTest, compare_sign_flips, find_lattice

_MIN_PAIRS = 3
_FEW = 10
"""Clusters with another difference than most: with fewer of them a t interval covers too seldom."""
_CELLS = 1 << 20
_ROUNDING = 1e-12
"""Differences closer than this are equal; their spread would give an interval of almost no width."""
_EQUAL = NotComputable(reason="all differences are equal: nothing shows how tasks vary")
_Floats = npt.NDArray[np.float64]
_Pairs = Sequence[tuple[Cluster, Cluster]]


class Shift(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="shift"):
    """The differences of matched clusters; every cluster weighs the same."""

    mean: Estimate
    """Their mean, with a cluster bootstrap interval."""
    standardized: Estimate | NotComputable
    """Effect size: their mean over their standard deviation (d of paired data), without a unit."""
    sign_flip: PermutationTest
    """Test that they are symmetric around 0."""
    median: float
    """Their median."""
    std: float
    """Their standard deviation (n - 1)."""
    iqr: float
    """Between their quartiles (linear interpolation)."""
    positive: int
    """Clusters with a difference above 0."""
    negative: int
    """Clusters with a difference below 0."""
    zero: int
    """Clusters without a difference."""


def estimate_shift(
    differences: Sequence[Cluster],
    *,
    seed_sequence: np.random.SeedSequence,
    draws: int = 2000,
    flips: int = 20_000,
    level: float = 0.95,
) -> Shift | NotComputable:
    """Describe and test differences; those of one cluster are averaged first.

    Args:
        differences: For each matched cluster, one side less the other, once for each matched pair in it.
        seed_sequence: For resamples, and for sign flips that are too many to list.
        draws: How many resamples.
        flips: How many of those are sampled.
        level: Of the intervals.
    """
    verify_level(level)
    ordered = sort_clusters(differences)
    if len(ordered) < _MIN_PAIRS:
        return NotComputable(reason=f"needs at least {_MIN_PAIRS} matched tasks, found {len(ordered)}")
    means = np.array([cluster.mean for cluster in ordered])
    for_mean, for_effect, for_signs = seed_sequence.spawn(3)
    single = [Cluster(key=cluster.key, values=(cluster.mean,)) for cluster in ordered]
    mean = bootstrap_clustered(single, seed_sequence=for_mean, draws=draws, level=level)
    assert isinstance(mean, Estimate)
    if np.ptp(means) <= _ROUNDING * max(1.0, float(np.abs(means).max())):
        mean = msgspec.structs.replace(mean, interval=_EQUAL)
    low, high = np.quantile(means, (0.25, 0.75))
    return Shift(
        mean=mean,
        standardized=_standardize(means, for_effect, draws, level),
        sign_flip=compare_sign_flips(means.tolist(), None, seed_sequence=for_signs, draws=flips),
        median=float(np.median(means)),
        std=float(np.std(means, ddof=1)),
        iqr=float(high - low),
        positive=int(np.count_nonzero(means > 0)),
        negative=int(np.count_nonzero(means < 0)),
        zero=int(np.count_nonzero(means == 0)),
    )


def _standardize(
    means: _Floats, seed: np.random.SeedSequence, draws: int, level: float
) -> Estimate | NotComputable:
    spread = float(np.std(means, ddof=1))
    if spread <= _ROUNDING * max(1.0, float(np.abs(means).max())):
        return _EQUAL
    return Estimate(
        value=math.fsum(means) / len(means) / spread,
        interval=_resample(means, seed, draws, level),
        n_units=len(means),
        n_clusters=len(means),
    )


def _resample(
    means: _Floats, seed: np.random.SeedSequence, draws: int, level: float
) -> Interval | NotComputable:
    generator = np.random.default_rng(seed)
    rows = max(1, _CELLS // len(means))
    found = []
    for start in range(0, draws, rows):
        shape = (min(rows, draws - start), len(means))
        sample = means[generator.integers(len(means), size=shape)]
        spread = sample.std(axis=1, ddof=1)
        is_flat = spread <= _ROUNDING * np.maximum(1.0, np.abs(sample).max(axis=1))
        found.append(np.where(is_flat, np.nan, sample.mean(axis=1) / np.where(is_flat, 1.0, spread)))
    return cut_resampled(np.concatenate(found), level)


class McNemarTest(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="mcnemar-test"):
    """Exact McNemar test, two-sided, on the majority outcome of each matched cluster."""

    p_value: float
    """Chance of a split at least as uneven as this one, if both directions were equally likely."""
    only_a: int
    """Clusters in which most runs of the first side succeed and most of the second do not."""
    only_b: int
    """Clusters in which it is the other way round."""
    tied: int
    """Clusters left out because exactly half of the runs of a side succeed: there is no majority."""
    method: Method = Method.MCNEMAR_EXACT
    """How the test was computed."""


class TTest(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="t-test"):
    """Student's paired t test, two-sided, on one difference for each matched cluster."""

    p_value: float
    """Chance of a mean at least as far from 0, if there were no difference."""
    statistic: float | NotComputable
    """Mean over its standard error; not computable where all differences are equal."""
    degrees: int
    """Degrees of freedom: clusters less one."""
    method: Method = Method.PAIRED_T
    """How the p-value was computed: where all differences are equal, by sign flips."""


class PairedComparison(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="paired-comparison"):
    """The first side less the second, over the clusters that both have."""

    difference: Estimate | NotComputable
    """Mean over matched clusters of the difference of the sides' means; every cluster weighs the same."""
    mcnemar: McNemarTest | NotComputable
    """Test on majorities."""
    t_test: TTest | NotComputable
    """Test on differences of means, by Student's t."""
    sign_flip: PermutationTest | NotComputable
    """Test on differences of means, by their signs."""
    differences: dict[str, float]
    """Of each cluster that both sides have, the first side's mean less the second's."""
    n_pairs: int
    """Clusters that both sides have."""
    unmatched_a: tuple[str, ...]
    """Clusters that only the first side has; they enter nothing here."""
    unmatched_b: tuple[str, ...]
    """Clusters that only the second side has; they enter nothing here."""


def compare_paired(
    a: Sequence[Cluster],
    b: Sequence[Cluster],
    *,
    seed_sequence: np.random.SeedSequence,
    draws: int = 20_000,
    level: float = 0.95,
) -> PairedComparison:
    """Compare two sides cluster by cluster; values lie between 0 and 1.

    Args:
        a: Outcomes of the first side.
        b: Outcomes of the second side.
        seed_sequence: Used only where the sign flips are too many to count exactly.
        draws: How many of them are sampled then.
        level: Of the interval.
    """
    verify_level(level)
    left = {cluster.key: cluster for cluster in sort_clusters(a)}
    right = {cluster.key: cluster for cluster in sort_clusters(b)}
    verify_range([*left.values(), *right.values()])
    pairs = [(left[key], right[key]) for key in left if key in right]
    differences = {one.key: one.mean - other.mean for one, other in pairs}
    unmatched_a = tuple(key for key in left if key not in right)
    unmatched_b = tuple(key for key in right if key not in left)
    if len(pairs) < _MIN_PAIRS:
        too_few = NotComputable(reason=f"needs at least {_MIN_PAIRS} matched contracts, found {len(pairs)}")
        return PairedComparison(
            difference=too_few,
            mcnemar=too_few,
            t_test=too_few,
            sign_flip=too_few,
            differences=differences,
            n_pairs=len(pairs),
            unmatched_a=unmatched_a,
            unmatched_b=unmatched_b,
        )
    values = [*differences.values()]
    flips = compare_sign_flips(values, find_lattice(pairs), seed_sequence=seed_sequence, draws=draws)
    return PairedComparison(
        difference=_estimate_difference(pairs, values, level),
        mcnemar=_compare_majorities(pairs),
        t_test=_compare_means(values, flips),
        sign_flip=flips,
        differences=differences,
        n_pairs=len(pairs),
        unmatched_a=unmatched_a,
        unmatched_b=unmatched_b,
    )


def _estimate_difference(pairs: _Pairs, differences: Sequence[float], level: float) -> Estimate:
    return Estimate(
        value=math.fsum(differences) / len(differences),
        interval=build_difference_interval(differences, level=level),
        n_units=sum(len(one.values) + len(other.values) for one, other in pairs),
        n_clusters=len(pairs),
    )


def build_difference_interval(differences: Sequence[float], *, level: float) -> Interval:
    """Student's t on differences between -1 and 1, guarded where few of them differ from most."""
    values = np.array(differences, dtype=np.float64)
    low, high = _reach(values, level)
    method = Method.PAIRED_T
    if _count_unusual(values) < min(_FEW, len(values) / 2):
        method = Method.PAIRED_T_GUARDED
        ends = _reach(np.append(values, (1.0, -1.0)), level)
        low, high = min(low, ends[0]), max(high, ends[1])
    return Interval(low=max(-1.0, low), high=min(1.0, high), level=level, method=method)


def _reach(values: _Floats, level: float) -> tuple[float, float]:
    mean = math.fsum(values) / len(values)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    half = -float(special.stdtrit(len(values) - 1, (1 - level) / 2)) * error
    return mean - half, mean + half


def _count_unusual(values: _Floats) -> int:
    """How many are not equal to the most frequent one, but for rounding."""
    ordered = np.sort(values)
    edges = np.flatnonzero(np.diff(ordered) > _ROUNDING) + 1
    lengths = np.diff(np.concatenate(([0], edges, [len(ordered)])))
    return len(values) - int(lengths.max())


def _compare_means(differences: Sequence[float], flips: PermutationTest) -> TTest:
    values = np.array(differences, dtype=np.float64)
    if np.ptp(values) <= _ROUNDING:
        return TTest(p_value=flips.p_value, statistic=_EQUAL, degrees=len(values) - 1, method=flips.method)
    error = float(np.std(values, ddof=1)) / math.sqrt(len(values))
    statistic = math.fsum(values) / len(values) / error
    # Far tails underflow; a p-value is never 0.
    tail = max(float(special.stdtr(len(values) - 1, -abs(statistic))), float(np.finfo(np.float64).tiny))
    return TTest(p_value=min(1.0, 2 * tail), statistic=statistic, degrees=len(values) - 1)


def _compare_majorities(pairs: _Pairs) -> McNemarTest | NotComputable:
    from scipy import stats  # slow to load: only for those who need it

    if not all(is_binary(one) and is_binary(other) for one, other in pairs):
        return NotComputable(reason="majorities need outcomes that are 0 or 1")
    means = [(one.mean, other.mean) for one, other in pairs]
    untied = [(one > 1 / 2, other > 1 / 2) for one, other in means if 1 / 2 not in {one, other}]
    only_a, only_b = untied.count((True, False)), untied.count((False, True))
    if not untied:
        return NotComputable(reason="no contract has a majority outcome on both sides")
    # Without a discordant cluster every split is as uneven as the one observed.
    p_value = float(stats.binomtest(only_a, only_a + only_b).pvalue) if only_a + only_b else 1.0
    return McNemarTest(p_value=p_value, only_a=only_a, only_b=only_b, tied=len(pairs) - len(untied))
