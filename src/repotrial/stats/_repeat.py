"""Repeats of one contract: the chance that one of k succeeds, that all of k do, and how alike repeats are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np

from repotrial._core.absence import NotComputable
from repotrial.stats._model import (
    Cluster,
    Estimate,
    Interval,
    Method,
    sort_clusters,
    verify_binary,
    verify_level,
)
from repotrial.stats._rate import estimate_clustered_share


def compute_pass_at_k(n: int, c: int, k: int) -> float | NotComputable:
    """Unbiased chance that one of k runs succeeds, from c successes in n: 1 - C(n-c, k) / C(n, k)."""
    if k < 1 or not 0 <= c <= n:
        raise ValueError(f"expected k of at least 1 and 0 to n successes, found n={n}, c={c}, k={k}")
    if k > n:
        return NotComputable(reason=f"pass@{k} needs at least {k} runs, found {n}")
    return (math.comb(n, k) - math.comb(n - c, k)) / math.comb(n, k)


def compute_pass_all_k(n: int, c: int, k: int) -> float | NotComputable:
    """Unbiased chance that all of k runs succeed (pass^k), from c successes in n: C(c, k) / C(n, k)."""
    if k < 1 or not 0 <= c <= n:
        raise ValueError(f"expected k of at least 1 and 0 to n successes, found n={n}, c={c}, k={k}")
    if k > n:
        return NotComputable(reason=f"pass^{k} needs at least {k} runs, found {n}")
    return math.comb(c, k) / math.comb(n, k)


def estimate_pass_k(
    clusters: Sequence[Cluster], k: int, *, of: Literal["any", "all"], level: float = 0.95
) -> Estimate | NotComputable:
    """The mean of pass@k (any) or pass^k (all) over the contracts with k runs; each weighs the same."""
    compute = compute_pass_at_k if of == "any" else compute_pass_all_k
    verify_binary(clusters)
    single = []
    for cluster in clusters:
        value = compute(len(cluster.values), round(cluster.total), k)
        if not isinstance(value, NotComputable):
            single.append(Cluster(key=cluster.key, values=(value,)))
    if not single:
        return NotComputable(reason=f"no contract has {k} runs")
    return estimate_clustered_share(single, level=level)


def estimate_icc(clusters: Sequence[Cluster], *, level: float = 0.95) -> Estimate | NotComputable:
    """Intra-cluster correlation from one-way analysis of variance: how alike runs of one contract are.

    It may be negative, when runs of one contract differ more than runs of different ones.
    """
    verify_level(level)
    ordered = sort_clusters(clusters)
    sizes = np.array([len(cluster.values) for cluster in ordered], dtype=np.float64)
    count, n = len(ordered), int(sizes.sum())
    if count < 2 or n == count:  # noqa: PLR2004  # spread needs two
        return NotComputable(reason=f"needs 2 contracts and a repeat, found {count} contracts and {n} runs")
    means = np.array([cluster.mean for cluster in ordered])
    grand = float(np.sum(sizes * means)) / n
    between = float(np.sum(sizes * (means - grand) ** 2)) / (count - 1)
    squares = (math.fsum((value - cluster.mean) ** 2 for value in cluster.values) for cluster in ordered)
    within = math.fsum(squares) / (n - count)
    if between + within <= 1e-24 * max(1.0, grand * grand):
        return NotComputable(reason="all runs have the same outcome")
    size = (n - float(np.sum(sizes**2)) / n) / (count - 1)
    return Estimate(
        value=(between - within) / (between + (size - 1) * within),
        interval=_build_icc_interval(between, within, (count - 1, n - count), size, level=level),
        n_units=n,
        n_clusters=count,
    )


def _build_icc_interval(
    between: float, within: float, degrees: tuple[int, int], size: float, *, level: float
) -> Interval | NotComputable:
    from scipy import stats  # slow to load: only for those who need it

    if within == 0:
        return NotComputable(reason="runs of the same contract never differ")
    if between == 0:
        return NotComputable(reason="all contracts have the same mean")
    ratio, tail = between / within, (1 - level) / 2
    low = ratio / float(stats.f.isf(tail, *degrees))
    high = ratio * float(stats.f.isf(tail, degrees[1], degrees[0]))
    return Interval(
        low=(low - 1) / (low + size - 1),
        high=(high - 1) / (high + size - 1),
        level=level,
        method=Method.ANOVA,
    )
