"""Figures of a retrieval report: each one inline SVG that says in words what it shows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.display import neutralize
from repotrial.report._svg import GRID, INK, draw
from repotrial.retrieval import Artefact, MatchedComparison, MatchedDelta, RetrievalReport, TrialRow

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

_COLORS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#b8860b")
"""Okabe and Ito's, which most people with a color deficiency can tell apart."""
_MARKERS: Final = ("o", "s", "^", "D", "v", "P")
_LINES: Final = ("-", "--", "-.", ":")
_CUTOFFS: Final = ("1", "3", "5", "10")
_LONGEST_NAME: Final = 40
_MOST_TASKS: Final = 60
_MOST_RANKS: Final = 50
_MOST_STEPS: Final = 400
_BELOW_ZERO: Final = -0.03
"""Where axes of shares begin: a curve that stays at zero would hide behind the axis itself."""
_SHIFTED: Final = ("file_recall", "reward")


class Picture(msgspec.Struct, frozen=True, kw_only=True):
    """One figure."""

    name: str
    """For anchors; unique in a report."""
    title: str
    """What it is about."""
    words: str
    """What it shows, for those who do not see it."""
    svg: str
    """The drawing; trusted, for we made it."""
    sources: tuple[Artefact, ...]
    """The files that it rests on."""
    is_wide: bool = False
    """Whether it needs the whole width of a page."""

    @property
    def digest(self) -> str:
        """Over the digests of all its files, in order."""
        return digest_bytes("\n".join(item.digest for item in self.sources).encode())


def draw_figures(report: RetrievalReport) -> tuple[Picture, ...]:
    """Every figure that there are data for."""
    makers = (_draw_ranks, _draw_recall, _draw_tradeoff, _draw_spending)
    found = [picture for make in makers if (picture := make(report)) is not None]
    deltas = (
        _draw_deltas(report, pair, number) for number, pair in enumerate(report.comparison.matched, start=1)
    )
    return (*found, *(picture for picture in deltas if picture is not None))


