"""Figures: every mark says what it is, numbers stand beside them, hostile names stay text."""

from __future__ import annotations

import csv
import io
import re
from xml.etree import ElementTree as ET

import pytest

from repotrial._core.absence import NotComputable
from repotrial.report.figures.axes import Scale, dash, fit_scale, show_share
from repotrial.report.figures.blocks import (
    FlowStep,
    HeatCell,
    TimeSpan,
    draw_bars,
    draw_flow,
    draw_heat_map,
    draw_timeline,
)
from repotrial.report.figures.canvas import SERIES, Figure
from repotrial.report.figures.plots import (
    Curve,
    Frame,
    IntervalRow,
    PlotPoint,
    draw_curves,
    draw_frontier,
    draw_intervals,
)

HOSTILE = "<script>alert(1)</script>\u202e=1+1\x1b[31m" + "x" * 300


def _frame(name: str = "f") -> Frame:
    return Frame(name=name, title=HOSTILE, words=HOSTILE, x_label="x (s)", y_label="share", show_y=show_share)


def _draw_all(label: str) -> list[Figure]:
    absent = IntervalRow(label=label, value=NotComputable("no runs"))
    return [
        draw_intervals(
            _frame("intervals"),
            [IntervalRow(label=label, value=0.1, low=-0.1, high=0.3, note="n = 3"), absent],
            zero=0.0,
            band=(-0.05, 0.05),
        ),
        draw_curves(
            _frame("curves"),
            [Curve(label=label, points=((0, 0), (1, 0.5)), band=((0, 0, 0.1), (1, 0.4, 0.6)))],
            is_step=True,
            lines=((0.8, label),),
        ),
        draw_frontier(
            _frame("frontier"), [PlotPoint(label=label, x=2, y=0.4, x_range=(1, 3), y_range=(0.2, 0.5))]
        ),
        draw_bars(_frame("bars"), [label, "b"], [(label, [1.0, 2.0])]),
        draw_heat_map(_frame("heat"), [label, "b"], [(label, [HeatCell(share=0.5, words=label), None])]),
        draw_flow(
            _frame("flow"),
            [FlowStep(words=label, count=3, leaving=((label, 1),)), FlowStep(words="b", count=2)],
        ),
        draw_timeline(_frame("time"), [(label, [TimeSpan(start=0, end=2, words=label)])]),
    ]


@pytest.mark.parametrize("figure", _draw_all(HOSTILE), ids=lambda figure: figure.name)
def test_hostile_names_stay_text(figure: Figure) -> None:
    text = figure.to_file()
    root = ET.fromstring(text)
    assert {element.tag.rpartition("}")[2] for element in root.iter()}.isdisjoint(
        {"script", "foreignObject", "image"}
    )
    assert "\u202e" not in text
    assert "\x1b" not in text
    rows = list(csv.reader(io.StringIO(figure.to_csv())))
    assert not any(cell.startswith("=") for row in rows for cell in row)


@pytest.mark.parametrize("figure", _draw_all("arm"), ids=lambda figure: figure.name)
def test_marks_have_titles_and_numbers_stand_in_a_table(figure: Figure) -> None:
    assert figure.svg.count("<title>") >= 1
    assert f'aria-labelledby="{figure.name}-title {figure.name}-words"' in figure.svg
    assert figure.rows
    assert all(len(row) == len(figure.columns) for row in figure.rows)
    ids = re.findall(r'id="([^"]+)"', figure.svg)
    assert all(each.startswith(figure.name) for each in ids), "two figures of a page share no id"


def test_what_is_not_computable_is_said_and_never_drawn_at_zero() -> None:
    row = IntervalRow(label="a", value=NotComputable("no successes"))
    figure = draw_intervals(_frame(), [row], zero=0.0)
    assert "not computable: no successes" in figure.svg
    assert "circle" not in figure.svg
    assert "not computable (no successes)" in figure.to_csv()


def test_the_frontier_has_what_no_other_point_beats() -> None:
    points = [
        PlotPoint(label=label, x=x, y=y)
        for label, x, y in (("cheap", 1, 0.2), ("beaten", 3, 0.1), ("good", 4, 0.9), ("same", 4, 0.5))
    ]
    figure = draw_frontier(_frame(), points)
    assert {row[0]: row[-1] for row in figure.rows} == {
        "cheap": "yes",
        "beaten": "no",
        "good": "yes",
        "same": "no",
    }


@pytest.mark.parametrize("values", [[], [3.0], [0.0, 0.0], [-1e-9, 1e9], [float("inf"), 1.0]])
def test_any_values_have_a_scale_with_ticks(values: list[float]) -> None:
    scale = fit_scale(values, start=0, end=100)
    ticks = scale.list_ticks()
    assert 1 <= len(ticks) <= 12
    assert all(0 <= scale.place(tick) <= 100 for tick in ticks)


def test_a_value_lies_where_its_axis_says() -> None:
    scale = Scale(low=0, high=10, start=100, end=200)
    assert [scale.place(value) for value in (0, 5, 10, 99)] == [100, 150, 200, 200]


def test_two_dozen_series_never_look_alike() -> None:
    looks = {(number % SERIES, dash(number)) for number in range(24)}
    assert len(looks) == 24


def test_an_empty_figure_is_still_one() -> None:
    for figure in (
        draw_intervals(_frame(), []),
        draw_bars(_frame(), [], []),
        draw_heat_map(_frame(), [], []),
    ):
        ET.fromstring(figure.to_file())


def test_the_same_numbers_give_the_same_drawing() -> None:
    assert _draw_all("a") == _draw_all("a")
