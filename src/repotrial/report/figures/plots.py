"""Figures over axes: intervals by row, curves, points."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.report.figures.axes import (
    LINE,
    Show,
    dash,
    draw_legend,
    draw_x_axis,
    draw_y_axis,
    fit_scale,
    lay_legend,
    show_number,
)
from repotrial.report.figures.canvas import SERIES, Canvas, Cell, Figure, cut, measure

_WIDTH: Final = 640.0
_ROW: Final = 26.0
_NAMES: Final = 220.0


class IntervalRow(msgspec.Struct, frozen=True, kw_only=True):
    """One estimate with its interval."""

    label: str
    value: float | NotComputable
    low: float | None = None
    high: float | None = None
    note: str = ""
    """Shown at the right: a count, a p-value."""
    series: int = 0
    href: str = ""


class Frame(msgspec.Struct, frozen=True, kw_only=True):
    """What every figure has in common."""

    name: str
    title: str
    words: str
    x_label: str
    y_label: str = ""
    show_x: Show = show_number
    show_y: Show = show_number


def draw_intervals(
    frame: Frame,
    rows: Sequence[IntervalRow],
    *,
    around: Sequence[float] = (),
    zero: float | None = None,
    band: tuple[float, float] | None = None,
) -> Figure:
    """Estimates with intervals, one below the other: rates by arm, or differences (a forest plot).

    Args:
        frame: Names and labels.
        rows: From top to bottom.
        around: Values that the axis must show.
        zero: Where no difference lies.
        band: Differences that do not matter.
    """
    widest = max((measure(row.label) for row in rows), default=40.0)
    left = min(_NAMES, widest) + 14
    right = _WIDTH - 12 - max((measure(row.note) for row in rows), default=0.0)
    top, bottom = 10.0, 16.0 + _ROW * max(1, len(rows))
    values = [
        value for row in rows for value in (row.value, row.low, row.high) if isinstance(value, float | int)
    ]
    must = [*around, *([] if zero is None else [zero]), *(band or ())]
    scale = fit_scale(values, start=left, end=right, around=must)
    canvas = Canvas(frame.name, _WIDTH, bottom + 44)
    if band is not None:
        first, last = (scale.place(each) for each in band)
        words = f"differences that do not matter: {frame.show_x(band[0])} to {frame.show_x(band[1])}"
        canvas.rect((first, top), (last - first, bottom - top), "band", words)
    draw_x_axis(canvas, scale, bottom, top, frame.x_label, frame.show_x)
    if zero is not None:
        canvas.line((scale.place(zero), bottom), (scale.place(zero), top), "zero")
    for number, row in enumerate(rows):
        y = top + 4 + _ROW * (number + 0.5)
        canvas.text(left - 8, y + 4, cut(row.label, _NAMES), anchor="end")
        canvas.text(_WIDTH - 4, y + 4, row.note, anchor="end", css="soft")
        if isinstance(row.value, NotComputable):
            words = cut(f"not computable: {row.value.reason}", right - left - 10)
            canvas.text(left + 6, y + 4, words, css="soft")
            continue
        title = f"{row.label}: {_describe(row, frame.show_x)}"
        if row.low is not None and row.high is not None:
            ends = (scale.place(row.low), scale.place(row.high))
            ink = f"curve ink k{row.series % SERIES}"
            canvas.line((ends[0], y), (ends[1], y), ink, title)
            for end in ends:
                canvas.line((end, y - 5), (end, y + 5), ink)
        canvas.mark(scale.place(row.value), y, row.series, title, row.href)
    return _finish(
        frame,
        canvas,
        ("", "estimate", "low", "high", "note"),
        [(row.label, row.value, row.low, row.high, row.note) for row in rows],
    )


def _describe(row: IntervalRow, show: Show) -> str:
    assert not isinstance(row.value, NotComputable)
    words = show(row.value)
    if row.low is not None and row.high is not None:
        words += f", {show(row.low)} to {show(row.high)}"
    return f"{words}; {row.note}" if row.note else words


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """One line."""

    label: str
    points: tuple[tuple[float, float], ...]
    band: tuple[tuple[float, float, float], ...] = ()
    """x, low, high."""


def draw_curves(
    frame: Frame,
    curves: Sequence[Curve],
    *,
    is_step: bool = False,
    around_x: Sequence[float] = (),
    around_y: Sequence[float] = (0.0, 1.0),
    lines: Sequence[tuple[float, str]] = (),
) -> Figure:
    """Curves with bands: cumulative incidence, power, a projection.

    Args:
        frame: Names and labels.
        curves: In the order of the legend.
        is_step: Whether a value holds until the next one.
        around_x: Values that the horizontal axis must show.
        around_y: The same for the vertical one.
        lines: Horizontal lines with their names.
    """
    laid = lay_legend([curve.label for curve in curves], _WIDTH, 58.0)
    depth = (laid[-1][1] + 1) * LINE if laid else 0
    left, right, top, bottom = 62.0, _WIDTH - 12, 14.0, 280.0
    x_values = [x for curve in curves for x, _ in curve.points]
    y_values = [y for curve in curves for _, y in curve.points]
    y_values += [value for curve in curves for _, low, high in curve.band for value in (low, high)]
    x_scale = fit_scale(x_values, start=left, end=right, around=around_x)
    y_scale = fit_scale(y_values, start=bottom, end=top, around=(*around_y, *(value for value, _ in lines)))
    canvas = Canvas(frame.name, _WIDTH, bottom + 50 + depth)
    draw_x_axis(canvas, x_scale, bottom, top, frame.x_label, frame.show_x)
    draw_y_axis(canvas, y_scale, left, right, frame.y_label, frame.show_y)
    for value, words in lines:
        y = y_scale.place(value)
        canvas.line((left, y), (right, y), "zero d2", words)
        canvas.text(right - 4, y - 5, words, anchor="end", css="soft")
    for number, curve in enumerate(curves):
        if curve.band:
            upper = [(x_scale.place(x), y_scale.place(high)) for x, _, high in curve.band]
            lower = [(x_scale.place(x), y_scale.place(low)) for x, low, _ in curve.band]
            both = (_step(upper) if is_step else upper) + (_step(lower) if is_step else lower)[::-1]
            canvas.path(both, f"shade fill k{number % SERIES}", closed=True)
        points = [(x_scale.place(x), y_scale.place(y)) for x, y in curve.points]
        css = f"curve ink k{number % SERIES} {dash(number)}"
        canvas.path(_step(points) if is_step else points, css, curve.label)
    draw_legend(canvas, laid, bottom + 54, is_line=True)
    rows: list[tuple[Cell, ...]] = []
    for curve in curves:
        bands = {x: (low, high) for x, low, high in curve.band}
        rows += [(curve.label, x, y, *bands.get(x, (None, None))) for x, y in curve.points]
    return _finish(frame, canvas, ("", frame.x_label, frame.y_label, "low", "high"), rows)


def _step(points: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The same points with a corner before each step."""
    found = list(points[:1])
    for x, y in points[1:]:
        found += [(x, found[-1][1]), (x, y)]
    return found


