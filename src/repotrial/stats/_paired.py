"""Two agents on the same contracts: the mean difference and two exact tests of it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from repotrial._core.absence import NotComputable
from repotrial.stats._model import Cluster, Estimate, Interval, Method, is_binary, sort_clusters, verify_level
from repotrial.stats._permutation import PermutationTest, compare_sign_flips, find_lattice
from repotrial.stats._rate import build_wilson

_MIN_PAIRS = 3
_ROUNDING = 1e-12
"""Differences closer than this are equal; their spread would give an interval of almost no width."""
_Pairs = Sequence[tuple[Cluster, Cluster]]


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
