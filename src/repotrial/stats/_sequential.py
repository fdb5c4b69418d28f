"""Looks before the end: levels that spend one error rate over all looks, and what may be said after a stop.

Statistics of successive looks are joint normal, their correlation the root of the ratio of their information.
Two-sided figures are two one-sided ones at half the level: no test crosses both sides.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, Literal, NamedTuple

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import optimize, special

from repotrial.stats._model import Estimate, Interval, Method, verify_level

_NODES: Final = 400
_REACH: Final = 9.0
"""Standard errors beyond which the normal density is nothing."""
_ROUNDING: Final = 1e-12
_Floats = npt.NDArray[np.float64]


Spending = Literal["o-brien-fleming", "pocock"]
"""How fast the error rate is spent as information comes in (Lan and DeMets): almost nothing early, so that
the last level is close to that of a test without looks; or similar levels at all looks."""


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """One look at a two-sided test, planned or held."""

    fraction: float
    """Share of the planned information at this look."""
    spent: float
    """Chance, without a difference, to have stopped at this look or before."""
    critical: float
    """The statistic's distance from 0 at which to stop, on the normal scale."""
    level: float
    """The p-value, of this look alone, at or below which to stop."""


def plan_looks(
    fractions: Sequence[float],
    *,
    alpha: float = 0.05,
    spending: Spending = "o-brien-fleming",
    spent: Sequence[float] = (),
) -> tuple[Look, ...]:
    """The boundary of each look.

    Args:
        fractions: Share of the planned information at each look, rising, at most 1.
        alpha: Error rate of the two-sided test over all looks together.
        spending: How it is spent.
        spent: What the first looks have spent already, if they were held under another plan: that stays.
    """
    verify_level(alpha)
    _verify_fractions(fractions)
    if len(spent) > len(fractions):
        raise ValueError(f"expected at most {len(fractions)} spent levels, found {len(spent)}")
    totals = [*spent, *(_spend(fraction, alpha, spending) for fraction in fractions[len(spent) :])]
    if any(not 0 <= one <= alpha for one in totals):
        raise ValueError(f"expected spent levels from 0 to {alpha}, found {list(spent)}")
    looks: list[Look] = []
    state: _State | None = None
    before = 0.0
    for fraction, total in zip(fractions, totals, strict=True):
        # A look that may spend nothing more never stops.
        step = max((total - before) / 2, 1e-300)
        critical = _find_critical(state, fraction, step)
        before = max(before, total)
        level = 2 * float(special.ndtr(-critical))
        looks.append(Look(fraction=fraction, spent=before, critical=critical, level=level))
        state = _advance(state, fraction, critical, drift=0.0)
    return tuple(looks)


def compute_sequential_p(looks: Sequence[Look], statistic: float) -> float:
    """The two-sided p-value of a test that ended at the last of these looks, with this statistic there.

    Stagewise ordering: a stop at an earlier look is more extreme than any result of a later one.
    """
    upper = _compute_tail(looks, abs(statistic), drift=0.0)
    return min(1.0, 2 * upper)


def estimate_after_looks(
    looks: Sequence[Look],
    value: float,
    standard_error: float,
    *,
    n_units: int,
    n_clusters: int,
    level: float = 0.95,
) -> Estimate:
    """The median-unbiased estimate after looks, with its interval, where the plain one is too far from 0.

    The effect at which a result as extreme as this one has chance one half, and those at which it has half of
    the error rate, in stagewise ordering.

    Args:
        looks: Those held; the test ended at the last of them.
        value: The plain estimate at the last look.
        standard_error: Of the plain estimate.
        n_units: Runs that entered it.
        n_clusters: Clusters that entered it.
        level: Of the interval.
    """
    verify_level(level)
    if not standard_error > 0:
        raise ValueError(f"expected a standard error above 0, found {standard_error}")
    statistic = value / standard_error
    sign = math.copysign(1.0, statistic)
    # Drift: the expected statistic at full information; at the last look it is drift * sqrt(fraction).
    scale = sign * standard_error * math.sqrt(looks[-1].fraction)
    tail = (1 - level) / 2

    def find(chance: float) -> float:
        return scale * _solve_drift(looks, abs(statistic), chance)

    ends = sorted((find(tail), find(1 - tail)))
    return Estimate(
        value=find(1 / 2),
        interval=Interval(low=ends[0], high=ends[1], level=level, method=Method.STAGEWISE),
        n_units=n_units,
        n_clusters=n_clusters,
    )


