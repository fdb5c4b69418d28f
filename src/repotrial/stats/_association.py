"""Do two quantities rise together? Rank correlation whose sampling units are clusters, not observations."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import cache

import msgspec
import numpy as np
import numpy.typing as npt

from repotrial._core.absence import NotComputable
from repotrial.stats._bootstrap import cut_resampled
from repotrial.stats._model import Interval, Method, verify_level

_MIN_CLUSTERS = 5
_ENUMERATED = 40_320
"""Rearrangements up to which all are listed: those of 8 clusters."""
_CELLS = 1 << 20
"""Values held at a time; fixed, because the random stream is read in these portions."""
_ROUNDING = 1e-12

_Floats = npt.NDArray[np.float64]
_Indices = npt.NDArray[np.intp]


class PairedValue(msgspec.Struct, frozen=True, kw_only=True):
    """Two quantities of one run."""

    key: str
    """Its sampling unit (a task)."""
    slot: str = ""
    """Which of the unit's runs it is; runs of different units in the same slot can stand for each other."""
    x: float
    """The first quantity, finite."""
    y: float
    """The second quantity, finite."""


class Association(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="association"):
    """Spearman's rank correlation: an association, whatever brings it about."""

    value: float
    """Between -1 and 1; ties have average ranks."""
    interval: Interval | NotComputable
    """From whole clusters resampled, or why there is none."""
    p_value: float | NotComputable
    """Share of rearrangements of whole clusters with a correlation at least as far from 0; two-sided."""
    n_units: int
    """Runs that entered."""
    n_clusters: int
    """Sampling units that entered."""
    method: Method
    """How the p-value was computed."""


def estimate_association(
    values: Sequence[PairedValue],
    *,
    seed_sequence: np.random.SeedSequence,
    draws: int = 2000,
    rearrangements: int = 20_000,
    level: float = 0.95,
) -> Association | NotComputable:
    """Spearman's correlation, its p-value by rearranging clusters, its interval by resampling them.

    Under the null a cluster's values of one quantity could as well have gone with another cluster's values of
    the other one, if both have runs in the same slots: only such rearrangements are counted, exactly where
    they are few, else by seeded sampling. The order of the values makes no difference.

    Args:
        values: One for each run.
        seed_sequence: For resamples, and for rearrangements that are too many to list.
        draws: How many resamples.
        rearrangements: How many of those are sampled.
        level: Of the interval.
    """
    verify_level(level)
    ordered = sorted(values, key=lambda value: (value.key, value.slot, value.x, value.y))
    keys = sorted({value.key for value in ordered})
    if len(keys) < _MIN_CLUSTERS:
        return NotComputable(reason=f"needs at least {_MIN_CLUSTERS} tasks, found {len(keys)}")
    x, y = (np.array([getattr(value, name) for value in ordered], dtype=np.float64) for name in "xy")
    if not (np.isfinite(x).all() and np.isfinite(y).all()):
        raise ValueError("expected finite values")
    for name, column in (("first", x), ("second", y)):
        if np.ptp(column) == 0:
            return NotComputable(reason=f"the {name} quantity is the same in all {len(column)} runs")
    for_tests, for_resamples = seed_sequence.spawn(2)
    value = _correlate(_rank(x), _rank(y))
    p_value, method = _compare_rearranged(ordered, x, y, rearrangements, for_tests)
    return Association(
        value=value,
        interval=_resample(ordered, keys, (x, y), draws, for_resamples, level),
        p_value=p_value,
        n_units=len(ordered),
        n_clusters=len(keys),
        method=method,
    )


def _rank(values: _Floats) -> _Floats:
    from scipy import stats  # slow to load: only for those who need it

    return np.asarray(stats.rankdata(values))


def _correlate(x: _Floats, y: _Floats) -> float:
    left, right = x - x.mean(), y - y.mean()
    value = float(left @ right) / math.sqrt(float(left @ left) * float(right @ right))
    return min(1.0, max(-1.0, value))


def _compare_rearranged(
    ordered: Sequence[PairedValue], x: _Floats, y: _Floats, draws: int, seed: np.random.SeedSequence
) -> tuple[float | NotComputable, Method]:
    groups = _group_alike(ordered)
    count = math.prod(math.factorial(len(group)) for group in groups)
    if count == 1:
        reason = "no two tasks have runs in the same configurations, so that none can be rearranged"
        return NotComputable(reason=reason), Method.CLUSTER_PERMUTATION_EXACT
    left, right = (_rank(column) for column in (x, y))
    left, right = left - left.mean(), right - right.mean()
    scale = math.sqrt(float(left @ left) * float(right @ right))
    threshold = abs(float(left @ right)) - _ROUNDING * scale
    if count <= _ENUMERATED:
        orders = (_enumerate(groups, len(x)), Method.CLUSTER_PERMUTATION_EXACT)
    else:
        orders = (_sample(groups, len(x), draws, seed), Method.CLUSTER_PERMUTATION_MONTE_CARLO)
    portions, method = orders
    extreme = sum(int(np.count_nonzero(np.abs(right[rows] @ left) >= threshold)) for rows in portions)
    if method is Method.CLUSTER_PERMUTATION_EXACT:
        return extreme / count, method
    return (extreme + 1) / (draws + 1), method


