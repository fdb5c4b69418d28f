"""Power before anything is spent: what a plan could show, and what no number of repeats could (B10)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Final, Literal

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis._plan_document import Pilot
from repotrial.stats import (
    Contrast,
    compute_power_of_effect,
    find_smallest_effect,
)

_SHOWN: Final = (1, 2, 3)
_SIMULATION_ERROR: Final = 0.03
_DRAWS: Final = 2000
_SOURCE: Final = (
    "3,543 public trials of 9 agents on about 80 tasks: intra-task correlation 0.50 to 0.78, median 0.68; "
    "correlation of task means of two agents 0.58, 0.65 after correction for noise"
)


class PowerRow(msgspec.Struct, frozen=True, kw_only=True):
    """What one number of repeats could show, and what it is expected to cost."""

    repeats: int
    """Runs of each arm on each task."""
    deviation: float
    """Standard deviation of a task's paired difference."""
    smallest_effect: float | NotComputable
    """Smallest difference that is found with the registered power."""
    power: float
    """Chance to find the smallest relevant effect, by formula."""
    simulated: float
    """The same, by simulation."""
    expected_usd: Decimal
    """Of all runs of all arms: planning, not result."""


class PowerAnalysis(msgspec.Struct, frozen=True, kw_only=True):
    """All of `power-analysis.json`."""

    schema: Literal["repotrial/power-analysis@1"] = "repotrial/power-analysis@1"
    tasks: int
    """Tasks of the suite."""
    relevant_effect: float
    """The smallest difference that would matter."""
    level: float
    """Of one contrast: the registered level, split over the family."""
    power: float
    """The registered power."""
    rate: float
    """Presumed rate of success."""
    icc: float
    """Presumed correlation of two runs of one arm on one task."""
    pair_correlation: float
    """Presumed correlation of two arms' chances on a task."""
    source: str = _SOURCE
    """Where the defaults come from."""
    formula: str = "sd2(k) = 2 v [ICC (1 - rho) + (1 - ICC) / k], v = p (1 - p)"
    """Of the variance of a task's difference."""
    rows: tuple[PowerRow, ...]
    """For 1, 2 and 3 repeats, and the most that the plan allows."""
    endless: float | NotComputable
    """Smallest difference that endless repeats could show with these tasks."""
    needed_tasks: int | NotComputable
    """Tasks that would be needed at the most repeats of the plan."""
    notes: tuple[str, ...]
    """What a reader should know."""
    sanity: dict[str, bool]
    """Checks of the figures themselves."""

    @staticmethod
    def build(
        pilot: Pilot, tasks: int, price: Callable[[int], Decimal], *, repeats: int | None = None
    ) -> PowerAnalysis:
        """Power of a pilot's contrasts.

        Args:
            pilot: The pilot.
            tasks: How many tasks there are.
            price: Expected cost of all runs, by the number of repeats.
            repeats: In place of the most repeats of the plan.
        """
        return _analyze(pilot, tasks, price, repeats=repeats)

    @staticmethod
    def trace(pilot: Pilot, tasks: int) -> dict[int, tuple[tuple[int, float], ...]]:
        """Power by the number of tasks, for 1, 2 and 3 repeats and the most of the plan."""
        level = 1 - float(pilot.level) / len(pilot.contrasts)
        effect = float(pilot.smallest_effect)
        counts = sorted({tasks, *(max(3, round(tasks * share / 10)) for share in range(2, 31, 2))})
        found = {}
        for repeats in sorted({*_SHOWN, pilot.stages.most}):
            deviation = math.sqrt(_contrast(pilot, repeats, effect).variance)
            found[repeats] = tuple(
                (count, round(compute_power_of_effect(effect, deviation, count, level=level), 4))
                for count in counts
            )
        return found

    @property
    def refusal(self) -> str | None:
        """Why nothing should be spent on this plan; None if nothing speaks against it."""
        broken = [name for name, holds in self.sanity.items() if not holds]
        if broken:
            return f"the figures do not hold together: {', '.join(broken)}"
        if isinstance(self.endless, NotComputable):
            return f"power cannot be computed: {self.endless.reason}"
        if self.endless > self.relevant_effect:
            return (
                f"{self.tasks} tasks never show less than {self.endless:.3f}, whatever the repeats; "
                f"the smallest relevant effect is {self.relevant_effect:.3f}"
            )
        return None


