"""Two sides on the same clusters: differences of rates, and differences in any unit, each with its tests."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from repotrial._core.absence import NotComputable
from repotrial.stats._bootstrap import bootstrap_clustered, cut_resampled
from repotrial.stats._model import Cluster, Estimate, Interval, Method, is_binary, sort_clusters, verify_level
from repotrial.stats._permutation import PermutationTest, compare_sign_flips, find_lattice
from repotrial.stats._rate import build_wilson

_MIN_PAIRS = 3
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


class PairedComparison(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="paired-comparison"):
    """The first side less the second, over the clusters that both have."""

    difference: Estimate | NotComputable
    """Mean over matched clusters of the difference of the sides' means; every cluster weighs the same."""
    mcnemar: McNemarTest | NotComputable
    """Test on majorities."""
    sign_flip: PermutationTest | NotComputable
    """Test on differences of means."""
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
    _verify_range([*left.values(), *right.values()])
    pairs = [(left[key], right[key]) for key in left if key in right]
    differences = [one.mean - other.mean for one, other in pairs]
    too_few = NotComputable(reason=f"needs at least {_MIN_PAIRS} matched contracts, found {len(pairs)}")
    enough = len(pairs) >= _MIN_PAIRS
    return PairedComparison(
        difference=_estimate_difference(pairs, differences, level) if enough else too_few,
        mcnemar=_compare_majorities(pairs) if enough else too_few,
        sign_flip=compare_sign_flips(
            differences, find_lattice(pairs), seed_sequence=seed_sequence, draws=draws
        )
        if enough
        else too_few,
        n_pairs=len(pairs),
        unmatched_a=tuple(key for key in left if key not in right),
        unmatched_b=tuple(key for key in right if key not in left),
    )


def _verify_range(clusters: Sequence[Cluster]) -> None:
    for cluster in clusters:
        if min(cluster.values) < 0 or max(cluster.values) > 1:
            raise ValueError(f"expected values between 0 and 1 in cluster {cluster.key!r}")


def _estimate_difference(pairs: _Pairs, differences: Sequence[float], level: float) -> Estimate:
    mean = math.fsum(differences) / len(differences)
    constant = max(differences) - min(differences) <= _ROUNDING
    build = _build_constant_interval if constant else _build_t_interval
    return Estimate(
        value=mean,
        interval=build(mean, differences, level),
        n_units=sum(len(one.values) + len(other.values) for one, other in pairs),
        n_clusters=len(pairs),
    )


def _build_t_interval(mean: float, differences: Sequence[float], level: float) -> Interval:
    from scipy import stats  # slow to load: only for those who need it

    error = float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    half = float(stats.t.isf((1 - level) / 2, len(differences) - 1)) * error
    return Interval(
        low=max(-1.0, mean - half), high=min(1.0, mean + half), level=level, method=Method.PAIRED_T
    )


def _build_constant_interval(mean: float, differences: Sequence[float], level: float) -> Interval:
    """Bounds on the mean if as many clusters as could go unseen differ, by as much as possible."""
    unseen = build_wilson(0.0, len(differences), level=level, method=Method.CONSTANT_DIFFERENCE).high
    return Interval(
        low=mean - unseen * (1 + mean),
        high=mean + unseen * (1 - mean),
        level=level,
        method=Method.CONSTANT_DIFFERENCE,
    )


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
