"""Figures of a retrieval report, each with the numbers and files behind it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.display import neutralize
from repotrial.report.figures.axes import show_number
from repotrial.report.figures.blocks import draw_bars
from repotrial.report.figures.canvas import Figure
from repotrial.report.figures.plots import Curve, Frame, IntervalRow, draw_curves, draw_intervals
from repotrial.retrieval import MatchedComparison, RetrievalReport, TrialRow

_CUTOFFS: Final = ("1", "3", "5", "10")
_LONGEST_NAME: Final = 40
_MOST_TASKS: Final = 60
_MOST_RANKS: Final = 50
_MOST_STEPS: Final = 400
_SHIFTED: Final = ("file_recall", "reward")


def draw_figures(report: RetrievalReport) -> tuple[Figure, ...]:
    """Every figure that there are data for."""
    found = [figure for make in (_draw_ranks, _draw_recall, _draw_tradeoff) if (figure := make(report))]
    found += _draw_spending(report)
    for number, pair in enumerate(report.comparison.matched, start=1):
        found += _draw_deltas(report, pair, number)
    return tuple(found)


def _draw_ranks(report: RetrievalReport) -> Figure | None:
    rows = [row for row in report.trials if row.reason is None and not isinstance(row.progress, Unknown)]
    if not rows:
        return None
    names = _list_configurations(report, rows)
    ranks = {name: [_rank(row) for row in rows if row.config_name == name] for name in names}
    last = min(_MOST_RANKS, max((r for found in ranks.values() for r in found if r is not None), default=1))
    curves = [
        Curve(
            label=_label(name, len(found)),
            points=tuple(
                (float(place), sum(1 for r in found if r is not None and r <= place) / len(found))
                for place in range(last + 2)
            ),
        )
        for name, found in ranks.items()
    ]
    said = [
        f"{_short(name)}: {_share_at(found, 1)} at the first file, {_share_at(found, 5)} within five, "
        f"{_share_at(found, None)} at all"
        for name, found in ranks.items()
    ]
    frame = Frame(
        name="first-hit",
        title="Rank of the first hit",
        words="Share of trials that have met a file that matters, by how many files they had met. "
        + "; ".join(said)
        + ".",
        x_label="files met until the first one that matters",
        y_label="share of trials",
    )
    return _source(draw_curves(frame, curves, is_step=True, around_x=(0.0,)), _list_events(rows))


def _rank(row: TrialRow) -> int | None:
    return None if isinstance(row.progress, Unknown) else row.progress.first_hit_rank


def _share_at(ranks: Sequence[int | None], most: int | None) -> str:
    hits = sum(1 for rank in ranks if rank is not None and (most is None or rank <= most))
    return f"{hits} of {len(ranks)}"


def _draw_recall(report: RetrievalReport) -> Figure | None:
    rows = [row for row in report.trials if not isinstance(row.progress, Unknown) and row.progress.recall]
    if not rows:
        return None
    names = _list_configurations(report, rows)
    last = max(row.progress.n_events for row in rows if not isinstance(row.progress, Unknown))
    steps = sorted({round(place * (last + 1) / _MOST_STEPS) for place in range(_MOST_STEPS + 1)})
    means = {
        name: _average([_follow(row, steps) for row in rows if row.config_name == name]) for name in names
    }
    counts = {name: sum(1 for row in rows if row.config_name == name) for name in names}
    curves = [
        Curve(label=_label(name, counts[name]), points=tuple(zip(map(float, steps), values, strict=True)))
        for name, values in means.items()
    ]
    ends = "; ".join(f"{_short(name)} ends at {values[-1]:.2f}" for name, values in means.items())
    frame = Frame(
        name="recall",
        title="Recall over steps",
        words=f"Mean share of the files that matter that trials had met after each event. {ends}.",
        x_label="retrieval events so far",
        y_label="mean recall of files that matter",
    )
    return _source(draw_curves(frame, curves, is_step=True, around_x=(0.0,)), _list_events(rows))


def _follow(row: TrialRow, steps: Sequence[int]) -> list[float]:
    """Recall after each of these numbers of events; a trial that has ended keeps what it found."""
    assert not isinstance(row.progress, Unknown)
    places = [place for place, _ in row.progress.recall]
    shares = [0.0, *(share for _, share in row.progress.recall)]
    return [shares[bisect_right(places, step)] for step in steps]


def _average(curves: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(column) for column in zip(*curves, strict=True)]


def _draw_tradeoff(report: RetrievalReport) -> Figure | None:
    points: dict[str, list[tuple[str, float, float]]] = {}
    for figures in report.configurations:
        means = {f.name: f.mean.value for f in figures.quality if not isinstance(f.mean, NotComputable)}
        found = [
            (k, means[f"recall@{k}"], means[f"precision@{k}"]) for k in _CUTOFFS if f"recall@{k}" in means
        ]
        if found:
            points[figures.config_name] = found
    if not points:
        return None
    curves = [
        Curve(label=_short(name), points=tuple((recall, precision) for _, recall, precision in found))
        for name, found in points.items()
    ]
    said = [
        f"{_short(name)}: "
        + ", ".join(f"at {k} recall {recall:.2f} and precision {precision:.2f}" for k, recall, precision in f)
        for name, f in points.items()
    ]
    frame = Frame(
        name="tradeoff",
        title="Precision and recall by configuration",
        words="Each line goes through the means at 1, 3, 5 and 10 files. " + "; ".join(said) + ".",
        x_label="mean recall at K",
        y_label="mean precision at K",
    )
    figure = draw_curves(frame, curves, around_x=(0.0, 1.0))
    sources = [(row.artefact.file, row.artefact.digest) for row in report.trials if row.reason is None]
    return _source(figure, sources)


def _draw_spending(report: RetrievalReport) -> list[Figure]:
    rows = [row for row in report.trials if row.reason is None and not isinstance(row.progress, Unknown)]
    found = []
    for unit in ("seconds", "tokens"):
        bars = []
        for config in _list_configurations(report, rows):
            parts = [p for row in rows if row.config_name == config and (p := _split(row, unit)) is not None]
            if parts:
                bars.append((_label(config, len(parts)), _average(parts)))
        if not bars:
            continue
        said = [
            f"{label}: {before:.0f} {unit} before, {after:.0f} after, {never:.0f} in trials without one"
            for label, (before, after, never) in bars
        ]
        frame = Frame(
            name=f"spending-{unit}",
            title=f"Where {'time' if unit == 'seconds' else 'tokens'} went",
            words="Means over trials up to their last event, before and after the first file that matters. "
            + "; ".join(said)
            + ".",
            x_label=f"mean {unit} of a trial",
            show_x=lambda value: show_number(round(value)),
        )
        parts_of = ("before the first hit", "after it", "in trials without a hit")
        found.append(_source(draw_bars(frame, parts_of, bars), _list_events(rows)))
    return found


def _split(row: TrialRow, unit: str) -> tuple[float, float, float] | None:
    """Before the first file that matters, after it, and all of a trial that never met one."""
    assert not isinstance(row.progress, Unknown)
    total = row.progress.total_seconds if unit == "seconds" else row.progress.total_tokens
    if isinstance(total, Unknown):
        return None
    if row.progress.first_hit_rank is None:
        return (0.0, 0.0, float(total))
    before = row.values.get(f"ttfr_{unit}")
    return None if before is None else (before, max(0.0, total - before), 0.0)


def _draw_deltas(report: RetrievalReport, pair: MatchedComparison, number: int) -> list[Figure]:
    if isinstance(pair.deltas, NotComputable):
        return []
    matched = {(task.group, task.task) for task in pair.tasks}
    sources = [
        (row.artefact.file, row.artefact.digest)
        for row in report.trials
        if row.config_name in {pair.baseline, pair.treatment} and (row.group, row.task) in matched
    ]
    found = []
    for delta in pair.deltas:
        values = _list_deltas(pair, delta.quantity)
        if delta.quantity not in _SHIFTED or not values:
            continue
        shown = [IntervalRow(label=_short(name, 32), value=value) for name, value in values[:_MOST_TASKS]]
        shift = delta.shift
        if not isinstance(shift, NotComputable):
            interval = None if isinstance(shift.mean.interval, NotComputable) else shift.mean.interval
            mean = IntervalRow(
                label="mean of all tasks",
                value=shift.mean.value,
                low=None if interval is None else interval.low,
                high=None if interval is None else interval.high,
                note=f"n = {len(values)}",
                series=1,
            )
            shown.insert(0, mean)
        note = f"; the {_MOST_TASKS} lowest are drawn" if len(values) > _MOST_TASKS else ""
        higher, lower = sum(1 for _, v in values if v > 0), sum(1 for _, v in values if v < 0)
        frame = Frame(
            name=f"deltas-{number}-{delta.quantity.replace('_', '-')}",
            title=f"{delta.quantity}: {_short(pair.treatment)} less {_short(pair.baseline)}",
            words="One mark for each task that was matched in a run; the first row is the mean with its "
            f"interval. Higher for {higher}, lower for {lower}, equal for {len(values) - higher - lower} of "
            f"{len(values)}{note}.",
            x_label=f"difference of {delta.quantity}",
        )
        found.append(_source(draw_intervals(frame, shown, zero=0.0), sources))
    return found


def _list_deltas(pair: MatchedComparison, quantity: str) -> list[tuple[str, float]]:
    found = [(task.task, task.deltas[quantity]) for task in pair.tasks if quantity in task.deltas]
    return sorted(found, key=lambda item: (item[1], item[0]))


def _source(figure: Figure, sources: Sequence[tuple[str, str]]) -> Figure:
    return msgspec.structs.replace(figure, sources=tuple(sources))


def _list_configurations(report: RetrievalReport, rows: Sequence[TrialRow]) -> list[str]:
    present = {row.config_name for row in rows}
    return [item.config_name for item in report.coverage if item.config_name in present]


def _list_events(rows: Sequence[TrialRow]) -> list[tuple[str, str]]:
    return [(row.progress.file, row.progress.digest) for row in rows if not isinstance(row.progress, Unknown)]


def _label(name: str, count: int) -> str:
    return f"{_short(name)} (n = {count})"


def _short(name: str, most: int = _LONGEST_NAME) -> str:
    return neutralize(name, max_characters=most)
