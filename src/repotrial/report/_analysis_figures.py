"""Figures of an analysis: flow, rates, differences, cost against success, time to success, tasks by arms."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis import Analysis, ArmFigures, IntervalFigure, TrialTable
from repotrial.report.figures.axes import show_points, show_share
from repotrial.report.figures.blocks import FlowStep, HeatCell, draw_bars, draw_flow, draw_heat_map
from repotrial.report.figures.canvas import Figure
from repotrial.report.figures.plots import (
    Curve,
    Frame,
    IntervalRow,
    PlotPoint,
    draw_curves,
    draw_frontier,
    draw_intervals,
)

_MOST_CURVES: Final = 8
_MOST_DRAWN: Final = 60
_OUTCOMES: Final = ("successes", "failures", "errors", "invalid", "indeterminate")


def draw_trials_flow(analysis: Analysis, prefix: str) -> Figure:
    """From all trials to successes, with what is left on the way."""
    counts = {name: sum(getattr(arm, name) for arm in analysis.arms) for name in _OUTCOMES}
    scorable = counts["successes"] + counts["failures"]
    frame = Frame(
        name=f"{prefix}flow",
        title=f"{scorable} of {analysis.trials} trials ended with a verdict",
        words="Every trial that entered, and where trials without a verdict are. All of them are in the "
        "denominator of the rates.",
        x_label="",
    )
    leaving = [
        (word, counts[name])
        for name, word in (
            ("errors", "a check did not complete"),
            ("invalid", "nothing can be said"),
            ("indeterminate", "planned, without an outcome"),
        )
        if counts[name]
    ]
    steps = [
        FlowStep(
            words=f"trials of {len(analysis.arms)} arms on {analysis.tasks} tasks",
            count=analysis.trials,
            leaving=tuple(leaving),
        ),
        FlowStep(words="with a verdict", count=scorable, leaving=(("failures", counts["failures"]),)),
        FlowStep(words="successes", count=counts["successes"]),
    ]
    return _source(draw_flow(frame, steps), analysis)


def draw_arm_rates(analysis: Analysis, prefix: str) -> Figure:
    """Successes over all trials, by arm."""
    rows = [
        _row(arm.name, arm.rate, f"{arm.successes} of {arm.trials}", n) for n, arm in enumerate(analysis.arms)
    ]
    candidates = [arm for arm in analysis.arms if arm.role == "candidate"] or list(analysis.arms)
    best = candidates[0]
    frame = Frame(
        name=f"{prefix}rates",
        title=f"{best.name} succeeded most often: {best.successes} of {best.trials} trials"
        + (" (baselines aside)" if len(candidates) < len(analysis.arms) else ""),
        words=f"Successes over all trials with {analysis.level:.0%} intervals; tasks are the sampling units.",
        x_label="rate of success over all trials",
        show_x=show_share,
    )
    return _source(draw_intervals(frame, rows, around=(0.0, 1.0)), analysis)


def _row(label: str, found: IntervalFigure | NotComputable, note: str, series: int) -> IntervalRow:
    if isinstance(found, NotComputable):
        return IntervalRow(label=label, value=found, note=note, series=series)
    return IntervalRow(
        label=label,
        value=found.estimate,
        low=None if isinstance(found.low, NotComputable) else found.low,
        high=None if isinstance(found.high, NotComputable) else found.high,
        note=note,
        series=series,
    )


def draw_contrasts(analysis: Analysis, prefix: str) -> Figure | None:
    """Paired differences as a forest; None without any."""
    if not analysis.contrasts:
        return None
    rows = []
    for contrast in analysis.contrasts[:_MOST_DRAWN]:
        ends = (contrast.low_family, contrast.high_family)
        if any(isinstance(end, NotComputable) for end in ends):
            ends = (contrast.low, contrast.high)
        low, high = (None if isinstance(end, NotComputable) else end for end in ends)
        rows.append(
            IntervalRow(
                label=f"{contrast.first} less {contrast.second}",
                value=contrast.difference,
                low=low,
                high=high,
                note=f"{contrast.tasks} tasks",
                series=1 if contrast.is_told_apart else 0,
            )
        )
    apart = sum(contrast.is_told_apart for contrast in analysis.contrasts)
    left_out = len(analysis.contrasts) - len(rows)
    frame = Frame(
        name=f"{prefix}differences",
        title=f"{apart} of {len(analysis.contrasts)} pairs of arms can be told apart",
        words="Paired differences over the tasks that both arms have, with intervals adjusted for all pairs "
        "of the family. Squares: told apart at the level of the family; circles: not. An interval that holds "
        "zero does not show that there is no difference."
        + (f" The first {len(rows)} are drawn." if left_out else ""),
        x_label="difference of success, percentage points",
        show_x=show_points,
    )
    return _source(draw_intervals(frame, rows, zero=0.0), analysis)


def draw_arm_frontier(analysis: Analysis, prefix: str) -> Figure | None:
    """Cost of a trial against success; None where no arm is known to have cost anything."""
    points = []
    for arm in analysis.arms:
        cost = find_mean_cost(arm)
        if cost is None or isinstance(arm.rate.estimate, NotComputable):
            continue
        low, high = arm.rate.low, arm.rate.high
        is_known = not isinstance(low, NotComputable) and not isinstance(high, NotComputable)
        points.append(
            PlotPoint(
                label=arm.name,
                x=cost,
                y=arm.rate.estimate,
                y_range=(low, high) if is_known else None,  # type: ignore[arg-type]  # as just seen
            )
        )
    if not any(point.x for point in points):
        return None
    frame = Frame(
        name=f"{prefix}frontier",
        title=_describe_frontier(points),
        words="Mean cost of a trial against the rate of success with its interval. Arms on the line are not "
        "beaten: no other is cheaper and at least as good.",
        x_label="USD of a trial, mean",
        y_label="rate of success",
        show_x=lambda value: f"{value:.3g}",
        show_y=show_share,
    )
    return _source(draw_frontier(frame, points), analysis)


def _describe_frontier(points: Sequence[PlotPoint]) -> str:
    cheapest, best = min(points, key=lambda p: p.x), max(points, key=lambda p: p.y)
    if cheapest is best:
        return f"{best.label} is both the cheapest and the most successful"
    return f"{cheapest.label} is the cheapest arm, {best.label} the most successful"


def find_mean_cost(arm: ArmFigures) -> float | None:
    """Mean cost of a trial in dollars; None where no trial states one."""
    every = next((spread for spread in arm.cost_usd if spread.outcome == "all"), None)
    return None if every is None or not every.trials else every.total / every.trials


def draw_outcomes(analysis: Analysis, prefix: str) -> Figure:
    """How the trials of each arm ended."""
    parts = [name for name in _OUTCOMES if any(getattr(arm, name) for arm in analysis.arms)] or ["successes"]
    bars = [(arm.name, [float(getattr(arm, part)) for part in parts]) for arm in analysis.arms]
    errors = sum(arm.errors + arm.invalid for arm in analysis.arms)
    frame = Frame(
        name=f"{prefix}outcomes",
        title=f"{errors} of {analysis.trials} trials are errors or invalid",
        words="Trials of each arm by how they ended. Errors and invalid trials count 0 in the rate.",
        x_label="trials",
    )
    return _source(draw_bars(frame, parts, bars), analysis)


def draw_trial_map(
    analysis: Analysis, table: TrialTable, prefix: str, cells: Mapping[tuple[str, str], str]
) -> Figure:
    """Tasks by arms: the share of successes."""
    arms = [arm.name for arm in analysis.arms]
    counts: dict[str, dict[str, list[int]]] = {}
    for trial in table.trials:
        cell = counts.setdefault(trial.task, {}).setdefault(trial.arm, [0, 0])
        cell[0] += trial.outcome == "success"
        cell[1] += 1
    rows = [
        (
            task,
            [
                HeatCell(
                    share=found[arm][0] / found[arm][1],
                    words=f"{found[arm][0]} of {found[arm][1]}",
                    href=cells.get((task, arm), ""),
                )
                if arm in found
                else None
                for arm in arms
            ],
        )
        for task, found in sorted(counts.items())
    ]
    never = sum(1 for _, found in rows if not any(cell is not None and cell.share for cell in found))
    frame = Frame(
        name=f"{prefix}map",
        title=f"{never} of {len(rows)} tasks were solved by no arm",
        words="Each cell is filled by its share of successes and says it in words."
        + (" It opens its first run." if cells else ""),
        x_label="",
    )
    return _source(draw_heat_map(frame, arms, rows), analysis)


def draw_time_to_success(analysis: Analysis, table: TrialTable, prefix: str) -> Figure | None:
    """The share of trials that have succeeded by a time; None where times are missing."""
    if any(trial.wall_seconds is None for trial in table.trials):
        return None
    curves = []
    for arm in analysis.arms[:_MOST_CURVES]:
        own = [trial for trial in table.trials if trial.arm == arm.name]
        times = sorted(t.wall_seconds for t in own if t.outcome == "success" and t.wall_seconds is not None)
        last = max((t.wall_seconds for t in own if t.wall_seconds is not None), default=0.0)
        points = [(0.0, 0.0), *((at, n / len(own)) for n, at in enumerate(times, start=1))]
        curves.append(Curve(label=arm.name, points=(*_thin(points), (last, len(times) / len(own)))))
    drawn = f" The first {_MOST_CURVES} arms are drawn." if len(analysis.arms) > _MOST_CURVES else ""
    frame = Frame(
        name=f"{prefix}time",
        title="How soon trials succeed",
        words="Share of all trials of an arm that have succeeded by a time. Trials that end otherwise never "
        "succeed, and stay in the denominator." + drawn,
        x_label="seconds since the trial began",
        y_label="share of trials that have succeeded",
        show_y=show_share,
    )
    return _source(draw_curves(frame, curves, is_step=True, around_x=(0.0,)), analysis)


def _thin(points: Sequence[tuple[float, float]], most: int = 200) -> list[tuple[float, float]]:
    """At most so many points, the first and the last among them."""
    if len(points) <= most:
        return list(points)
    return [points[round(n * (len(points) - 1) / (most - 1))] for n in range(most)]


def _source(figure: Figure, analysis: Analysis) -> Figure:
    used = tuple((artefact.file, artefact.digest) for artefact in analysis.artefacts)
    return msgspec.structs.replace(figure, sources=used)
