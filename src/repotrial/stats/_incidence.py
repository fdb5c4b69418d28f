"""Time and cost to success where other ends compete with it: cumulative incidence, by Aalen and Johansen.

A finished failure is not a success still to come: Kaplan and Meier's estimate would count it as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from repotrial._core.absence import NotComputable
from repotrial.stats._model import Method, verify_level

_POINTS: Final = 60
_MIN_CLUSTERS: Final = 2
_Floats = npt.NDArray[np.float64]


class TimedEnd(msgspec.Struct, frozen=True, kw_only=True):
    """When, or at which cost, one run ended, and how."""

    key: str
    """Its sampling unit (a contract)."""
    at: float
    """Seconds or dollars at the end, at least 0."""
    cause: str | None
    """How it ended; None if censored: all that is known is that it had not ended before."""


class IncidencePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The curve from here on, to the next point."""

    at: float
    """Seconds or dollars."""
    value: float
    """Share of runs that have ended by then, by this cause."""
    low: float | None
    """Lower end of the band; null where clusters are too few for one."""
    high: float | None
    """Upper end of the band."""


class Incidence(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="incidence"):
    """How the share of runs that ended by one cause grows."""

    cause: str
    """The cause."""
    points: tuple[IncidencePoint, ...]
    """Where the curve steps; at most sixty of them, evenly chosen, with the last."""
    final: float
    """The share at the end."""
    n_units: int
    """Runs that entered."""
    n_clusters: int
    """Sampling units that entered."""
    n_censored: int
    """Runs of which the end is not known."""
    level: float
    """Of the band, point by point."""
    method: Method = Method.AALEN_JOHANSEN
    """How it was computed."""


def estimate_incidence(
    ends: Sequence[TimedEnd],
    cause: str,
    *,
    seed_sequence: np.random.SeedSequence,
    draws: int = 400,
    level: float = 0.95,
) -> Incidence | NotComputable:
    """The cumulative incidence of one cause among competing ones; the band resamples clusters.

    Args:
        ends: One for each run, in any order.
        cause: The cause whose curve is wanted.
        seed_sequence: For the resamples.
        draws: How many of them.
        level: Of the band.
    """
    verify_level(level)
    if not ends:
        return NotComputable(reason="there are no runs")
    if any(not end.at >= 0 for end in ends):
        raise ValueError("expected times and costs of at least 0")
    ordered = sorted(ends, key=lambda end: (end.at, end.cause is None, end.key))
    keys = sorted({end.key for end in ordered})
    owner = np.array([keys.index(end.key) for end in ordered])
    at = np.array([end.at for end in ordered])
    is_cause = np.array([end.cause == cause for end in ordered])
    is_end = np.array([end.cause is not None for end in ordered])
    ones = np.ones((1, len(ordered)))
    curve = _compute_curve(ones, is_cause, is_end, at)[0]
    steps = _choose_steps(at, is_cause)
    low, high = _resample(owner, len(keys), (is_cause, is_end, at), steps, seed_sequence, draws, level)
    return Incidence(
        cause=cause,
        points=tuple(
            IncidencePoint(
                at=float(at[place]),
                value=float(curve[place]),
                low=None if low is None else float(low[index]),
                high=None if high is None else float(high[index]),
            )
            for index, place in enumerate(steps)
        ),
        final=float(curve[-1]),
        n_units=len(ordered),
        n_clusters=len(keys),
        n_censored=int(np.count_nonzero(~is_end)),
        level=level,
    )


def _compute_curve(
    weights: _Floats, is_cause: npt.NDArray[np.bool_], is_end: npt.NDArray[np.bool_], at: _Floats
) -> _Floats:
    """The curve at each end in order, one row for each row of weights; ties are one time."""
    last = np.searchsorted(at, at, side="right") - 1
    first = np.searchsorted(at, at, side="left")
    total = weights.sum(axis=1, keepdims=True)
    passed = np.concatenate((np.zeros((len(weights), 1)), np.cumsum(weights, axis=1)), axis=1)
    at_risk = total - passed[:, first]
    moments = np.unique(last)
    ended = np.diff(np.cumsum(weights * is_end, axis=1)[:, moments], axis=1, prepend=0)
    caused = np.diff(np.cumsum(weights * is_cause, axis=1)[:, moments], axis=1, prepend=0)
    risk = at_risk[:, moments]
    safe = np.where(risk > 0, risk, 1.0)
    survival = np.cumprod(1 - ended / safe, axis=1)
    before = np.concatenate((np.ones((len(weights), 1)), survival[:, :-1]), axis=1)
    curve = np.cumsum(before * caused / safe, axis=1)
    return np.asarray(curve[:, np.searchsorted(moments, last)])


def _choose_steps(at: _Floats, is_cause: npt.NDArray[np.bool_]) -> npt.NDArray[np.intp]:
    last = np.searchsorted(at, at, side="right") - 1
    steps = np.unique(last[is_cause])
    if len(steps) > _POINTS:
        steps = steps[np.unique(np.linspace(0, len(steps) - 1, _POINTS).round().astype(np.intp))]
    return np.asarray(steps, dtype=np.intp)


def _resample(
    owner: npt.NDArray[np.intp],
    clusters: int,
    ends: tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_], _Floats],
    steps: npt.NDArray[np.intp],
    seed_sequence: np.random.SeedSequence,
    draws: int,
    level: float,
) -> tuple[_Floats, _Floats] | tuple[None, None]:
    if clusters < _MIN_CLUSTERS or not len(steps):
        return None, None
    generator = np.random.default_rng(seed_sequence)
    drawn = generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=draws)
    curves = _compute_curve(drawn[:, owner].astype(np.float64), *ends)[:, steps]
    tail = (1 - level) / 2
    low, high = np.quantile(curves, (tail, 1 - tail), axis=0)
    return low, high
