"""An analysis as Markdown that is also pleasant in a terminal, and as CSV tables for tools."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.report._analysis_pilot import render_pilot
from repotrial.report._markdown import (
    ABSENT,
    build_bullets,
    build_table,
    join_names,
    show,
    show_amount,
    show_count,
    show_name,
    show_p,
    show_percent,
    show_points,
    show_reach,
    show_whole_points,
    wrap,
)

if TYPE_CHECKING:
    from repotrial.analysis import Analysis

_LONG_NAME: Final = 12


def render_analysis(analysis: Analysis) -> dict[str, str]:
    """The files of an analysis by name: JSON, Markdown, CSV tables; always the same texts."""
    document = json.dumps(msgspec.to_builtins(analysis), indent=2, ensure_ascii=False) + "\n"
    return {"analysis.json": document, "analysis.md": _render_markdown(analysis), **_render_tables(analysis)}


def _render_markdown(analysis: Analysis) -> str:
    names = _choose_names(analysis)
    lines = [
        *wrap(f"**Decision**: {analysis.decision}."),
        "",
        *wrap(f"*{analysis.label}.*"),
        "",
        _describe_size(analysis),
        "",
        "## Rates",
        "",
        *_render_rates(analysis, names),
        "",
        *_render_contrasts(analysis, names),
        *_render_costs(analysis, names),
        *render_pilot(analysis, names),
        "## Notes",
        "",
        *build_bullets([*analysis.notes, *_list_reasons(analysis)]),
        "",
        "## Computed from",
        "",
        *build_bullets(_describe_artefacts(analysis)),
    ]
    return "\n".join(lines) + "\n"


def _render_tables(analysis: Analysis) -> dict[str, str]:
    """CSV tables by file name: one line for each arm, contrast and spread; absent figures are empty."""
    return {
        "arms.csv": _render_csv(_flatten(arm) for arm in analysis.arms),
        "contrasts.csv": _render_csv(_flatten(contrast) for contrast in analysis.contrasts),
        "amounts.csv": _render_csv(
            {"arm": arm.name, "quantity": quantity, **_flatten(spread)}
            for arm in analysis.arms
            for quantity in ("cost_usd", "wall_seconds")
            for spread in getattr(arm, quantity)
        ),
        "repeats.csv": _render_csv(
            {"arm": arm.name, **_flatten(repeat)} for arm in analysis.arms for repeat in arm.repeats
        ),
    }


def _choose_names(analysis: Analysis) -> dict[str, str]:
    """Names as tables show them: with a number in place of long ones, which the first table explains."""
    names = [arm.name for arm in analysis.arms]
    if all(len(show_name(name)) <= _LONG_NAME for name in names):
        return {name: show_name(name) for name in names}
    return {name: f"#{place}" for place, name in enumerate(names, start=1)}


def _describe_size(analysis: Analysis) -> str:
    trials, arms = show_count(analysis.trials, "trial"), show_count(len(analysis.arms), "arm")
    tasks = show_count(analysis.tasks, "task")
    return f"{trials} of {arms} on {tasks}; intervals at {analysis.level:.0%}; tasks are the sampling units."


def _describe_artefacts(analysis: Analysis) -> list[str]:
    return [
        f"{one.name}: {show_name(one.file)}, {show_count(one.files, 'file')}, `{one.digest}`"
        for one in analysis.artefacts
    ]


def _render_rates(analysis: Analysis, names: dict[str, str]) -> list[str]:
    most = max(arm.repeats[-1].k for arm in analysis.arms)
    rows = [
        (
            names[arm.name],
            show(arm.rate.estimate, show_percent),
            show_reach(arm.rate.low, arm.rate.high, show_percent),
            f"{arm.successes}/{arm.trials}",
            str(arm.tasks),
            str(arm.errors),
            str(arm.invalid),
            show(arm.icc, "{:.2f}".format),
            *(_find_repeat(arm.repeats, most, of) for of in ("any", "all")),
        )
        for arm in analysis.arms
    ]
    passes = (f"pass@{most}", f"pass^{most}")
    header = ("arm", "rate %", "interval", "trials", "tasks", "error", "invalid", "ICC", *passes)
    lines = build_table(header, rows, numbers=range(1, len(header)))
    explained = [f"{short}: {show_name(name)}" for name, short in names.items() if short != show_name(name)]
    return [*lines, *([""] if explained else []), *build_bullets(explained)]


def _find_repeat(repeats: Iterable[msgspec.Struct], k: int, of: str) -> str:
    for repeat in repeats:
        if getattr(repeat, "k", None) == k:
            figure = getattr(repeat, of)
            return ABSENT if isinstance(figure, NotComputable) else show_percent(figure.estimate)
    return ABSENT


def _render_contrasts(analysis: Analysis, names: dict[str, str]) -> list[str]:
    if not analysis.contrasts:
        return []
    lines = ["## Differences", ""]
    for group in analysis.tied:
        lines += build_bullets(
            [f"**Tied**: {join_names([names[arm] for arm in group.arms])} cannot be told apart here."]
        )
    apart = [one for one in analysis.contrasts if one.is_told_apart]
    family = sum(one.family == "primary" for one in analysis.contrasts)
    lines += build_bullets(
        [f"Told apart: {len(apart)} of {show_count(family, 'primary contrast')}, adjusted by Holm."]
    )
    rows = [
        (
            f"{names[one.first]} - {names[one.second]}",
            show(one.difference, show_points),
            show_reach(one.low, one.high, show_whole_points),
            show_reach(one.low_family, one.high_family, show_whole_points),
            show(one.difference_in_tasks, "{:+.1f}".format),
            show(one.p, show_p),
            show(one.p_holm, show_p),
            one.family if one.family != "primary" else "apart" if one.is_told_apart else "tied",
        )
        for one in analysis.contrasts
    ]
    header = ("difference", "points", "interval", "adjusted", "tasks", "p", "p (Holm)", "")
    counts = sorted({one.tasks for one in analysis.contrasts})
    over = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    explained = (
        f"Points: percentage points, averaged over the {over} tasks that both arms have; adjusted: the "
        f"interval by Bonferroni for {show_count(family, 'contrast')}; tasks: the difference in tasks."
    )
    return [*lines, "", *build_table(header, rows, numbers=range(1, 7)), "", *wrap(explained), ""]


def _render_costs(analysis: Analysis, names: dict[str, str]) -> list[str]:
    costs: list[tuple[str, ...]] = []
    times: list[tuple[str, ...]] = []
    for arm in analysis.arms:
        per_success = arm.cost_per_success
        shown = (ABSENT, ABSENT)
        if not isinstance(per_success, NotComputable):
            shown = (
                show_amount(per_success.estimate),
                show_reach(per_success.low, per_success.high, form=show_amount),
            )
        costs += [(names[arm.name], *shown, *_show_quartiles(spread)) for spread in arm.cost_usd[:1]]
        times += [(names[arm.name], *_show_quartiles(spread)) for spread in arm.wall_seconds[:1]]
    lines: list[str] = []
    spread_header = ("median", "quartiles", "most", "total", "missing")
    header: tuple[str, ...] = ("arm", "per success", "interval", *spread_header)
    if costs:
        lines += ["## Cost in dollars", "", *build_table(header, costs, numbers=range(1, len(header))), ""]
    if times:
        header = ("arm", *spread_header)
        lines += ["## Time in seconds", "", *build_table(header, times, numbers=range(1, len(header))), ""]
    return lines


def _show_quartiles(spread: msgspec.Struct) -> tuple[str, ...]:
    lower, median, upper, most, total = (
        show_amount(getattr(spread, field))
        for field in ("lower_quartile", "median", "upper_quartile", "maximum", "total")
    )
    return (median, f"{lower} to {upper}", most, total, str(getattr(spread, "missing", 0)))


def _list_reasons(analysis: Analysis) -> list[str]:
    """Why figures are absent, each reason once with where it applies."""
    reasons: dict[str, list[str]] = {}
    for arm in analysis.arms:
        for what, value in (
            ("interval", arm.rate.low),
            ("ICC", arm.icc),
            ("cost per success", arm.cost_per_success),
        ):
            if isinstance(value, NotComputable):
                reasons.setdefault(f"{what} not computable: {value.reason}", []).append(show_name(arm.name))
    for one in analysis.contrasts:
        if isinstance(one.difference, NotComputable):
            pair = f"{show_name(one.first)} and {show_name(one.second)}"
            reasons.setdefault(f"difference not computable: {one.difference.reason}", []).append(pair)
    return [f"{reason} ({', '.join(places)})" for reason, places in reasons.items()]


def _flatten(value: msgspec.Struct, prefix: str = "") -> dict[str, object]:
    """Fields as columns; parts with their names in front, lists left to tables of their own."""
    cells: dict[str, object] = {}
    for field in value.__struct_fields__:
        part = getattr(value, field)
        if isinstance(part, NotComputable):
            cells[f"{prefix}{field}"] = ""
            cells[f"{prefix}{field}_reason"] = part.reason
        elif isinstance(part, msgspec.Struct):
            cells |= _flatten(part, f"{prefix}{field}_")
        elif isinstance(part, tuple):
            if all(isinstance(item, str) for item in part):
                cells[f"{prefix}{field}"] = " ".join(part)
        else:
            cells[f"{prefix}{field}"] = part
    return cells


def _render_csv(rows: Iterable[dict[str, object]]) -> str:
    listed = list(rows)
    columns = list(dict.fromkeys(column for row in listed for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, restval="", lineterminator="\n")
    writer.writeheader()
    writer.writerows(listed)
    return text.getvalue()