def _analyze(
    pilot: Pilot, tasks: int, price: Callable[[int], Decimal], *, repeats: int | None = None
) -> PowerAnalysis:
    level = 1 - float(pilot.level) / len(pilot.contrasts)
    effect, wanted = float(pilot.smallest_effect), float(pilot.power.power)
    most = repeats or pilot.stages.most
    rows = tuple(_build_row(pilot, tasks, each, level, price(each)) for each in sorted({*_SHOWN, most}))
    endless = math.sqrt(_vary(pilot, 0.0, None))
    needed = _contrast(pilot, most, effect).find_needed(wanted, level=level)
    return PowerAnalysis(
        tasks=tasks,
        relevant_effect=effect,
        level=round(1 - level, 6),
        power=wanted,
        rate=float(pilot.power.rate),
        icc=float(pilot.power.icc),
        pair_correlation=float(pilot.power.pair_correlation),
        rows=rows,
        endless=_round(find_smallest_effect(endless, tasks, power=wanted, level=level)),
        needed_tasks=needed,
        notes=_list_notes(pilot, tasks, rows),
        sanity=_check_sanity(pilot, tasks, level, rows),
    )


def _contrast(pilot: Pilot, runs: int, effect: float) -> Contrast:
    """Two arms around the presumed rate, as far apart as the effect."""
    rate = float(pilot.power.rate)
    middle = min(max(rate, effect / 2), 1 - effect / 2)
    return Contrast(
        rate_a=middle + effect / 2,
        rate_b=middle - effect / 2,
        runs=runs,
        icc=float(pilot.power.icc),
        pair_correlation=float(pilot.power.pair_correlation),
    )


def _vary(pilot: Pilot, effect: float, runs: int | None) -> float:
    """Variance of a task's difference; with endless runs, what is left of it."""
    if runs is not None:
        return _contrast(pilot, runs, effect).variance
    rate, icc = float(pilot.power.rate), float(pilot.power.icc)
    return 2 * rate * (1 - rate) * icc * (1 - float(pilot.power.pair_correlation))


def _build_row(pilot: Pilot, tasks: int, repeats: int, level: float, cost: Decimal) -> PowerRow:
    effect = float(pilot.smallest_effect)
    deviation = math.sqrt(_vary(pilot, 0.0, repeats))
    contrast = _contrast(pilot, repeats, effect)
    simulated = contrast.simulate(tasks, level=level, draws=_DRAWS, seed=pilot.seed)
    power = compute_power_of_effect(effect, math.sqrt(contrast.variance), tasks, level=level)
    smallest = find_smallest_effect(deviation, tasks, power=float(pilot.power.power), level=level)
    return PowerRow(
        repeats=repeats,
        deviation=round(deviation, 4),
        smallest_effect=_round(smallest),
        power=round(power, 4),
        simulated=round(simulated, 4),
        expected_usd=cost,
    )


def _round(value: float | NotComputable) -> float | NotComputable:
    return value if isinstance(value, NotComputable) else round(value, 4)


def _list_notes(pilot: Pilot, tasks: int, rows: Sequence[PowerRow]) -> tuple[str, ...]:
    notes = [
        "expected cost is planning, not result",
        f"the level is split over {len(pilot.contrasts)} contrasts; Holm, at the end, never needs more",
    ]
    if pilot.stopping.contrast is not None and tasks < pilot.stopping.least_tasks:
        notes.append(
            f"no look can stop this pilot: it has {tasks} tasks, and none is taken before "
            f"{pilot.stopping.least_tasks} are complete"
        )
    if any(abs(row.power - row.simulated) > _SIMULATION_ERROR for row in rows):
        notes.append(
            "formula and simulation differ by more than 3 points: with few tasks or a large effect, "
            "believe the simulation"
        )
    return tuple(notes)


def _check_sanity(pilot: Pilot, tasks: int, level: float, rows: tuple[PowerRow, ...]) -> dict[str, bool]:
    """Figures that contradict each other are not printed as if they did not."""

    def power(count: int, effect: float) -> float:
        deviation = math.sqrt(_vary(pilot, 0.0, pilot.stages.most))
        return compute_power_of_effect(effect, deviation, count, level=level)

    effect = float(pilot.smallest_effect)
    by_tasks = [power(count, effect) for count in (tasks, 2 * tasks, 4 * tasks)]
    by_effect = [power(tasks, share * effect) for share in (0.5, 1.0, 1.5)]
    null = _contrast(pilot, 1, 0.0)
    size = null.simulate(tasks, level=level, draws=_DRAWS, seed=pilot.seed)
    slack = 3 * math.sqrt((1 - level) * level / _DRAWS)
    return {
        "power rises with tasks": by_tasks == sorted(by_tasks),
        "power rises with repeats": [row.power for row in rows] == sorted(row.power for row in rows),
        "power rises with the effect": by_effect == sorted(by_effect),
        "without an effect, false alarms keep to the level": size <= (1 - level) + slack + 0.005,
    }
