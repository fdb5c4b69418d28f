"""The cluster bootstrap: an interval for a mean over runs that assumes nothing about their distribution."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from repotrial._core.absence import NotComputable
from repotrial.stats._model import Cluster, Estimate, Interval, Method, sort_clusters, verify_level

_CELLS = 1 << 20
"""Resampled clusters held at a time; fixed, because the random stream is read in these portions."""

_MOST_DEGENERATE = 0.05
_MIN_CLUSTERS = 2
"""Spread needs two."""

_Floats = npt.NDArray[np.float64]


def bootstrap_clustered(
    clusters: Sequence[Cluster],
    *,
    seed_sequence: np.random.SeedSequence,
    draws: int = 2000,
    level: float = 0.95,
    method: Literal[Method.BOOTSTRAP_BCA, Method.BOOTSTRAP_PERCENTILE] = Method.BOOTSTRAP_BCA,
) -> Estimate | NotComputable:
    """The mean over all runs, of any quantity, with whole clusters resampled for its interval.

    The same seed sequence gives the same interval, whatever the order of clusters and of runs within them.
    """
    verify_level(level)
    if draws < 1:
        raise ValueError(f"expected at least 1 draw, found {draws}")
    ordered = sort_clusters(clusters)
    if not ordered:
        return NotComputable(reason="there are no runs")
    totals = np.array([cluster.total for cluster in ordered])
    sizes = np.array([len(cluster.values) for cluster in ordered], dtype=np.float64)
    value = float(totals.sum() / sizes.sum())
    interval: Interval | NotComputable
    if len(ordered) < _MIN_CLUSTERS:
        interval = NotComputable(reason="an interval over contracts needs at least 2 contracts, found 1")
    else:
        resampled = np.concatenate(list(_iter_means(totals, sizes, draws, seed_sequence)))
        ends = _find_tails(value, resampled, totals, sizes, level, method)
        interval = ends if isinstance(ends, NotComputable) else _cut(resampled, ends, level, method)
    return Estimate(value=value, interval=interval, n_units=int(sizes.sum()), n_clusters=len(ordered))


def cut_resampled(values: _Floats, level: float) -> Interval | NotComputable:
    """The percentile interval of resampled values; those of degenerate resamples are NaN."""
    usable = values[np.isfinite(values)]
    if len(usable) < (1 - _MOST_DEGENERATE) * len(values):
        return NotComputable(reason="too many resamples of the tasks leave it undetermined")
    tail = (1 - level) / 2
    return _cut(usable, (tail, 1 - tail), level, Method.BOOTSTRAP_PERCENTILE)


def _iter_means(
    totals: _Floats, sizes: _Floats, draws: int, seed_sequence: np.random.SeedSequence
) -> Iterator[_Floats]:
    generator = np.random.default_rng(seed_sequence)
    count = len(totals)
    rows = max(1, _CELLS // count)
    for start in range(0, draws, rows):
        chosen = generator.integers(count, size=(min(rows, draws - start), count), dtype=np.int32)
        yield totals[chosen].sum(axis=1) / sizes[chosen].sum(axis=1)


def _find_tails(
    value: float, resampled: _Floats, totals: _Floats, sizes: _Floats, level: float, method: Method
) -> tuple[float, float] | NotComputable:
    """The two quantiles of the resampled means at which to cut."""
    from scipy import stats  # slow to load: only for those who need it

    if np.ptp(resampled) <= 1e-12 * max(1.0, abs(value)):
        return NotComputable(reason="all resamples of the contracts have the same mean")
    tail = (1 - level) / 2
    if method is Method.BOOTSTRAP_PERCENTILE:
        return tail, 1 - tail
    below = (np.mean(resampled < value) + np.mean(resampled <= value)) / 2
    if not 0 < below < 1:
        return NotComputable(reason="all resampled means lie on one side of the estimate")
    bias = float(stats.norm.ppf(below))
    acceleration = _compute_acceleration(totals, sizes)
    shifted = bias + stats.norm.ppf([tail, 1 - tail])
    scale = 1 - acceleration * shifted
    if np.any(scale <= 0):
        return NotComputable(reason="the contracts are too skewed for a corrected bootstrap interval")
    corrected = np.asarray(stats.norm.cdf(bias + shifted / scale))
    return float(corrected[0]), float(corrected[1])


def _compute_acceleration(totals: _Floats, sizes: _Floats) -> float:
    """Skewness of the estimate, from leaving out one cluster at a time."""
    left_out = (totals.sum() - totals) / (sizes.sum() - sizes)
    deviations = left_out.mean() - left_out
    squares = float(np.sum(deviations**2))
    return float(np.sum(deviations**3)) / (6 * squares**1.5) if squares > 0 else 0.0


def _cut(resampled: _Floats, ends: tuple[float, float], level: float, method: Method) -> Interval:
    low, high = np.quantile(resampled, ends)
    return Interval(low=float(low), high=float(high), level=level, method=method)


def bootstrap_ratio(
    numerators: Sequence[Cluster],
    denominators: Sequence[Cluster],
    *,
    seed_sequence: np.random.SeedSequence,
    draws: int = 2000,
    level: float = 0.95,
) -> Estimate | NotComputable:
    """One total over another, such as cost over successes, with whole clusters resampled for its interval.

    Args:
        numerators: What is divided, for each cluster; its values are added up.
        denominators: What it is divided by, for the same clusters.
        seed_sequence: For the resamples.
        draws: How many of them.
        level: Of the interval.
    """
    verify_level(level)
    above, below = sort_clusters(numerators), sort_clusters(denominators)
    if [one.key for one in above] != [one.key for one in below]:
        raise ValueError("expected the same clusters above and below")
    upper, lower = (np.array([one.total for one in side]) for side in (above, below))
    if not above or lower.sum() == 0:
        return NotComputable(reason="there is nothing to divide by")
    interval: Interval | NotComputable = NotComputable(
        reason=f"an interval over contracts needs at least {_MIN_CLUSTERS} contracts, found {len(above)}"
    )
    if len(above) >= _MIN_CLUSTERS:
        generator = np.random.default_rng(seed_sequence)
        weights = generator.multinomial(len(above), np.full(len(above), 1 / len(above)), size=draws)
        bottom = weights @ lower
        ratios = np.where(bottom > 0, weights @ upper / np.where(bottom > 0, bottom, 1), np.nan)
        interval = cut_resampled(ratios, level)
    return Estimate(
        value=float(upper.sum() / lower.sum()),
        interval=interval,
        n_units=sum(len(one.values) for one in above),
        n_clusters=len(above),
    )
