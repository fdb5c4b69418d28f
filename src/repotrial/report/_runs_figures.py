"""Figures of a set of runs: rates, tasks by agents, endings, time and cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from repotrial._core.absence import NotComputable
from repotrial._core.display import list_some, shorten_digests
from repotrial.analysis import AgentSummary, PairedSummary, RunRow
from repotrial.report.figures.axes import show_points, show_share
from repotrial.report.figures.blocks import HeatCell, draw_bars, draw_heat_map
from repotrial.report.figures.canvas import Figure
from repotrial.report.figures.plots import (
    Frame,
    IntervalRow,
    PlotPoint,
    draw_frontier,
    draw_intervals,
)

_MOST_ENDINGS: Final = 12
"""Kinds of endings with a part of their own; rarer ones are put together."""


def draw_rates(agents: Sequence[AgentSummary]) -> Figure:
    """Successes over all attempted runs, by agent."""
    rows = [
        IntervalRow(
            label=shorten_digests(found.agent),
            value=found.rate if isinstance(found.rate, NotComputable) else found.rate.value,
            low=_end(found, "low"),
            high=_end(found, "high"),
            note=f"{found.success} of {found.planned}",
            series=number,
        )
        for number, found in enumerate(agents)
    ]
    shares = [found.success / max(1, found.planned) for found in agents]
    best = [shorten_digests(f.agent) for f, share in zip(agents, shares, strict=True) if share == max(shares)]
    frame = Frame(
        name="runs-rates",
        title=f"{list_some(best, most=3)} succeeded most often: {max(shares):.0%} of runs"
        if max(shares)
        else "No agent succeeded",
        words="The mark is the rate of success over all planned runs, the line its 95 % interval on other "
        "contracts like these. Error and invalid runs count as no success.",
        x_label="rate of success over all planned runs",
        show_x=show_share,
    )
    return draw_intervals(frame, rows, around=(0.0, 1.0))


def _end(found: AgentSummary, name: str) -> float | None:
    if isinstance(found.rate, NotComputable) or isinstance(found.rate.interval, NotComputable):
        return None
    value: float = getattr(found.rate.interval, name)
    return value


def draw_differences(pairs: Sequence[PairedSummary]) -> Figure:
    """Paired differences, each with its interval."""
    rows = []
    for pair in pairs:
        found = pair.comparison.difference
        interval = None if isinstance(found, NotComputable) else found.interval
        has_interval = interval is not None and not isinstance(interval, NotComputable)
        rows.append(
            IntervalRow(
                label=f"{shorten_digests(pair.one)} less {shorten_digests(pair.other)}",
                value=found if isinstance(found, NotComputable) else found.value,
                low=interval.low if has_interval else None,  # type: ignore[union-attr]  # as just seen
                high=interval.high if has_interval else None,  # type: ignore[union-attr]  # as just seen
                note=f"{pair.comparison.n_pairs} contracts",
            )
        )
    apart = sum(1 for row in rows if row.low is not None and row.high is not None and row.low * row.high > 0)
    frame = Frame(
        name="runs-differences",
        title=f"{apart} of {len(rows)} differences have an interval without zero",
        words="Mean over the contracts that both have of the difference of success, with its 95 % interval, "
        "not adjusted for the number of comparisons. An interval that holds zero shows no difference; it "
        "does not show that there is none.",
        x_label="difference of success, percentage points",
        show_x=show_points,
    )
    return draw_intervals(frame, rows, zero=0.0)


def draw_tasks(rows: Mapping[str, Sequence[tuple[str, RunRow]]]) -> Figure:
    """Contracts by agents; a cell leads to its first run."""
    contracts = sorted({row.contract or "?" for runs in rows.values() for _, row in runs})
    cells = [
        (
            contract,
            [_build_cell([r for r in runs if (r[1].contract or "?") == contract]) for runs in rows.values()],
        )
        for contract in contracts
    ]
    never = sum(1 for _, line in cells if not any(c is not None and c.share for c in line))
    always = sum(1 for _, line in cells if all(c is not None and c.share == 1 for c in line))
    frame = Frame(
        name="runs-map",
        title=f"{len(contracts)} contracts by {len(rows)} agents: {always} solved by all, {never} by none",
        words="Each cell is filled by its share of successes and says it in words. It leads to its run.",
        x_label="",
    )
    return draw_heat_map(frame, [shorten_digests(name) for name in rows], cells)


def _build_cell(runs: Sequence[tuple[str, RunRow]]) -> HeatCell | None:
    if not runs:
        return None
    success = sum(_is_success(row) for _, row in runs)
    return HeatCell(share=success / len(runs), words=f"{success} of {len(runs)}", href=f"#{runs[0][0]}")


def _is_success(row: RunRow) -> bool:
    return row.status == "success" and row.is_believed


def draw_endings(rows: Mapping[str, Sequence[tuple[str, RunRow]]]) -> Figure:
    """How many runs of each agent ended by which cause."""
    counts = Counter(row.ended for runs in rows.values() for _, row in runs)
    parts = [name for name, _ in counts.most_common(_MOST_ENDINGS)]
    rest = len(counts) - len(parts)
    bars = []
    for name, runs in rows.items():
        own = Counter(row.ended for _, row in runs)
        others = sum(number for ending, number in own.items() if ending not in parts)
        bars.append(
            (
                shorten_digests(name),
                [*(float(own[part]) for part in parts), *([float(others)] if rest else [])],
            )
        )
    total = sum(counts.values())
    frame = Frame(
        name="runs-endings",
        title=f"{counts['finished']} of {total} runs ended when the agent was done",
        words="Runs by what ended them. A cap that ends a run is a policy choice of its contract, and no "
        "failure of acceptance.",
        x_label="runs",
    )
    return draw_bars(frame, [*parts, *([f"{rest} other causes"] if rest else [])], bars)


def draw_time(rows: Mapping[str, Sequence[tuple[str, RunRow]]]) -> Figure | None:
    """Mean time of a run by phase; None where no record states it."""
    bars = []
    for name, runs in rows.items():
        known = [
            (row.acting_seconds, row.accepting_seconds)
            for _, row in runs
            if row.acting_seconds is not None and row.accepting_seconds is not None
        ]
        if known:
            means = [sum(values) / len(known) for values in zip(*known, strict=True)]
            bars.append((f"{shorten_digests(name)} (n = {len(known)})", means))
    if not bars:
        return None
    longest = max(bars, key=lambda bar: sum(bar[1]))
    frame = Frame(
        name="runs-time",
        title=f"Runs of {longest[0].partition(' (n')[0]} took longest: {sum(longest[1]):.1f} s on average",
        words="Mean time of a run, by phase: from the start of acting to the start of acceptance, and from "
        "there to the seal.",
        x_label="seconds of a run, mean",
        show_x=lambda value: f"{value:.3g}",
    )
    return draw_bars(frame, ("the agent acts", "acceptance"), bars)


def draw_cost(rows: Mapping[str, Sequence[tuple[str, RunRow]]]) -> Figure | None:
    """Cost against success; None where no run states a cost."""
    points = list(_iter_points(rows))
    if not points:
        return None
    missing = len(rows) - len(points)
    frame = Frame(
        name="runs-frontier",
        title=f"Cost against success of {len(points)} agents"
        + (f"; {missing} state no cost" if missing else ""),
        words="Mean cost of models of a run, and the share of successes. Agents on the line are not beaten: "
        "none is cheaper and at least as good. Costs are notional where a script or a recording answered.",
        x_label="USD of a run, mean",
        y_label="rate of success",
        show_x=lambda value: f"{value:.3g}",
        show_y=show_share,
    )
    return draw_frontier(frame, points)


def _iter_points(rows: Mapping[str, Sequence[tuple[str, RunRow]]]) -> Iterator[PlotPoint]:
    for name, runs in rows.items():
        costs = [row.cost_usd for _, row in runs if row.cost_usd is not None]
        if costs:
            success = sum(_is_success(row) for _, row in runs)
            mean = sum(costs) / len(costs)
            yield PlotPoint(label=shorten_digests(name), x=mean, y=success / len(runs))
