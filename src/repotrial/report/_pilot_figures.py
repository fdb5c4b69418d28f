"""Figures that only a conducted pilot has: flow, endings, phases of cost, curves, strata, gates, errors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.analysis import Analysis, LabeledShare, PilotFigures
from repotrial.report.figures.axes import show_share
from repotrial.report.figures.blocks import FlowStep, HeatCell, draw_bars, draw_flow, draw_heat_map
from repotrial.report.figures.canvas import Figure
from repotrial.report.figures.plots import Curve, Frame, IntervalRow, draw_curves, draw_intervals
from repotrial.stats import Incidence

_MOST_CURVES: Final = 8
_MOST_ROWS: Final = 60
SHARES: Final = {
    "rejected_correct": "false positives of rejected",
    "correct_rejected": "false positives of correct",
    "accepted_incorrect": "false negatives of accepted",
    "incorrect_accepted": "false negatives of incorrect",
}


def draw_pilot_flow(found: PilotFigures, prefix: str) -> Figure:
    """Contracts and runs on their way from the plan to the analysis."""
    flow = found.flow
    planned, ended = flow["trials planned"], flow["trials with an outcome"]
    frame = Frame(
        name=f"{prefix}flow",
        title=f"{ended} of {planned} planned runs have an outcome; {flow['contracts removed']} contracts "
        "were removed",
        words="From what was planned to what was analyzed. Every planned run is in the denominator of the "
        f"rates. {flow['attempts']} attempts were made: an attempt is repeated only if its cause excuses it.",
        x_label="",
    )
    steps = [
        FlowStep(
            words="contracts planned",
            count=flow["contracts planned"],
            leaving=(("removed for objective invalidity", flow["contracts removed"]),),
        ),
        FlowStep(words="contracts analyzed", count=flow["contracts analyzed"]),
        FlowStep(
            words=f"runs planned on them, of {len(found.arms)} arms",
            count=planned,
            leaving=(("indeterminate: no attempt counts", flow["indeterminate"]),),
        ),
        FlowStep(
            words="runs with an outcome",
            count=ended,
            leaving=tuple(
                (word, flow[name])
                for name, word in (
                    ("failure", "failures"),
                    ("error", "errors: a check did not complete"),
                    ("invalid", "invalid: nothing can be said"),
                )
            ),
        ),
        FlowStep(words="successes", count=flow["success"]),
    ]
    return draw_flow(frame, steps)


def draw_pilot_endings(found: PilotFigures, prefix: str) -> Figure:
    """Runs of each arm by what ended them."""
    totals: dict[str, int] = {}
    for arm in found.arms:
        for cause, count in arm.endings.items():
            totals[cause] = totals.get(cause, 0) + count
    parts = sorted(totals, key=lambda cause: (cause != "success", -totals[cause], cause)) or ["none"]
    bars = [(arm.arm, [float(arm.endings.get(part, 0)) for part in parts]) for arm in found.arms]
    limits = totals.get("limit", 0)
    frame = Frame(
        name=f"{prefix}endings",
        title=f"{limits} of {sum(totals.values())} runs ended at a cap (policy choice)"
        if limits
        else "No run ended at a cap (policy choice)",
        words="Planned runs of each arm by what ended them. A cap is a policy choice: reaching one is no "
        "failure of acceptance by itself.",
        x_label="runs",
    )
    return draw_bars(frame, parts, bars)


def draw_phases(found: PilotFigures, prefix: str) -> Figure | None:
    """Cost of each arm by phase; None if no phase is known to have cost anything."""
    names = list(dict.fromkeys(name for arm in found.arms for name in arm.phases_usd))
    known = [name for name in names if any(_is_known(arm.phases_usd.get(name)) for arm in found.arms)]
    if not any(_as_float(arm.phases_usd.get(name)) for arm in found.arms for name in known):
        return None
    bars = [(arm.arm, [_as_float(arm.phases_usd.get(name)) for name in known]) for arm in found.arms]
    total = sum(sum(values) for _, values in bars)
    missing = [name for name in names if name not in known]
    costly = max(known, key=lambda name: sum(_as_float(arm.phases_usd.get(name)) for arm in found.arms))
    spent = sum(_as_float(arm.phases_usd.get(costly)) for arm in found.arms)
    frame = Frame(
        name=f"{prefix}phases",
        title=f"{costly.capitalize()} is {spent / total:.0%} of the known cost of {total:.2f} USD",
        words="Known cost of all runs of an arm, by phase."
        + (
            f" Not known for any arm, and not drawn: {', '.join(missing)}; the table says why."
            if missing
            else ""
        ),
        x_label="USD, all runs of an arm",
        show_x=lambda value: f"{value:.3g}",
    )
    return draw_bars(frame, known, bars)


def _is_known(value: float | NotComputable | None) -> bool:
    return isinstance(value, float | int)


def _as_float(value: float | NotComputable | None) -> float:
    return float(value) if isinstance(value, float | int) else 0.0


def draw_incidence(found: PilotFigures, prefix: str, *, of: str) -> Figure | None:
    """The share of planned runs that have succeeded by a time, or for an amount; None if none is known."""
    is_time = of == "time"
    curves = []
    for arm in found.arms[:_MOST_CURVES]:
        known = arm.time_to_success if is_time else arm.cost_to_success
        if isinstance(known, Incidence) and any(point.at for point in known.points):
            curves.append((arm.arm, known))
    if not curves:
        return None
    unit = "seconds of acting" if is_time else "USD of models"
    best, last = max(curves, key=lambda item: item[1].final)
    steps = [point.at for point in last.points if point.value >= last.final / 2]
    half = f"; half of these by {steps[0]:.3g} {unit}" if steps and last.final else ""
    frame = Frame(
        name=f"{prefix}{of}",
        title=f"{best} succeeds most: {last.final:.0%} of its planned runs{half}",
        words="Cumulative incidence of success among all planned runs of an arm. Other ends (a cap, which is "
        "a policy choice, a crash, an end without success) compete: such runs never succeed, and stay in the "
        f"denominator. The shade is a {last.level:.0%} band, point by point, that resamples tasks."
        + (f" The first {_MOST_CURVES} arms are drawn." if len(found.arms) > _MOST_CURVES else ""),
        x_label=unit,
        y_label="share of planned runs that succeeded",
        show_y=show_share,
    )
    drawn = [
        Curve(
            label=name,
            points=((0.0, 0.0), *((point.at, point.value) for point in known.points)),
            band=tuple(
                (point.at, point.low, point.high)
                for point in known.points
                if point.low is not None and point.high is not None
            ),
        )
        for name, known in curves
    ]
    return draw_curves(frame, drawn, is_step=True, around_x=(0.0,))


def draw_strata(analysis: Analysis, found: PilotFigures, prefix: str) -> Figure | None:
    """Rates by stratum and arm; None with one stratum only."""
    names = {one.stratum for one in found.strata}
    if len(names) < 2:  # noqa: PLR2004 - one stratum is all tasks
        return None
    order = {arm.name: place for place, arm in enumerate(analysis.arms)}
    rows = [
        IntervalRow(
            label=f"{one.stratum}: {one.arm}",
            value=one.rate.estimate,
            low=_end(one.rate.low),
            high=_end(one.rate.high),
            note=f"{one.rate.n_clusters} tasks",
            series=order.get(one.arm, 0),
        )
        for one in found.strata[:_MOST_ROWS]
    ]
    frame = Frame(
        name=f"{prefix}strata",
        title=f"Success in {len(names)} strata, exploratory",
        words="Rate of success over all planned runs, by stratum and arm. With few tasks in a stratum this "
        "is an account of them, hardly of others; nothing here is adjusted."
        + (f" The first {_MOST_ROWS} rows are drawn." if len(found.strata) > _MOST_ROWS else ""),
        x_label="rate of success over all planned runs",
        show_x=show_share,
    )
    return draw_intervals(frame, rows, around=(0.0, 1.0))


def _end(value: float | NotComputable) -> float | None:
    return None if isinstance(value, NotComputable) else value


def draw_failing(analysis: Analysis, found: PilotFigures, prefix: str) -> Figure | None:
    """Gates and failure modes by arms; None if no run failed."""
    trials = {arm.name: arm.trials for arm in analysis.arms}
    kinds: tuple[tuple[str, Callable[[str], dict[str, int]]], ...] = (
        ("gate ", lambda arm: next(one.failed_gates for one in found.arms if one.arm == arm)),
        ("", lambda arm: next(one.failure_modes for one in found.arms if one.arm == arm)),
    )
    arms = [one.arm for one in found.arms]
    rows = []
    for word, read in kinds:
        for name in sorted({name for arm in arms for name in read(arm)}):
            cells = [_count_cell(read(arm).get(name, 0), trials[arm]) for arm in arms]
            if any(cell.share for cell in cells):
                rows.append((f"{word}{name}", cells))
    if not rows:
        return None
    worst = max(rows, key=lambda row: sum(cell.share for cell in row[1] if isinstance(cell.share, float)))
    frame = Frame(
        name=f"{prefix}failing",
        title=f"Most often not passed: {worst[0]}"
        if worst[0].startswith("gate ")
        else f"Most frequent failure mode: {worst[0]}",
        words="Gates that were not passed, then failure modes by their tags: in how many runs of each arm. A "
        "run can be in several rows.",
        x_label="",
    )
    return draw_heat_map(frame, arms, rows)


def _count_cell(count: int, trials: int) -> HeatCell:
    return HeatCell(share=count / max(1, trials), words=f"{count} of {trials}")


def draw_verdict_errors(found: PilotFigures, prefix: str) -> Figure | None:
    """How often verdicts were wrong by the labels of people; None without labels."""
    errors = found.verdict_errors
    if isinstance(errors, NotComputable):
        return None
    rows = [_build_share(words, getattr(errors, name)) for name, words in SHARES.items()]
    if all(isinstance(row.value, NotComputable) for row in rows):
        return None
    frame = Frame(
        name=f"{prefix}wrong",
        title=f"People looked at {errors.asked} runs: {errors.labeled} clear labels, "
        f"{errors.disputed} disputed",
        words=f"{say_sentence(errors.definition)} Shares are weighted by the inverse of the chance of being "
        "asked; the line is the interval over tasks, and the note "
        "has the bounds if every unclear label went one way.",
        x_label="share of runs",
        show_x=show_share,
    )
    return draw_intervals(frame, rows, around=(0.0, 1.0))


def say_sentence(text: str) -> str:
    """A line of an analysis as a sentence."""
    return f"{text[:1].upper()}{text[1:].removesuffix('.')}."


def _build_share(words: str, found: LabeledShare) -> IntervalRow:
    ends = [_end(value) for value in (found.lowest, found.highest)]
    bounds = " to ".join("?" if value is None else show_share(value) for value in ends)
    note = f"{found.labels} labels; {bounds}"
    if isinstance(found.share, NotComputable):
        return IntervalRow(label=words, value=found.share, note=note)
    share = found.share
    return IntervalRow(
        label=words, value=share.estimate, low=_end(share.low), high=_end(share.high), note=note
    )


def draw_sensitivity(found: PilotFigures, prefix: str) -> Figure | None:
    """How far other weights could move the rubric's mean; None if no run was judged."""
    rows = [
        IntervalRow(
            label=one.arm,
            value=one.rubric.score,
            low=one.rubric.score_low,
            high=one.rubric.score_high,
            note=f"{one.rubric.trials} runs",
            series=number,
        )
        for number, one in enumerate(found.arms)
        if not isinstance(one.rubric, NotComputable)
    ]
    if not rows:
        return None
    widest = max(rows, key=lambda row: (row.high or 0.0) - (row.low or 0.0))
    reach = (widest.high or 0.0) - (widest.low or 0.0)
    frame = Frame(
        name=f"{prefix}sensitivity",
        title=f"Other weights move the rubric of {widest.label} by up to {reach * 100:.0f} points",
        words="The mark is the mean of the four components of the rubric with equal weights; the line is "
        "every value that other weights could give it. It describes, and decides nothing.",
        x_label="rubric, mean of components",
        show_x=show_share,
    )
    return draw_intervals(frame, rows, around=(0.0, 1.0))


def source_runs(figure: Figure | None, analysis: Analysis, names: Sequence[str] = ()) -> Figure | None:
    """The same with what its numbers were computed from: the runs of all arms, and named documents."""
    if figure is None:
        return None
    used = tuple(
        (one.name if one.name.startswith("runs of ") else one.file, one.digest)
        for one in analysis.artefacts
        if one.name.startswith("runs of ") or one.name in names
    )
    return msgspec.structs.replace(figure, sources=used)
