"""An analysis as a report: the decision first, then everything that it rests on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from repotrial._core.absence import NotComputable
from repotrial.analysis import Analysis, ArmFigures, ContrastFigures, IntervalFigure, TrialTable
from repotrial.report._analysis_figures import (
    draw_arm_frontier,
    draw_arm_rates,
    draw_contrasts,
    draw_outcomes,
    draw_time_to_success,
    draw_trial_map,
    draw_trials_flow,
    find_mean_cost,
)
from repotrial.report._analysis_sources import list_sources, name_source
from repotrial.report._document import ReportPart, Section, Table
from repotrial.report.figures.canvas import Cell, Figure

_PLACES = 4
_MOST_SENTENCES = 12


def build_analysis_part(
    analysis: Analysis,
    table: TrialTable | None,
    *,
    prefix: str,
    cells: Mapping[tuple[str, str], str] | None = None,
) -> ReportPart:
    """All of an analysis.

    Args:
        analysis: What was found.
        table: The trials behind it; None where only the analysis is there.
        prefix: Before all anchors, so that several analyses fit into one report.
        cells: Where the map of tasks and arms leads to; empty if nowhere.
    """
    outcomes = [draw_outcomes(analysis, prefix)]
    sections = [
        Section(
            name=f"{prefix}trials", title="Flow of trials", figures=(draw_trials_flow(analysis, prefix),)
        ),
        Section(
            name=f"{prefix}success",
            title="Success by arm",
            words=tuple(group.sentence for group in analysis.tied),
            figures=(draw_arm_rates(analysis, prefix),),
            tables=(_build_rates(analysis, prefix),),
        ),
        _build_contrasts(analysis, prefix),
        _build_costs(analysis, prefix),
        *_build_tasks(analysis, table, prefix, cells or {}),
        Section(
            name=f"{prefix}outcomes-by-arm",
            title="How trials ended",
            figures=tuple(outcomes),
            tables=(_build_bounds(analysis, prefix),),
        ),
        Section(
            name=f"{prefix}repeats", title="Repeats of one task", tables=(_build_repeats(analysis, prefix),)
        ),
        Section(
            name=f"{prefix}notes",
            title="What must be known, and what this does not show",
            words=(
                *(f"{text[:1].upper()}{text[1:]}." for text in (analysis.label, *analysis.notes)),
                "Intervals are over tasks like these; other tasks, dates and prices are not shown.",
            ),
            is_list=True,
        ),
    ]
    return ReportPart(
        title=f"{len(analysis.arms)} arms on {analysis.tasks} tasks",
        lead=tuple(_iter_lead(analysis)),
        sections=tuple(sections),
        sources=list_sources(analysis, prefix),
    )


def _iter_lead(analysis: Analysis) -> Iterator[str]:
    """The decision in a sentence with its uncertainty; then what it does not show."""
    first = next((c for c in analysis.contrasts if c.family == "primary"), None)
    yield _describe_contrast(first, analysis) if first is not None else _describe_arm(analysis.arms[0])
    yield from _describe_cheapest(analysis)
    for group in analysis.tied[:3]:
        yield group.sentence
    yield f"Decision rule: {analysis.decision}."
    yield f"{analysis.label[:1].upper()}{analysis.label[1:]}."


def _describe_cheapest(analysis: Analysis) -> Iterator[str]:
    """Who costs least, against the one that succeeds most; nothing if all cost the same."""
    arms = [arm for arm in analysis.arms if arm.role == "candidate"]
    costs = {arm.name: cost for arm in arms if (cost := find_mean_cost(arm)) is not None}
    if len(costs) < 2 or arms[0].name not in costs:  # noqa: PLR2004 - nothing to compare
        return
    name = min(costs, key=lambda each: costs[each])
    best = costs[arms[0].name]
    if costs[name] < best:
        times = f", {best / costs[name]:.1f} times as much" if costs[name] else ""
        yield f"{name} is cheapest: {costs[name]:.3g} USD a run; {arms[0].name}: {best:.3g} USD{times}."


def _describe_contrast(found: ContrastFigures, analysis: Analysis) -> str:
    difference, low, high = found.difference, found.low_family, found.high_family
    if isinstance(low, NotComputable) or isinstance(high, NotComputable):
        low, high = found.low, found.high
    if any(isinstance(value, NotComputable) for value in (difference, low, high)):
        return found.sentence
    assert isinstance(difference, float | int)
    assert isinstance(low, float | int)
    assert isinstance(high, float | int)
    word = "more" if difference >= 0 else "fewer"
    ends = (low, high) if difference >= 0 else (-high, -low)
    family = sum(contrast.family == "primary" for contrast in analysis.contrasts)
    adjusted = f" (adjusted for {family} pairs)" if family > 1 else ""
    told = "" if found.is_told_apart else ", so the two cannot be told apart here"
    return (
        f"{found.first} solved {abs(difference) * 100:.0f} points {word} tasks than {found.second}, "
        f"{analysis.level:.0%} interval {ends[0] * 100:.0f} to {ends[1] * 100:.0f}{adjusted}, on "
        f"{found.tasks} tasks{told}."
    )


def _describe_arm(arm: ArmFigures) -> str:
    rate = arm.rate
    if any(isinstance(value, NotComputable) for value in (rate.estimate, rate.low, rate.high)):
        return f"{arm.name} succeeded in {arm.successes} of {arm.trials} trials on {arm.tasks} tasks."
    return (
        f"{arm.name} succeeded in {arm.successes} of {arm.trials} trials on {arm.tasks} tasks: "
        f"{rate.estimate:.0%}, interval {rate.low:.0%} to {rate.high:.0%}."
    )


def _build_rates(analysis: Analysis, prefix: str) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (
            arm.name,
            arm.role,
            arm.tasks,
            arm.trials,
            arm.successes,
            arm.failures,
            arm.errors,
            arm.invalid,
            *_spread(arm.rate),
            *_spread(arm.scorable_rate)[:1],
            _round(arm.icc),
        )
        for arm in analysis.arms
    ]
    return Table(
        title="",
        name=f"{prefix}arm",
        columns=(
            "arm",
            "role",
            "tasks",
            "trials",
            "success",
            "failure",
            "error",
            "invalid",
            "rate",
            "low",
            "high",
            "rate of scorable",
            "ICC",
        ),
        rows=tuple(rows),
        sources=_name_arms(analysis, prefix),
        note="Rate: successes over all trials. Low and high: "
        f"{analysis.level:.0%} interval over tasks ({analysis.arms[0].rate.method}). Rate of scorable: over "
        "successes, failures and errors; conditional, and not in the place of the rate. ICC: of two "
        "trials of one task, their correlation.",
    )


def _name_arms(analysis: Analysis, prefix: str) -> tuple[str, ...]:
    """For each arm the anchor of what its figures were computed from."""
    return tuple(name_source(analysis, prefix, arm.computed_from) for arm in analysis.arms)


def _spread(found: IntervalFigure | NotComputable) -> tuple[Cell, Cell, Cell]:
    if isinstance(found, NotComputable):
        return (found, None, None)
    return (_round(found.estimate), _round(found.low), _round(found.high))


def _round(value: float | NotComputable) -> Cell:
    return value if isinstance(value, NotComputable) else round(value, _PLACES)


def _build_contrasts(analysis: Analysis, prefix: str) -> Section:
    drawn = draw_contrasts(analysis, prefix)
    rows = tuple(_build_contrast(found) for found in analysis.contrasts)
    has_looks = any(not isinstance(found.after_looks, NotComputable) for found in analysis.contrasts)
    table = Table(
        title="",
        name=f"{prefix}contrast",
        columns=_CONTRAST_COLUMNS,
        rows=rows,
        sources=tuple(name_source(analysis, prefix, found.computed_from) for found in analysis.contrasts),
        note="Differences are means over the tasks that both arms have. Low and high of the family are "
        "adjusted for all primary contrasts (Bonferroni), p by Holm; exploratory contrasts have neither. "
        "Sign flips: p by permutation, beside p and not in its place."
        + (" One contrast could stop the pilot: its p is sequential." if has_looks else ""),
    )
    words = tuple(found.sentence for found in analysis.contrasts[:_MOST_SENTENCES])
    if not rows:
        words = ("One arm alone: there is nothing to compare it with.",)
    return Section(
        name=f"{prefix}paired",
        title="Paired differences",
        words=words,
        figures=() if drawn is None else (drawn,),
        tables=(table,) if rows else (),
    )


def _build_contrast(found: ContrastFigures) -> tuple[Cell, ...]:
    is_primary = found.family == "primary"
    adjusted = (found.low_family, found.high_family, found.p_holm)
    return (
        f"{found.first} less {found.second}",
        found.family,
        found.tasks,
        *map(_round, (found.difference, found.low, found.high)),
        *(map(_round, adjusted[:2]) if is_primary else (None, None)),
        _round(found.p),
        _round(found.p_holm) if is_primary else None,
        _round(found.p_sign_flip),
        ("told apart" if found.is_told_apart else "tied") if is_primary else "",
    )


_CONTRAST_COLUMNS = (
    "contrast", "family", "tasks", "difference", "low", "high", "low, family", "high, family", "p",
    "p, Holm", "p, sign flips", "",
)  # fmt: skip


def _build_costs(analysis: Analysis, prefix: str) -> Section:
    drawn = draw_arm_frontier(analysis, prefix)
    success = Table(
        title="Cost of a success",
        name=f"{prefix}success-cost",
        columns=("arm", "USD for a success", "low", "high"),
        rows=tuple((arm.name, *_spread(arm.cost_per_success)) for arm in analysis.arms),
        sources=_name_arms(analysis, prefix),
        note="Cost of all trials, failures included, over the successes.",
    )
    amounts = _build_amounts(analysis, prefix)
    return Section(
        name=f"{prefix}costs",
        title="What it took",
        figures=() if drawn is None else (drawn,),
        tables=(success, *([amounts] if amounts.rows else [])),
    )


def _build_amounts(analysis: Analysis, prefix: str) -> Table:
    columns = (
        "outcome",
        "trials",
        "missing",
        "lower_quartile",
        "median",
        "upper_quartile",
        "maximum",
        "total",
    )
    rows: list[tuple[Cell, ...]] = [
        (arm.name, unit, *(getattr(spread, name) for name in columns))
        for arm in analysis.arms
        for unit, spreads in (("USD", arm.cost_usd), ("seconds", arm.wall_seconds))
        for spread in spreads
    ]
    return Table(
        title="Cost and time of trials",
        name=f"{prefix}amount",
        columns=("arm", "of", *(name.replace("_", " ") for name in columns)),
        rows=tuple(rows),
        sources=tuple(
            name_source(analysis, prefix, arm.computed_from)
            for arm in analysis.arms
            for spreads in (arm.cost_usd, arm.wall_seconds)
            for _ in spreads
        ),
        is_folded=True,
    )


def _build_tasks(
    analysis: Analysis, table: TrialTable | None, prefix: str, cells: Mapping[tuple[str, str], str]
) -> Iterator[Section]:
    if table is None:
        return
    figures: list[Figure] = [draw_trial_map(analysis, table, prefix, cells)]
    if (drawn := draw_time_to_success(analysis, table, prefix)) is not None:
        figures.insert(0, drawn)
    yield Section(name=f"{prefix}tasks", title="Time to success, and task by task", figures=tuple(figures))


def _build_bounds(analysis: Analysis, prefix: str) -> Table:
    """What the rate would be if every trial without a verdict had failed, or had succeeded."""
    rows: list[tuple[Cell, ...]] = []
    for arm in analysis.arms:
        open_ones = arm.errors + arm.invalid + arm.indeterminate
        rows.append(
            (
                arm.name,
                open_ones,
                round(arm.successes / arm.trials, _PLACES) if arm.trials else None,
                round((arm.successes + open_ones) / arm.trials, _PLACES) if arm.trials else None,
            )
        )
    return Table(
        title="Bounds by trials without a verdict",
        name=f"{prefix}bound",
        columns=(
            "arm",
            "errors, invalid and indeterminate",
            "rate if none succeeded",
            "rate if all succeeded",
        ),
        rows=tuple(rows),
        sources=_name_arms(analysis, prefix),
        note="Where the order of two arms depends on these bounds, it depends on unknown outcomes.",
    )


def _build_repeats(analysis: Analysis, prefix: str) -> Table:
    rows: list[tuple[Cell, ...]] = [
        (arm.name, found.k, *_spread(found.any), *_spread(found.all))
        for arm in analysis.arms
        for found in arm.repeats
    ]
    return Table(
        title="",
        name=f"{prefix}repeat",
        columns=("arm", "k", "at least one of k", "low", "high", "all of k", "low", "high"),
        rows=tuple(rows),
        sources=tuple(
            name_source(analysis, prefix, arm.computed_from) for arm in analysis.arms for _ in arm.repeats
        ),
        note="pass@k and pass^k as means over tasks.",
    )
