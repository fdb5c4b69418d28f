"""Rates of success: over independent runs, over runs of the same contracts, with outcomes missing, and of
repeats: the chance that one of k succeeds, and how alike repeats are.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
from scipy import special

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


def compute_pass_at_k(n: int, c: int, k: int) -> float | NotComputable:
    """Unbiased chance that one of k runs succeeds, from c successes in n: 1 - C(n-c, k) / C(n, k)."""
    if k < 1 or not 0 <= c <= n:
        raise ValueError(f"expected k of at least 1 and 0 to n successes, found n={n}, c={c}, k={k}")
    if k > n:
        return NotComputable(reason=f"pass@{k} needs at least {k} runs, found {n}")
    return (math.comb(n, k) - math.comb(n - c, k)) / math.comb(n, k)


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


def estimate_rate(successes: int, n: int, *, level: float = 0.95) -> Estimate | NotComputable:
    """The rate among independent runs, with a Wilson score interval.

    Runs that share a contract are not independent: see `estimate_clustered_rate`.
    """
    verify_level(level)
    if not 0 <= successes <= n:
        raise ValueError(f"expected between 0 and {n} successes, found {successes}")
    if n == 0:
        return NotComputable(reason="there are no runs")
    value = successes / n
    interval = build_wilson(value, n, level=level, method=Method.WILSON)
    return Estimate(value=value, interval=interval, n_units=n, n_clusters=n)


def build_wilson(rate: float, n: float, *, level: float, method: Method) -> Interval:
    """The values p for which a rate observed over n is within z standard errors of p."""
    z = -float(special.ndtri((1 - level) / 2))
    center = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + (z / (2 * n)) ** 2)
    # Rounding must not push an end past the estimate, which the exact formula always contains.
    low, high = min(center - half, rate), max(center + half, rate)
    return Interval(low=max(0.0, low), high=min(1.0, high), level=level, method=method)


def estimate_clustered_rate(clusters: Sequence[Cluster], *, level: float = 0.95) -> Estimate | NotComputable:
    """The rate over all runs, with an interval that takes clusters, not runs, as the sampling units (B9).

    The standard error is CR2 (Bell and McCaffrey), never smaller than that of independent runs; the interval
    is Student's t with Satterthwaite's degrees of freedom on the logit scale (number of clusters less one,
    when all clusters are of one size). Where all runs ended alike nothing shows how clusters vary: the
    interval is Wilson's with the number of clusters as sample size, as if repeats told nothing new.
    """
    verify_level(level)
    verify_binary(clusters)
    ordered = sort_clusters(clusters)
    if not ordered:
        return NotComputable(reason="there are no runs")
    sizes = np.array([len(cluster.values) for cluster in ordered], dtype=np.float64)
    totals = np.array([cluster.total for cluster in ordered])
    rate = float(totals.sum() / sizes.sum())
    return Estimate(
        value=rate,
        interval=_build_clustered_interval(rate, totals, sizes, level=level),
        n_units=int(sizes.sum()),
        n_clusters=len(ordered),
    )


def _build_clustered_interval(
    rate: float, totals: np.ndarray, sizes: np.ndarray, *, level: float
) -> Interval | NotComputable:
    if len(sizes) < 2:  # noqa: PLR2004  # spread needs two
        return NotComputable(reason="an interval over contracts needs at least 2 contracts, found 1")
    if rate in {0.0, 1.0}:
        return build_wilson(rate, len(sizes), level=level, method=Method.WILSON_ON_CLUSTERS)
    n = sizes.sum()
    share = sizes / n
    residuals = totals - sizes * rate
    robust = float(np.sum(residuals**2 / (1 - share))) / n**2
    variance = max(robust, rate * (1 - rate) / n)
    t = -float(special.stdtrit(_compute_degrees(share), (1 - level) / 2))
    half = t * math.sqrt(variance) / (rate * (1 - rate))
    center = special.logit(rate)
    low, high = special.expit(center - half), special.expit(center + half)
    return Interval(
        low=min(float(low), rate),
        high=max(float(high), rate),
        level=level,
        method=Method.LOGIT_CLUSTER_ROBUST,
    )


def _compute_degrees(share: np.ndarray) -> float:
    # Bell and McCaffrey's tr(Γ)²/tr(Γ²) with independent runs as working model, written out for a mean.
    cross = share**2 / (1 - share)
    return float(1 / (np.sum(share**2) + np.sum(cross) ** 2 - np.sum(cross**2)))


class RateBounds(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="rate-bounds"):
    """Where a rate can lie, whatever the indeterminate runs would have been (X2)."""

    low: float
    """The rate if every indeterminate run had failed."""
    high: float
    """The rate if every indeterminate run had succeeded."""
    interval: Interval
    """From the lower end of the worst case to the upper end of the best, with sampling error."""
    n_units: int
    """All runs, indeterminate ones included."""
    n_indeterminate: int
    """Runs whose outcome is not known."""
    method: Method = Method.WORST_BEST_CASE
    """How the bounds were computed."""


def bound_rate(
    success: int, failure: int, indeterminate: int, *, level: float = 0.95
) -> RateBounds | NotComputable:
    """Worst-case and best-case rate over all runs, none dropped."""
    if min(success, failure, indeterminate) < 0:
        raise ValueError(f"expected counts of at least 0, found {success}, {failure}, {indeterminate}")
    n = success + failure + indeterminate
    worst, best = (
        estimate_rate(success, n, level=level),
        estimate_rate(success + indeterminate, n, level=level),
    )
    if isinstance(worst, NotComputable) or isinstance(best, NotComputable):
        return NotComputable(reason="there are no runs")
    assert isinstance(worst.interval, Interval)
    assert isinstance(best.interval, Interval)
    return RateBounds(
        low=worst.value,
        high=best.value,
        interval=Interval(
            low=worst.interval.low, high=best.interval.high, level=level, method=Method.WORST_BEST_CASE
        ),
        n_units=n,
        n_indeterminate=indeterminate,
    )