def _group_alike(ordered: Sequence[PairedValue]) -> list[_Indices]:
    """Clusters that can stand for each other: for each kind, rows of clusters and columns of their runs."""
    kinds: dict[tuple[str, ...], list[list[int]]] = {}
    for _, run in itertools.groupby(enumerate(ordered), key=lambda item: item[1].key):
        members = list(run)
        slots = tuple(value.slot for _, value in members)
        kinds.setdefault(slots, []).append([index for index, _ in members])
    return [np.array(rows, dtype=np.intp) for rows in kinds.values()]


def _enumerate(groups: Sequence[_Indices], size: int) -> Iterator[_Indices]:
    listed = [_list_orders(len(group)) for group in groups]
    count = math.prod(len(orders) for orders in listed)
    rows = max(1, _CELLS // size)
    for start in range(0, count, rows):
        numbers = np.arange(start, min(start + rows, count))
        result = np.empty((len(numbers), size), dtype=np.intp)
        for group, orders in zip(groups, listed, strict=True):
            numbers, place = np.divmod(numbers, len(orders))
            result[:, group.ravel()] = group[orders[place]].reshape(len(place), -1)
        yield result


@cache
def _list_orders(size: int) -> _Indices:
    return np.array(list(itertools.permutations(range(size))), dtype=np.intp)


def _sample(
    groups: Sequence[_Indices], size: int, draws: int, seed: np.random.SeedSequence
) -> Iterator[_Indices]:
    generator = np.random.default_rng(seed)
    rows = max(1, _CELLS // size)
    for start in range(0, draws, rows):
        count = min(rows, draws - start)
        orders = np.empty((count, size), dtype=np.intp)
        for group in groups:
            chosen = generator.permuted(np.tile(np.arange(len(group)), (count, 1)), axis=1)
            orders[:, group.ravel()] = group[chosen].reshape(count, -1)
        yield orders


def _resample(
    ordered: Sequence[PairedValue],
    keys: Sequence[str],
    columns: tuple[_Floats, _Floats],
    draws: int,
    seed: np.random.SeedSequence,
    level: float,
) -> Interval | NotComputable:
    """Quantiles of the correlation over resampled clusters; a cluster drawn twice counts twice."""
    places = {key: place for place, key in enumerate(keys)}
    owner = np.array([places[value.key] for value in ordered], dtype=np.intp)
    generator = np.random.default_rng(seed)
    rows = max(1, _CELLS // len(ordered))
    found: list[_Floats] = []
    for start in range(0, draws, rows):
        drawn = generator.multinomial(
            len(keys), np.full(len(keys), 1 / len(keys)), size=min(rows, draws - start)
        )
        weights = drawn[:, owner].astype(np.float64)
        left, right = (_rank_weighted(column, weights) for column in columns)
        found.append(_correlate_weighted(left, right, weights))
    interval = cut_resampled(np.concatenate(found), level)
    if isinstance(interval, Interval) and interval.high - interval.low <= _ROUNDING:
        return NotComputable(reason="all resamples of the tasks have the same correlation")
    return interval


def _rank_weighted(column: _Floats, weights: _Floats) -> _Floats:
    """Average ranks of a sample in which each value occurs as often as its weight says."""
    _, first, group = np.unique(np.sort(column), return_index=True, return_inverse=True)
    order = np.argsort(column, kind="stable")
    totals = np.add.reduceat(weights[:, order], first, axis=1)
    ranks = np.cumsum(totals, axis=1) - totals + (totals + 1) / 2
    ranked = np.empty_like(weights)
    ranked[:, order] = ranks[:, group]
    return ranked


def _correlate_weighted(x: _Floats, y: _Floats, weights: _Floats) -> _Floats:
    total = weights.sum(axis=1, keepdims=True)
    left = x - (weights * x).sum(axis=1, keepdims=True) / total
    right = y - (weights * y).sum(axis=1, keepdims=True) / total
    both = (weights * left * right).sum(axis=1)
    scale = (weights * left**2).sum(axis=1) * (weights * right**2).sum(axis=1)
    is_flat = scale <= _ROUNDING
    return np.where(is_flat, np.nan, both / np.sqrt(np.where(is_flat, 1.0, scale)))