def _draw_ranks(report: RetrievalReport) -> Picture | None:
    rows = [row for row in report.trials if row.reason is None and not isinstance(row.progress, Unknown)]
    if not rows:
        return None
    names = _list_configurations(report, rows)
    ranks = {name: [_rank(row) for row in rows if row.config_name == name] for name in names}
    last = min(_MOST_RANKS, max((r for found in ranks.values() for r in found if r is not None), default=1))
    places = list(range(last + 2))

    def paint(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for number, name in enumerate(names):
            found = ranks[name]
            shares = [sum(1 for r in found if r is not None and r <= p) / len(found) for p in places]
            axes.step(places, shares, where="post", label=_label(name, len(found)), **_style(number))
        _set_shares(axes, "files met until the first one that matters", "share of trials")
        axes.set_xlim(0, last + 1)
        axes.locator_params(axis="x", integer=True)

    said = [
        f"{_short(name)}: {_share_at(found, 1)} at the first file, {_share_at(found, 5)} within five, "
        f"{_share_at(found, None)} at all"
        for name, found in ranks.items()
    ]
    return Picture(
        name="first-hit",
        title="Rank of the first hit",
        words="Share of trials that have met a file that matters, by how many files they had met. "
        + "; ".join(said)
        + ".",
        svg=draw("first-hit", paint, height=_find_height(len(names))),
        sources=_list_events(rows),
    )


def _rank(row: TrialRow) -> int | None:
    return None if isinstance(row.progress, Unknown) else row.progress.first_hit_rank


def _share_at(ranks: Sequence[int | None], most: int | None) -> str:
    hits = sum(1 for rank in ranks if rank is not None and (most is None or rank <= most))
    return f"{hits} of {len(ranks)}"


def _draw_recall(report: RetrievalReport) -> Picture | None:
    rows = [row for row in report.trials if not isinstance(row.progress, Unknown) and row.progress.recall]
    if not rows:
        return None
    names = _list_configurations(report, rows)
    last = max(row.progress.n_events for row in rows if not isinstance(row.progress, Unknown))
    steps = sorted({round(place * (last + 1) / _MOST_STEPS) for place in range(_MOST_STEPS + 1)})
    means = {
        name: _average([_follow(row, steps) for row in rows if row.config_name == name]) for name in names
    }

    def paint(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for number, name in enumerate(names):
            count = sum(1 for row in rows if row.config_name == name)
            axes.step(steps, means[name], where="post", label=_label(name, count), **_style(number))
        _set_shares(axes, "retrieval events so far", "mean recall of files that matter")
        axes.set_xlim(0, last + 1)
        axes.locator_params(axis="x", integer=True)

    ends = "; ".join(f"{_short(name)} ends at {values[-1]:.2f}" for name, values in means.items())
    return Picture(
        name="recall",
        title="Recall over steps",
        words=f"Mean share of the files that matter that trials had met after each event. {ends}.",
        svg=draw("recall", paint, height=_find_height(len(names))),
        sources=_list_events(rows),
    )


def _follow(row: TrialRow, steps: Sequence[int]) -> list[float]:
    """Recall after each of these numbers of events; a trial that has ended keeps what it found."""
    assert not isinstance(row.progress, Unknown)
    places = [place for place, _ in row.progress.recall]
    shares = [0.0, *(share for _, share in row.progress.recall)]
    return [shares[bisect_right(places, step)] for step in steps]


def _average(curves: Sequence[Sequence[float]]) -> list[float]:
    return [sum(column) / len(column) for column in zip(*curves, strict=True)]


def _draw_tradeoff(report: RetrievalReport) -> Picture | None:
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

    def paint(canvas: Canvas) -> None:
        axes = canvas.subplots()
        for number, (name, found) in enumerate(points.items()):
            marked = {**_style(number), "marker": _MARKERS[_turn(number) % len(_MARKERS)], "markersize": 6}
            axes.plot([r for _, r, _ in found], [p for _, _, p in found], label=_short(name), **marked)
        for place, cutoffs in _group_points(points.values()).items():
            words = ", ".join(f"@{k}" for k in cutoffs)
            axes.annotate(words, place, xytext=(5, 5), textcoords="offset points")
        _set_shares(axes, "mean recall at K", "mean precision at K")
        axes.set_xlim(_BELOW_ZERO, 1.12)

    said = [
        f"{_short(name)}: "
        + ", ".join(f"at {k} recall {recall:.2f} and precision {precision:.2f}" for k, recall, precision in f)
        for name, f in points.items()
    ]
    return Picture(
        name="tradeoff",
        title="Precision and recall by configuration",
        words="; ".join(said) + ".",
        svg=draw("tradeoff", paint, height=_find_height(len(points))),
        sources=tuple(row.artefact for row in report.trials if row.reason is None),
    )


def _group_points(
    curves: Iterable[Sequence[tuple[str, float, float]]],
) -> dict[tuple[float, float], list[str]]:
    """Cutoffs by place: one label for what lies on one spot, as far as an eye can tell."""
    grouped: dict[tuple[float, float], list[str]] = {}
    for k, recall, precision in (point for found in curves for point in found):
        names = grouped.setdefault((round(recall, 2), round(precision, 2)), [])
        if k not in names:
            names.append(k)
    return {place: sorted(names, key=int) for place, names in grouped.items()}


def _draw_spending(report: RetrievalReport) -> Picture | None:
    rows = [row for row in report.trials if row.reason is None and not isinstance(row.progress, Unknown)]
    panels = []
    for name, unit in (("seconds", "mean seconds of a trial"), ("tokens", "mean tokens of a trial")):
        bars = {}
        for config in _list_configurations(report, rows):
            parts = [p for row in rows if row.config_name == config and (p := _split(row, name)) is not None]
            if parts:
                bars[config] = (*_average(parts), float(len(parts)))
        if bars:
            panels.append((name, unit, bars))
    if not panels:
        return None

    def paint(canvas: Canvas) -> None:
        grid = canvas.subplots(len(panels), 1, squeeze=False)
        for axes, (_, unit, bars) in zip(grid[:, 0], panels, strict=True):
            _paint_bars(axes, unit, bars)
        canvas.legend(
            *grid[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False
        )

    said = [
        f"{_short(config)}: {before:.0f} {name} before, {after:.0f} after, {never:.0f} in trials without one"
        for name, _, bars in panels
        for config, (before, after, never, _) in bars.items()
    ]
    rows_high = sum(len(bars) for _, _, bars in panels)
    return Picture(
        name="spending",
        title="Where time and tokens went",
        words="Means over trials up to their last event, before and after the first file that matters. "
        + "; ".join(said)
        + ".",
        svg=draw("spending", paint, height=1.5 * len(panels) + 0.42 * rows_high),
        sources=_list_events(rows),
    )


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


def _paint_bars(axes: Axes, unit: str, bars: dict[str, tuple[float, ...]]) -> None:
    parts = (
        ("before the first hit", _COLORS[1], ""),
        ("after it", _COLORS[0], ""),
        ("in trials without a hit", _COLORS[3], "//"),
    )
    places = list(range(len(bars)))
    left = [0.0] * len(bars)
    for number, (word, color, hatch) in enumerate(parts):
        widths = [values[number] for values in bars.values()]
        axes.barh(
            places, widths, left=left, label=word, color=color, hatch=hatch, edgecolor="white", height=0.62
        )
        left = [a + b for a, b in zip(left, widths, strict=True)]
    axes.set_yticks(places, [_label(name, int(values[3])) for name, values in bars.items()])
    axes.invert_yaxis()
    axes.set_xlabel(unit)
    axes.grid(visible=True, axis="x")


def _draw_deltas(report: RetrievalReport, pair: MatchedComparison, number: int) -> Picture | None:
    if isinstance(pair.deltas, NotComputable):
        return None
    panels = [
        (delta, values)
        for delta in pair.deltas
        if delta.quantity in _SHIFTED and (values := _list_deltas(pair, delta.quantity))
    ]
    if not panels:
        return None

    def paint(canvas: Canvas) -> None:
        grid = canvas.subplots(1, len(panels), squeeze=False)
        for axes, (delta, values) in zip(grid[0], panels, strict=True):
            _paint_delta(axes, delta, values)

    said = [
        f"{delta.quantity}: higher for {sum(1 for _, v in values if v > 0)}, lower for "
        f"{sum(1 for _, v in values if v < 0)}, equal for {sum(1 for _, v in values if v == 0)} "
        f"of {len(values)}"
        for delta, values in panels
    ]
    matched = {(task.group, task.task) for task in pair.tasks}
    return Picture(
        name=f"deltas-{number}",
        title=f"Paired differences: {_short(pair.treatment)} less {_short(pair.baseline)}",
        words="One dot for each task that was matched in a run; the band is the interval of the mean. "
        + "; ".join(said)
        + ".",
        svg=draw(
            f"deltas-{number}",
            paint,
            width=11.0,
            height=1.6 + 0.19 * min(_MOST_TASKS, max(len(values) for _, values in panels)),
        ),
        is_wide=True,
        sources=tuple(
            row.artefact
            for row in report.trials
            if row.config_name in {pair.baseline, pair.treatment} and (row.group, row.task) in matched
        ),
    )


def _list_deltas(pair: MatchedComparison, quantity: str) -> list[tuple[str, float]]:
    found = [(task.task, task.deltas[quantity]) for task in pair.tasks if quantity in task.deltas]
    return sorted(found, key=lambda item: (item[1], item[0]))


def _paint_delta(axes: Axes, delta: MatchedDelta, values: Sequence[tuple[str, float]]) -> None:
    places = list(range(len(values)))
    colors = [_COLORS[0] if value > 0 else _COLORS[1] if value < 0 else INK for _, value in values]
    axes.axvline(0, color=INK, linewidth=1)
    axes.hlines(places, 0, [value for _, value in values], colors=colors, linewidth=1.4)
    axes.scatter([value for _, value in values], places, c=colors, s=26, zorder=3)
    shift = delta.shift
    if not isinstance(shift, NotComputable):
        interval = shift.mean.interval
        if not isinstance(interval, NotComputable):
            axes.axvspan(interval.low, interval.high, color=_COLORS[2], alpha=0.2, linewidth=0)
        axes.axvline(shift.mean.value, color=_COLORS[2], linewidth=2)
    if len(values) <= _MOST_TASKS:
        axes.set_yticks(places, [_short(name, 24) for name, _ in values])
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(values)} matched tasks")
    axes.set_title(f"{delta.quantity} (n = {len(values)})")
    axes.grid(visible=True, axis="x")


def _set_shares(axes: Axes, below: str, beside: str) -> None:
    axes.set_xlabel(below)
    axes.set_ylabel(beside)
    axes.set_ylim(_BELOW_ZERO, 1.06)
    axes.grid(visible=True, color=GRID)
    if (canvas := axes.get_figure(root=True)) is not None:
        canvas.legend(loc="outside lower left", ncols=2, frameon=False)


def _style(number: int) -> dict[str, Any]:
    return {
        "color": _COLORS[number % len(_COLORS)],
        "linestyle": _LINES[_turn(number) % len(_LINES)],
        "linewidth": 2,
    }


def _turn(number: int) -> int:
    """One further with every round of colors: the same color never comes with the same line again."""
    return number + number // len(_COLORS)


def _find_height(curves: int) -> float:
    """In inches: the axes keep their height, however long the legend is."""
    return 3.3 + 0.2 * ((curves + 1) // 2)


def _list_configurations(report: RetrievalReport, rows: Sequence[TrialRow]) -> list[str]:
    present = {row.config_name for row in rows}
    return [item.config_name for item in report.coverage if item.config_name in present]


def _list_events(rows: Sequence[TrialRow]) -> tuple[Artefact, ...]:
    return tuple(
        Artefact(file=row.progress.file, digest=row.progress.digest)
        for row in rows
        if not isinstance(row.progress, Unknown)
    )


def _label(name: str, count: int) -> str:
    return f"{_short(name)} (n = {count})"


def _short(name: str, most: int = _LONGEST_NAME) -> str:
    return neutralize(name, max_characters=most)
