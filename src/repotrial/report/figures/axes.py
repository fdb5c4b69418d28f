"""Scales, axes and legends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from repotrial.report.figures.canvas import SERIES, Canvas, cut, measure

Show: TypeAlias = Callable[[float], str]
"""A value as text."""
_STEPS: Final = (1, 2, 2.5, 5, 10)
LINE: Final = 18
"""Height of a line of text."""


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """From values to pixels."""

    low: float
    high: float
    start: float
    """Where `low` lies."""
    end: float

    def place(self, value: float) -> float:
        """Where a value lies, within the axis."""
        share = (value - self.low) / (self.high - self.low)
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def list_ticks(self, most: int = 6) -> list[float]:
        """Round values within the axis."""
        width = self.high - self.low
        rough = width / max(1, most)
        power = 10 ** math.floor(math.log10(rough))
        step = next(power * each for each in _STEPS if power * each >= rough * (1 - 1e-9))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(number * step, 12) for number in range(first, last + 1)]


def fit_scale(values: Sequence[float], *, start: float, end: float, around: Sequence[float] = ()) -> Scale:
    """A scale that holds all finite values and those that must be on it, with a little room."""
    known = [value for value in (*values, *around) if math.isfinite(value)] or [0.0, 1.0]
    low, high = min(known), max(known)
    if low == high:
        low, high = (low, low + 1) if low >= 0 and 0 in around else (low - 0.5, high + 0.5)
    room = (high - low) * 0.04
    is_zero_based = low >= 0 and 0 in around
    return Scale(low=0.0 if is_zero_based else low - room, high=high + room, start=start, end=end)


def show_number(value: float) -> str:
    """A tick as people write it."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6:  # noqa: PLR2004 - a million
        return f"{value / 1e6:g}M"
    return f"{value:,.6g}"


def show_share(value: float) -> str:
    """A share in per cent."""
    return f"{round(value * 100, 1):g} %"


def show_points(value: float) -> str:
    """A difference of shares in percentage points."""
    return f"{round(value * 100, 1):+g}" if value else "0"


def draw_x_axis(
    canvas: Canvas, scale: Scale, y: float, top: float, label: str, show: Show = show_number
) -> None:
    """Ticks below, grid lines up to `top`, and the label under them."""
    for tick in scale.list_ticks():
        x = scale.place(tick)
        canvas.line((x, y), (x, top), "grid-line")
        canvas.text(x, y + 15, show(tick), anchor="middle", css="soft")
    canvas.line((scale.start, y), (scale.end, y), "axis")
    canvas.text((scale.start + scale.end) / 2, y + 33, label, anchor="middle")


def draw_y_axis(
    canvas: Canvas, scale: Scale, x: float, right: float, label: str, show: Show = show_number
) -> None:
    """Ticks to the left, grid lines to the right, and the label turned."""
    for tick in scale.list_ticks(5):
        y = scale.place(tick)
        canvas.line((x, y), (right, y), "grid-line")
        canvas.text(x - 6, y + 4, show(tick), anchor="end", css="soft")
    canvas.line((x, scale.start), (x, scale.end), "axis")
    canvas.text(14, (scale.start + scale.end) / 2, label, anchor="middle", turn=True)


def lay_legend(names: Sequence[str], width: float, left: float) -> list[tuple[float, int, str]]:
    """For each name where it begins and in which line, and the text as it fits."""
    found, x, line = [], left, 0
    for name in names:
        shown = cut(name, min(260.0, width - left - 30))
        needed = measure(shown) + 38
        if x > left and x + needed > width:
            x, line = left, line + 1
        found.append((x, line, shown))
        x += needed
    return found


def draw_legend(canvas: Canvas, laid: Sequence[tuple[float, int, str]], top: float, *, is_line: bool) -> None:
    """A sample of each series with its name."""
    for number, (x, line, name) in enumerate(laid):
        y = top + line * LINE
        if is_line:
            canvas.line((x, y - 4), (x + 22, y - 4), f"curve ink k{number % SERIES} {dash(number)}")
        else:
            canvas.rect((x + 4, y - 11), (14, 12), canvas.fill(number))
        canvas.text(x + 27, y, name)


def dash(series: int) -> str:
    """The dash of a series: no two of the first 24 have both color and dash in common."""
    return f"d{(series + series // SERIES) % 4}"
