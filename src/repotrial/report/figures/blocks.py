"""Figures of areas: stacked bars, a heat map, the flow of runs, a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.report.figures.axes import LINE, Scale, draw_legend, draw_x_axis, fit_scale, lay_legend
from repotrial.report.figures.canvas import SERIES, Canvas, Cell, Figure, cut, measure
from repotrial.report.figures.plots import Frame

_WIDTH: Final = 640.0
_ROW: Final = 28.0
_NAMES: Final = 220.0
_MOST_ROWS: Final = 400
"""Of a heat map; the table has all."""


def draw_bars(frame: Frame, parts: Sequence[str], rows: Sequence[tuple[str, Sequence[float]]]) -> Figure:
    """Stacked bars, one for each row; each part has a color and a pattern."""
    left = min(_NAMES, max((measure(label) for label, _ in rows), default=40.0)) + 14
    totals = [sum(values) for _, values in rows]
    top, bottom = 8.0, 16.0 + _ROW * max(1, len(rows))
    scale = fit_scale(totals, start=left, end=_WIDTH - 70, around=(0.0,))
    laid = lay_legend(parts, _WIDTH, 10.0)
    depth = (laid[-1][1] + 1) * LINE if laid else 0
    canvas = Canvas(frame.name, _WIDTH, bottom + 50 + depth)
    draw_x_axis(canvas, scale, bottom, top, frame.x_label, frame.show_x)
    for number, (label, values) in enumerate(rows):
        y = top + 4 + _ROW * number
        canvas.text(left - 8, y + 16, cut(label, _NAMES), anchor="end")
        done = 0.0
        for part, value in enumerate(values):
            first, last = scale.place(done), scale.place(done + value)
            done += value
            if value > 0:
                title = f"{label}, {parts[part]}: {frame.show_x(value)}"
                canvas.rect((first, y), (last - first, _ROW - 8), canvas.fill(part), title)
        canvas.text(scale.place(done) + 6, y + 15, frame.show_x(done), css="soft")
    draw_legend(canvas, laid, bottom + 54, is_line=False)
    return Figure(
        name=frame.name,
        title=frame.title,
        words=frame.words,
        svg=canvas.render(),
        columns=("", *parts, "all"),
        rows=tuple((label, *values, total) for (label, values), total in zip(rows, totals, strict=True)),
    )


class HeatCell(msgspec.Struct, frozen=True, kw_only=True):
    """One task under one arm."""

    share: float | NotComputable
    """From 0 to 1."""
    words: str
    """`2 of 3`; also in the cell where there is room."""
    href: str = ""


def draw_heat_map(
    frame: Frame, columns: Sequence[str], rows: Sequence[tuple[str, Sequence[HeatCell | None]]]
) -> Figure:
    """Rows by columns; a cell is the darker the higher its share, and says it in words."""
    shown = rows[:_MOST_ROWS]
    left = min(_NAMES, max((measure(label) for label, _ in shown), default=40.0)) + 14
    width = (_WIDTH - left - 6) / max(1, len(columns))
    high = 22.0 if len(shown) <= 80 else 8.0  # noqa: PLR2004 - more rows than that fill several screens
    head = 24.0 if width >= 60 else 110.0  # noqa: PLR2004 - names stand upright in narrow columns
    canvas = Canvas(frame.name, _WIDTH, head + high * max(1, len(shown)) + 10)
    for number, name in enumerate(columns):
        x = left + width * (number + 0.5)
        if head < 100:  # noqa: PLR2004 - see above
            canvas.text(x, head - 8, cut(name, width - 4), anchor="middle")
        else:
            canvas.text(x + 4, head - 6, cut(name, head - 10), turn=True)
    for number, (label, cells) in enumerate(shown):
        y = head + high * number
        if high > 10:  # noqa: PLR2004 - the height of a letter
            canvas.text(left - 8, y + 15, cut(label, _NAMES), anchor="end")
        for place, cell in enumerate(cells):
            _draw_cell(
                canvas, (left + width * place, y), (width - 2, high - 2), cell, f"{label}, {columns[place]}"
            )
    return Figure(
        name=frame.name,
        title=frame.title,
        words=frame.words,
        svg=canvas.render(),
        columns=("", *columns),
        rows=tuple((label, *("not run" if c is None else c.words for c in cells)) for label, cells in rows),
        is_wide=True,
    )


def _draw_cell(
    canvas: Canvas, corner: tuple[float, float], size: tuple[float, float], cell: HeatCell | None, where: str
) -> None:
    if cell is None:
        canvas.rect(corner, size, "box d2", f"{where}: not run")
        return
    title = f"{where}: {cell.words}"
    if isinstance(cell.share, NotComputable):
        canvas.rect(corner, size, "box d1", f"{title} (not computable: {cell.share.reason})", cell.href)
    else:
        canvas.rect(corner, size, "box bar", title, cell.href)
        if cell.share > 0:
            inner = (size[0] * cell.share, size[1])
            canvas.rect(corner, inner, "k0 fill heat", title, cell.href)
    if size[0] >= measure(cell.words) + 6 and size[1] > 14:  # noqa: PLR2004 - the height of a letter
        x, y = corner[0] + size[0] - 4, corner[1] + size[1] - 6
        canvas.text(x, y, cell.words, anchor="end")


class FlowStep(msgspec.Struct, frozen=True, kw_only=True):
    """One box of a flow, and what leaves there."""

    words: str
    count: int
    leaving: tuple[tuple[str, int], ...] = ()
    """Why and how many do not reach the next box."""


def draw_flow(frame: Frame, steps: Sequence[FlowStep]) -> Figure:
    """Boxes from top to bottom; beside each arrow what was left out, with the reason."""
    box, gap = 46.0, 26.0
    heights = [max(gap, LINE * len(step.leaving) + 14) for step in steps]
    canvas = Canvas(frame.name, _WIDTH, sum(heights) + box * len(steps) + 10)
    y, middle, width = 6.0, 170.0, 300.0
    for number, (step, room) in enumerate(zip(steps, heights, strict=True)):
        canvas.rect((middle - width / 2, y), (width, box), "box", f"{step.words}: {step.count}")
        canvas.text(middle, y + 19, cut(step.words, width - 12), anchor="middle")
        canvas.text(middle, y + 37, f"n = {step.count:,}", anchor="middle", css="soft")
        y += box
        if number + 1 < len(steps):
            canvas.line((middle, y), (middle, y + room), "axis")
            canvas.path([(middle - 4, y + room - 6), (middle, y + room), (middle + 4, y + room - 6)], "axis")
        for line, (why, count) in enumerate(step.leaving):
            place = y + 16 + LINE * line
            canvas.line((middle, place - 4), (middle + 40, place - 4), "axis")
            canvas.text(middle + 46, place, cut(f"{why}: {count:,}", _WIDTH - middle - 56))
        y += room
    rows: list[tuple[Cell, ...]] = []
    for step in steps:
        rows.append((step.words, step.count, None))
        rows += [(step.words, count, why) for why, count in step.leaving]
    return Figure(
        name=frame.name,
        title=frame.title,
        words=frame.words,
        svg=canvas.render(),
        columns=("step", "n", "left out: why"),
        rows=tuple(rows),
    )


class TimeSpan(msgspec.Struct, frozen=True, kw_only=True):
    """Something with a beginning and an end."""

    start: float
    end: float
    words: str
    series: int = 0
    href: str = ""


def draw_timeline(frame: Frame, rows: Sequence[tuple[str, Sequence[TimeSpan]]]) -> Figure:
    """Spans over time, one row for each actor."""
    left = min(_NAMES, max((measure(label) for label, _ in rows), default=40.0)) + 14
    top, bottom = 8.0, 14.0 + _ROW * max(1, len(rows))
    ends = [value for _, spans in rows for span in spans for value in (span.start, span.end)]
    fitted = fit_scale(ends, start=left, end=_WIDTH - 10, around=(0.0,))
    scale = Scale(low=0.0, high=max(fitted.high, 1e-9), start=left, end=_WIDTH - 10)
    canvas = Canvas(frame.name, _WIDTH, bottom + 44)
    draw_x_axis(canvas, scale, bottom, top, frame.x_label, frame.show_x)
    for number, (label, spans) in enumerate(rows):
        y = top + 4 + _ROW * number
        canvas.text(left - 8, y + 15, cut(label, _NAMES), anchor="end")
        for span in spans:
            first, last = scale.place(span.start), scale.place(span.end)
            css = f"k{span.series % SERIES} fill" if last - first < 3 else canvas.fill(span.series)  # noqa: PLR2004 - too thin for a pattern
            canvas.rect((first, y), (max(1.2, last - first), _ROW - 10), css, span.words, span.href)
    return Figure(
        name=frame.name,
        title=frame.title,
        words=frame.words,
        svg=canvas.render(),
        columns=("", "start", "end", "what"),
        rows=tuple((label, span.start, span.end, span.words) for label, spans in rows for span in spans),
        is_wide=True,
    )
