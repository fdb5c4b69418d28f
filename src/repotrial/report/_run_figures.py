"""Figures of one run: who was at work when, what it cost by then, what its sandbox used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from repotrial.report._record import Record, Span
from repotrial.report.figures.blocks import TimeSpan, draw_timeline
from repotrial.report.figures.canvas import Figure
from repotrial.report.figures.plots import Curve, Frame, draw_curves

_US_PER_SECOND: Final = 1_000_000
_MOST_POINTS: Final = 200
_MEBIBYTE: Final = 1024 * 1024


def draw_run_figures(record: Record, *, head: str, is_shared: bool) -> list[Figure]:
    """Those that the record has numbers for, each with the hash of the trace that they come from.

    Args:
        record: What the trace holds.
        head: Hash of the last verified event.
        is_shared: Whether names that an agent chose are left out.
    """
    drawn = [_draw_actors(record, is_shared=is_shared)]
    if record.spend:
        drawn.append(_draw_spend(record))
    if record.samples:
        drawn += [_draw_processor(record), _draw_memory(record)]
    used = (("trace.jsonl (hash of the last verified event)", head),)
    return [msgspec.structs.replace(figure, sources=used) for figure in drawn if figure is not None]


def _draw_actors(record: Record, *, is_shared: bool) -> Figure | None:
    actors: tuple[tuple[str, Sequence[Span]], ...] = (
        ("phase", record.phases),
        ("stage", record.stages),
        ("model", record.answers),
        ("tools", record.calls or record.tools),
        ("checks", record.executions),
        ("alerts", record.alerts),
    )
    rows = [
        (name, [_build_span(span, number, is_shared=is_shared) for span in spans])
        for number, (name, spans) in enumerate(actors)
        if spans
    ]
    if not rows:
        return None
    waited, worked = (
        sum(span.end_us - span.start_us for span in spans) / _US_PER_SECOND
        for spans in (record.answers, record.calls)
    )
    total = record.total_us / _US_PER_SECOND
    if record.answers:
        title = f"Models took {waited:.3g} s and tools {worked:.3g} s of {total:.3g} s"
    else:
        title = f"{len(record.executions)} executions of checks in {total:.3g} s"
    frame = Frame(
        name="actors",
        title=title,
        words="Who was at work when, one row for each actor: phases of the harness, stages of the agent's "
        "privileges, answers of models, calls of tools, executions of checks, alerts of monitors. Each mark "
        "says what it is.",
        x_label="seconds since the first event",
    )
    return draw_timeline(frame, rows)


def _build_span(span: Span, series: int, *, is_shared: bool) -> TimeSpan:
    start, end = (value / _US_PER_SECOND for value in (span.start_us, span.end_us))
    name = f"event {span.seq}" if is_shared else f"{span.name}, event {span.seq}"
    words = f"{name}: {start:.3g} s to {end:.3g} s" + (f", {span.word}" if span.word else "")
    return TimeSpan(start=round(start, 3), end=round(end, 3), words=words, series=series)


def _draw_spend(record: Record) -> Figure:
    spent = record.spend[-1][1]
    frame = Frame(
        name="spend",
        title=f"{spent:.4g} USD after {len(record.spend)} answers",
        words="Cost of models so far, answer by answer, by the price book that the run was bound to; "
        "notional where a script or a recording answered. A cap on it is a policy choice.",
        x_label="seconds since the first event",
        y_label="USD so far",
    )
    return _draw_steps(frame, "cost of models", record.spend)


def _draw_processor(record: Record) -> Figure:
    points = [(one.t_us, one.cpu_us / _US_PER_SECOND) for one in record.samples]
    frame = Frame(
        name="processor",
        title=f"The agent's sandbox used {points[-1][1]:.3g} s of processor time",
        words="Processor time of all programs in the agent's sandbox, by its meter.",
        x_label="seconds since acting began",
        y_label="processor time, s",
    )
    return _draw_steps(
        frame, "processor time", [(one.t_us, one.cpu_us / _US_PER_SECOND) for one in record.samples]
    )


def _draw_memory(record: Record) -> Figure:
    points = [(one.t_us, round(one.memory_bytes / _MEBIBYTE, 1)) for one in record.samples]
    most = max(value for _, value in points)
    limit = record.memory_limit
    words = "" if limit is None else f" of {limit / _MEBIBYTE:,.0f} MiB at most (a cap: policy choice)"
    frame = Frame(
        name="memory",
        title=f"Memory reached {most:,.0f} MiB{words}",
        words="Memory of all programs in the agent's sandbox, by its meter, at each reading. The limit is "
        "a cap, and a cap is a policy choice.",
        x_label="seconds since acting began",
        y_label="memory, MiB",
    )
    return _draw_steps(frame, "memory", points)


def _draw_steps(frame: Frame, label: str, points: Sequence[tuple[int, float]]) -> Figure:
    step = max(1, len(points) // _MOST_POINTS)
    kept = [*points[::step], points[-1]]
    drawn = tuple((round(at / _US_PER_SECOND, 3), value) for at, value in dict(kept).items())
    curve = Curve(label=label, points=((0.0, 0.0), *drawn))
    return draw_curves(frame, [curve], is_step=True, around_x=(0.0,), around_y=(0.0,))