class PlotPoint(msgspec.Struct, frozen=True, kw_only=True):
    """One point with its intervals."""

    label: str
    x: float
    y: float
    x_range: tuple[float, float] | None = None
    y_range: tuple[float, float] | None = None
    href: str = ""


def draw_frontier(frame: Frame, points: Sequence[PlotPoint], *, has_frontier: bool = True) -> Figure:
    """Points with their names; those that no other point beats (cheaper and better) are joined."""
    left, right, top, bottom = 62.0, _WIDTH - 12, 14.0, 300.0
    x_values = [value for point in points for value in (point.x, *(point.x_range or ()))]
    y_values = [value for point in points for value in (point.y, *(point.y_range or ()))]
    x_scale = fit_scale(x_values, start=left, end=right, around=(0.0,))
    y_scale = fit_scale(y_values, start=bottom, end=top, around=(0.0, 1.0))
    canvas = Canvas(frame.name, _WIDTH, bottom + 46)
    draw_x_axis(canvas, x_scale, bottom, top, frame.x_label, frame.show_x)
    draw_y_axis(canvas, y_scale, left, right, frame.y_label, frame.show_y)
    best = _find_frontier(points) if has_frontier else []
    canvas.path(
        [(x_scale.place(p.x), y_scale.place(p.y)) for p in best], "zero d1", "not beaten by any other"
    )
    for number, point in enumerate(points):
        x, y = x_scale.place(point.x), y_scale.place(point.y)
        ink = f"ink k{number % SERIES}"
        if point.x_range is not None:
            canvas.line((x_scale.place(point.x_range[0]), y), (x_scale.place(point.x_range[1]), y), ink)
        if point.y_range is not None:
            canvas.line((x, y_scale.place(point.y_range[0])), (x, y_scale.place(point.y_range[1])), ink)
        title = f"{point.label}: {frame.show_x(point.x)}, {frame.show_y(point.y)}"
        canvas.mark(x, y, number, title, point.href)
        is_right = x > (left + right) / 2
        name = cut(point.label, (right - left) / 2 - 20)
        canvas.text(x + (-9 if is_right else 9), y - 7, name, anchor="end" if is_right else "start")
    columns = ("", frame.x_label, "low", "high", frame.y_label, "low", "high", "on the frontier")
    return _finish(
        frame,
        canvas,
        columns,
        [
            (
                p.label,
                p.x,
                *(p.x_range or (None, None)),
                p.y,
                *(p.y_range or (None, None)),
                "yes" if p in best else "no",
            )
            for p in points
        ],
    )


def _find_frontier(points: Sequence[PlotPoint]) -> list[PlotPoint]:
    found: list[PlotPoint] = []
    highest = -math.inf
    for point in sorted(points, key=lambda p: (p.x, -p.y)):
        if point.y > highest:
            found.append(point)
            highest = point.y
    return found


def _finish(
    frame: Frame, canvas: Canvas, columns: tuple[str, ...], rows: Sequence[tuple[Cell, ...]]
) -> Figure:
    return Figure(
        name=frame.name,
        title=frame.title,
        words=frame.words,
        svg=canvas.render(),
        columns=columns,
        rows=tuple(rows),
    )
