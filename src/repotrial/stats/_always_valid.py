"""A band for those who look before the end: it holds at all times at once, so looking costs nothing.

Betting confidence sequence (Waudby-Smith and Ramdas, 2024): for every possible mean a gambler bets that the
next value lies above or below it. The capital of a bet on the truth seldom grows, so means with much capital
against them are left out.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from repotrial.stats._model import Interval, Method, verify_level

_GRID: Final = 801
_MOST: Final = 0.5
"""Largest share of the capital that a bet risks."""
_Floats = npt.NDArray[np.float64]


def build_always_valid(differences: Sequence[float], *, level: float = 0.95) -> tuple[Interval, ...]:
    """The band after each difference (between -1 and 1), in the order given.

    The order must be exchangeable: that of a frozen random plan, never that of completion. A difference must
    not change once it has entered. The band never widens.
    """
    verify_level(level)
    values = (np.array(differences, dtype=np.float64) + 1) / 2
    if np.any(values < 0) or np.any(values > 1):
        raise ValueError("expected differences between -1 and 1")
    if not len(values):
        return ()
    lows, highs = _bound(values, level)
    return tuple(
        Interval(low=float(low), high=float(high), level=level, method=Method.BETTING)
        for low, high in zip(2 * lows - 1, 2 * highs - 1, strict=True)
    )


def _bound(values: _Floats, level: float) -> tuple[_Floats, _Floats]:
    grid = np.linspace(0, 1, _GRID)[:, None]
    bets = _choose_bets(values, level)
    step = values - grid
    # Bets of 1/2 of what would ruin at the extreme: capital stays above 0.
    with np.errstate(divide="ignore"):
        above = np.minimum(bets, np.where(grid > 0, _MOST / grid, np.inf))
        below = np.minimum(bets, np.where(grid < 1, _MOST / (1 - grid), np.inf))
    capital = np.maximum(
        np.cumsum(np.log1p(above * step), axis=1), np.cumsum(np.log1p(-below * step), axis=1)
    )
    # Two gamblers with half of the capital each; a mean once left out stays out.
    kept = np.maximum.accumulate(capital, axis=1) < math.log(2 / (1 - level))
    lows, highs = np.empty(len(values)), np.empty(len(values))
    for place in range(len(values)):
        inside = np.flatnonzero(kept[:, place])
        if len(inside):
            # Outward by one point of the grid, for what lies between.
            lows[place] = grid[max(0, inside[0] - 1), 0]
            highs[place] = grid[min(_GRID - 1, inside[-1] + 1), 0]
        else:
            lows[place], highs[place] = lows[place - 1], highs[place - 1]
    return lows, highs


def _choose_bets(values: _Floats, level: float) -> _Floats:
    """Bets from the past alone: about the inverse of the spread so far."""
    count = np.arange(1, len(values) + 1)
    means = (0.5 + np.cumsum(values)) / (count + 1)
    variances = (0.25 + np.cumsum((values - means) ** 2)) / (count + 1)
    before = np.concatenate(([0.25], variances[:-1]))
    return np.sqrt(2 * math.log(2 / (1 - level)) / (before * count * np.log1p(count)))