class _State(NamedTuple):
    """The density of the statistic among the tests that go on, at some points."""

    fraction: float
    points: _Floats
    weights: _Floats
    """Density times the width that each point stands for."""


def _verify_fractions(fractions: Sequence[float]) -> None:
    if not fractions or fractions[0] <= 0 or fractions[-1] > 1 + _ROUNDING:
        raise ValueError(f"expected fractions above 0 and at most 1, found {list(fractions)}")
    if any(one >= other for one, other in itertools.pairwise(fractions)):
        raise ValueError(f"expected rising fractions, found {list(fractions)}")


def _spend(fraction: float, alpha: float, spending: Spending) -> float:
    if spending == "pocock":
        return alpha * math.log1p((math.e - 1) * fraction)
    quantile = -float(special.ndtri(alpha / 4))
    return 4 * float(special.ndtr(-quantile / math.sqrt(fraction)))


def _find_critical(state: _State | None, fraction: float, chance: float) -> float:
    """Where so large a share of all tests, without a difference, ends at this look on one side."""
    if state is None:
        return -float(special.ndtri(chance))

    def excess(critical: float) -> float:
        # Far out the chances are tiny: compare their logarithms.
        found = max(_compute_crossing(state, fraction, critical, drift=0.0), 1e-320)
        return math.log(found) - math.log(chance)

    if excess(_MOST) > 0:
        return _MOST
    return float(optimize.brentq(excess, -_REACH, _MOST, xtol=1e-13))


_MOST: Final = 38.0
"""Beyond this the normal tail is not a float."""


def _advance(state: _State | None, fraction: float, critical: float, *, drift: float) -> _State:
    mean = drift * math.sqrt(fraction)
    low, high = mean - _REACH, min(critical, mean + _REACH)
    nodes, widths = _list_nodes()
    low = min(low, high - 1.0)
    points = low + (high - low) * nodes
    weights = (high - low) * widths
    if state is None:
        density = np.exp(-((points - mean) ** 2) / 2) / math.sqrt(2 * math.pi)
    else:
        step = fraction - state.fraction
        start = state.points * math.sqrt(state.fraction) + drift * step
        distance = (points[:, None] * math.sqrt(fraction) - start) / math.sqrt(step)
        scale = math.sqrt(fraction / (2 * math.pi * step))
        density = scale * (np.exp(-(distance**2) / 2) @ state.weights)
    return _State(fraction, points, weights * density)


def _compute_crossing(state: _State | None, fraction: float, critical: float, *, drift: float) -> float:
    """Chance to have gone on so far and to be above this value now."""
    if state is None:
        return float(special.ndtr(drift * math.sqrt(fraction) - critical))
    step = fraction - state.fraction
    reached = state.points * math.sqrt(state.fraction) + drift * step
    beyond = special.ndtr((reached - critical * math.sqrt(fraction)) / math.sqrt(step))
    return float(beyond @ state.weights)


def _compute_tail(looks: Sequence[Look], statistic: float, *, drift: float) -> float:
    """Chance of a result at least as extreme: stopped at an earlier look, or above this at the last."""
    total, state = 0.0, None
    for look in looks[:-1]:
        total += _compute_crossing(state, look.fraction, look.critical, drift=drift)
        state = _advance(state, look.fraction, look.critical, drift=drift)
    return total + _compute_crossing(state, looks[-1].fraction, statistic, drift=drift)


def _solve_drift(looks: Sequence[Look], statistic: float, chance: float) -> float:
    def excess(drift: float) -> float:
        return _compute_tail(looks, statistic, drift=drift) - chance

    middle = statistic / math.sqrt(looks[-1].fraction)
    reach = 4 / math.sqrt(looks[0].fraction)
    return float(optimize.brentq(excess, *_bracket(excess, middle, reach), xtol=1e-10))


def _bracket(excess: Callable[[float], float], middle: float, reach: float) -> tuple[float, float]:
    low, high = middle - reach, middle + reach
    while excess(low) > 0:
        low -= reach
    while excess(high) < 0:
        high += reach
    return low, high


@cache
def _list_nodes() -> tuple[_Floats, _Floats]:
    nodes, weights = special.roots_legendre(_NODES)
    return (nodes + 1) / 2, weights / 2
