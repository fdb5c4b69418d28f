"""How many repeats stage 3 has: a frozen function of squared differences alone (B10, P29).

The names of arms do not enter: a contrast is a set of two hidden arms, and every difference is squared. No
person decides.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import harmonic_mean
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis._plan_document import Pilot

FUNCTION: Final = "blinded-k@1"
"""Named in the registration: another function would be another version."""
_PAIR: Final = 2
_MOST_EXCESS: Final = 2
"""A variance above so many times the planned one refutes the planning values."""

HiddenTask = tuple[Sequence[int], Sequence[int]]
"""Outcomes (1 success, 0 none) of two hidden arms on one task; which is which is not said."""


class BlindedVariance(msgspec.Struct, frozen=True, kw_only=True):
    """What stage 2 shows about spread, without showing any difference."""

    within: float
    """w: variance within groups of runs of one hidden arm on one task."""
    is_within_planned: bool
    """Whether no group had two runs, so that the planned ICC stays."""
    squared: float
    """q: mean of squared differences about zero."""
    runs: float
    """Runs per task and arm so far, as a harmonic mean."""
    tasks: int
    """Tasks with an outcome in both arms."""

    @classmethod
    def estimate(cls, pilot: Pilot, tasks: Sequence[HiddenTask]) -> BlindedVariance | NotComputable:
        """The blinded variance of one contrast."""
        used = [(a, b) for a, b in tasks if a and b]
        if not used:
            return NotComputable(reason="no task has an outcome in both arms")
        groups = [group for pair in used for group in pair if len(group) >= _PAIR]
        squares = sum(_sum_squares(group) for group in groups)
        degrees = sum(len(group) - 1 for group in groups)
        rate, icc = float(pilot.power.rate), float(pilot.power.icc)
        within = squares / degrees if degrees else rate * (1 - rate) * (1 - icc)
        differences = [(sum(a) / len(a) - sum(b) / len(b)) for a, b in used]
        return cls(
            within=within,
            is_within_planned=not degrees,
            squared=math.fsum(value * value for value in differences) / len(differences),
            runs=harmonic_mean([len(group) for pair in used for group in pair]),
            tasks=len(used),
        )

    def predict(self, repeats: int) -> float:
        """Variance of a task's difference with so many runs of each arm."""
        doubled = 2 * self.within
        return max(self.squared - doubled / self.runs, 0.0) + doubled / repeats

    def find_refutation(self, pilot: Pilot) -> str | None:
        """Why the planning values do not hold; None if nothing speaks against them.

        Only the variance within groups is asked: squared differences about zero hold the effect itself, and
        a rule that a large effect switches off would be none.
        """
        rate, icc = float(pilot.power.rate), float(pilot.power.icc)
        planned = rate * (1 - rate) * (1 - icc)
        if self.is_within_planned or self.within <= _MOST_EXCESS * planned:
            return None
        return f"runs of one arm on one task vary by {self.within:.3f}, planned {planned:.3f}"


def _sum_squares(group: Sequence[int]) -> float:
    mean = sum(group) / len(group)
    return math.fsum((value - mean) ** 2 for value in group)


class RepeatsDecision(msgspec.Struct, frozen=True, kw_only=True):
    """What the frozen function says about stage 3."""

    function: str = FUNCTION
    repeats: int | None
    """k, the runs of each arm on each task in total; None: stage 3 is refused."""
    power: dict[int, float]
    """Power at the smallest relevant effect, for each number of repeats that was tried."""
    most_affordable: int
    """Most repeats that the remaining envelopes allow."""
    reason: str
    """In a sentence."""

    @classmethod
    def decide(
        cls, pilot: Pilot, variances: Sequence[BlindedVariance], *, planned_tasks: int, most_affordable: int
    ) -> RepeatsDecision:
        """The smallest number of repeats that reaches the registered power for every contrast."""
        from repotrial.stats import compute_power_of_effect

        level = 1 - float(pilot.level) / len(pilot.contrasts)
        effect, wanted = float(pilot.smallest_effect), float(pilot.power.power)
        tried: dict[int, float] = {}
        for repeats in range(max(2, pilot.stages.stage_2 + 1), pilot.stages.most + 1):
            tried[repeats] = min(
                (
                    compute_power_of_effect(
                        effect, math.sqrt(each.predict(repeats)), planned_tasks, level=level
                    )
                    for each in variances
                ),
                default=0.0,
            )
        enough = [repeats for repeats, power in tried.items() if power >= wanted]
        affordable = [repeats for repeats in enough if repeats <= most_affordable]
        if affordable:
            reason = f"{affordable[0]} runs of each arm on each task reach power {wanted:.2f}"
        elif enough:
            reason = f"{enough[0]} repeats would reach the power; the envelopes allow {most_affordable}"
        else:
            best = max(tried.values(), default=0.0)
            reason = (
                f"{pilot.stages.most} repeats do not reach power {wanted:.2f} either; the best is {best:.2f}"
            )
        return cls(
            repeats=affordable[0] if affordable else None,
            power={repeats: round(power, 4) for repeats, power in tried.items()},
            most_affordable=most_affordable,
            reason=reason,
        )
