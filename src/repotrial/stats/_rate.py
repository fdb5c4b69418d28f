"""Rates of success: over independent runs, over runs of the same contracts, and with outcomes missing."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
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
    verify_range,
)

_MIN_CLUSTERS = 2
"""Spread needs two."""
_ROUNDING = 1e-12

_Floats = npt.NDArray[np.float64]


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
    quantile = -float(special.ndtri((1 - level) / 2))
    interval = build_wilson(value, n, quantile=quantile, level=level, method=Method.WILSON)
    return Estimate(value=value, interval=interval, n_units=n, n_clusters=n)


def build_wilson(rate: float, n: float, *, quantile: float, level: float, method: Method) -> Interval:
    """The values p for which a rate observed over n is within so many standard errors of p."""
    square = quantile * quantile / n
    center = (rate + square / 2) / (1 + square)
    half = math.sqrt(square * (rate * (1 - rate) + square / 4)) / (1 + square)
    # Rounding must not push an end past the estimate, which the exact formula always contains.
    low, high = min(center - half, rate), max(center + half, rate)
    return Interval(low=max(0.0, low), high=min(1.0, high), level=level, method=method)


def estimate_clustered_rate(clusters: Sequence[Cluster], *, level: float = 0.95) -> Estimate | NotComputable:
    """The rate over all runs, with an interval that takes clusters, not runs, as the sampling units (B9).

    Wilson's score interval, with Student's t (Satterthwaite's degrees of freedom; number of clusters less
    one, when all are of one size) and with an effective sample size: that of independent runs whose standard
    error is the CR2 one (Bell and McCaffrey), never more than the runs. Where at most one cluster has the
    rarer outcome nothing shows how clusters vary: the clusters are the sample size, as if repeats told
    nothing new.
    """
    verify_binary(clusters)
    return estimate_clustered_share(clusters, level=level)


def estimate_clustered_share(clusters: Sequence[Cluster], *, level: float = 0.95) -> Estimate | NotComputable:
    """The same of values between 0 and 1: the mean over all of them."""
    verify_level(level)
    verify_range(clusters)
    ordered = sort_clusters(clusters)
    if not ordered:
        return NotComputable(reason="there are no runs")
    sizes = np.array([len(cluster.values) for cluster in ordered], dtype=np.float64)
    totals = np.array([cluster.total for cluster in ordered])
    rate = min(1.0, max(0.0, float(totals.sum() / sizes.sum())))
    return Estimate(
        value=rate,
        interval=_build_clustered_interval(rate, totals, sizes, level=level),
        n_units=int(sizes.sum()),
        n_clusters=len(ordered),
    )


def compute_standard_error(clusters: Sequence[Cluster]) -> float | NotComputable:
    """The CR2 standard error of the mean over all runs, clusters being independent of each other."""
    ordered = sort_clusters(clusters)
    if len(ordered) < _MIN_CLUSTERS:
        return NotComputable(reason=f"needs at least {_MIN_CLUSTERS} contracts, found {len(ordered)}")
    sizes = np.array([len(cluster.values) for cluster in ordered], dtype=np.float64)
    totals = np.array([cluster.total for cluster in ordered])
    return math.sqrt(_compute_variance(totals, sizes))


def _compute_variance(totals: _Floats, sizes: _Floats) -> float:
    # For a mean, Bell and McCaffrey's adjustment of the residuals is 1/sqrt(1 - share of the cluster).
    n = sizes.sum()
    residuals = totals - sizes * (totals.sum() / n)
    return float(np.sum(residuals**2 / (1 - sizes / n))) / float(n**2)


def _build_clustered_interval(
    rate: float, totals: _Floats, sizes: _Floats, *, level: float
) -> Interval | NotComputable:
    if len(sizes) < _MIN_CLUSTERS:
        return NotComputable(reason="an interval over contracts needs at least 2 contracts, found 1")
    share = sizes / sizes.sum()
    alone = 1 / float(np.sum(share**2))
    spread, variance = rate * (1 - rate), _compute_variance(totals, sizes)
    size, method = float(sizes.sum()), Method.WILSON_EFFECTIVE
    if variance > 0:
        # Clusters that agree more than independent runs would do so by chance.
        size = min(size, spread / variance)
    rarer = min(np.count_nonzero(totals > _ROUNDING), np.count_nonzero(sizes - totals > _ROUNDING))
    if rarer <= 1:
        size, method = min(size, alone), Method.WILSON_ON_CLUSTERS
    quantile = -float(special.stdtrit(_compute_degrees(share), (1 - level) / 2))
    return build_wilson(rate, size, quantile=quantile, level=level, method=method)


def _compute_degrees(share: _Floats) -> float:
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
