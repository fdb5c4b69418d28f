"""By how much one side differs from another, in any unit: one difference for each matched cluster."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt

from repotrial._core.absence import NotComputable
from repotrial.stats._bootstrap import bootstrap_clustered
from repotrial.stats._model import Cluster, Estimate, Interval, Method, sort_clusters, verify_level
from repotrial.stats._permutation import PermutationTest, compare_sign_flips

_MIN_PAIRS = 3
_CELLS = 1 << 20
_MOST_DEGENERATE = 0.05
_ROUNDING = 1e-12
_EQUAL = NotComputable(reason="all differences are equal: nothing shows how tasks vary")
_Floats = npt.NDArray[np.float64]


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
    values = np.concatenate(found)
    usable = values[np.isfinite(values)]
    if len(usable) < (1 - _MOST_DEGENERATE) * draws:
        return NotComputable(reason="too many resamples of the tasks have only one value")
    tail = (1 - level) / 2
    low, high = np.quantile(usable, (tail, 1 - tail))
    return Interval(low=float(low), high=float(high), level=level, method=Method.BOOTSTRAP_PERCENTILE)
