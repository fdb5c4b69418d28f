"""What only a conducted pilot has, as Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from repotrial._core.absence import NotComputable
from repotrial.report._analysis_review import render_stricter_caps, render_verdict_errors
from repotrial.report._markdown import (
    ABSENT,
    build_bullets,
    build_table,
    show,
    show_amount,
    show_name,
    show_percent,
    show_reach,
    show_whole_points,
)

if TYPE_CHECKING:
    from repotrial.analysis import Analysis


def render_pilot(analysis: Analysis, names: Mapping[str, str]) -> list[str]:
    """The sections of a pilot; none for a table of trials."""
    found = analysis.pilot
    if isinstance(found, NotComputable):
        return []
    return [
        *_render_bounds(analysis, names),
        *_render_rubric(analysis, names),
        *_render_endings(analysis, names),
        *_render_strata(analysis, names),
        *_render_baseline(analysis),
        *render_verdict_errors(found, names),
        *render_stricter_caps(found, names),
        "## Flow",
        "",
        *build_bullets(f"{name}: {count}" for name, count in found.flow.items()),
        "",
        "## Deviations",
        "",
        *build_bullets(found.deviations or ["none"]),
        *build_bullets(
            f"{contract}: runs differ in {', '.join(fields)}"
            for contract, fields in found.mixed_conditions.items()
        ),
        "",
        "## Scope",
        "",
        *build_bullets(found.scope),
        "",
    ]


def _render_bounds(analysis: Analysis, names: Mapping[str, str]) -> list[str]:
    found = analysis.pilot
    if isinstance(found, NotComputable):
        return []
    counts = {arm.name: arm.indeterminate for arm in analysis.arms}
    arms = [
        (
            names[one.arm],
            str(counts[one.arm]),
            str(one.doubtful),
            show_percent(one.worst_rate),
            show_percent(one.best_rate),
        )
        for one in found.arms
    ]
    contrasts = [
        (
            show_name(one.name),
            show(one.worst, show_whole_points),
            show(one.best, show_whole_points),
            one.tipping_point.reason
            if isinstance(one.tipping_point, NotComputable)
            else str(one.tipping_point),
        )
        for one in found.contrasts
    ]
    header = ("arm", "indeterminate", "doubtful", "worst %", "best %")
    lines = ["## Indeterminate trials", "", *build_table(header, arms, numbers=range(1, 5)), ""]
    if contrasts:
        columns = ("contrast", "worst", "best", "tipping point")
        lines += [*build_table(columns, contrasts, numbers=(1, 2)), ""]
    return lines


def _render_rubric(analysis: Analysis, names: Mapping[str, str]) -> list[str]:
    found = analysis.pilot
    if isinstance(found, NotComputable):
        return []
    rows = [
        (
            names[one.arm],
            *(
                show_percent(value)
                for value in (
                    one.rubric.correctness,
                    one.rubric.patch_validity,
                    one.rubric.safety,
                    one.rubric.efficiency,
                    one.rubric.score,
                )
            ),
            show_reach(one.rubric.score_low, one.rubric.score_high, show_percent),
            show(one.rubric.coherence, show_percent),
        )
        for one in found.arms
        if not isinstance(one.rubric, NotComputable)
    ]
    header = ("arm", "correct", "valid", "safe", "in limits", "mean", "any weights", "coherence")
    return ["## Rubric, in per cent", "", *build_table(header, rows, numbers=range(1, 8)), ""] if rows else []


def _render_endings(analysis: Analysis, names: Mapping[str, str]) -> list[str]:
    found = analysis.pilot
    if isinstance(found, NotComputable):
        return []
    lines = ["## Ends, gates, phases", ""]
    for one in found.arms:
        phases = ", ".join(f"{phase} {show(amount, show_amount)}" for phase, amount in one.phases_usd.items())
        curves = []
        for what, curve in (("seconds", one.time_to_success), ("dollars", one.cost_to_success)):
            if not isinstance(curve, NotComputable) and curve.points:
                last = curve.points[-1]
                curves.append(f"{show_percent(curve.final)} % within {show_amount(last.at)} {what}")
        parts = {
            "": _list_counts(one.endings),
            "gates not passed: ": _list_counts(one.failed_gates),
            "modes: ": _list_counts(one.failure_modes),
            "dollars by phase: ": phases,
            "success: ": ", ".join(curves) or ABSENT,
        }
        words = "; ".join(f"{name}{text}" for name, text in parts.items())
        lines += build_bullets([f"**{names[one.arm]}**: {words}"])
    return [*lines, ""]


def _list_counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or ABSENT


def _render_strata(analysis: Analysis, names: Mapping[str, str]) -> list[str]:
    found = analysis.pilot
    if isinstance(found, NotComputable):
        return []
    rows = [
        (
            show_name(one.stratum),
            names[one.arm],
            show(one.rate.estimate, show_percent),
            show_reach(one.rate.low, one.rate.high, show_percent),
            str(one.rate.n_clusters),
            "few tasks" if one.caution else "",
        )
        for one in found.strata
    ]
    header = ("stratum", "arm", "rate %", "interval", "tasks", "")
    lines = ["## Strata (exploratory)", "", *build_table(header, rows, numbers=range(2, 5))]
    return [*lines, ""]


def _render_baseline(analysis: Analysis) -> list[str]:
    found = analysis.pilot
    if isinstance(found, NotComputable):
        return []
    lines = ["## Without any change", ""]
    for words, tasks in (
        ("already satisfied", found.already_satisfied),
        ("already failing for another reason", found.already_failing),
    ):
        if isinstance(tasks, NotComputable):
            lines += build_bullets([f"{words}: not computable: {tasks.reason}"])
        else:
            lines += build_bullets([f"{words}: {', '.join(map(show_name, tasks)) or ABSENT}"])
    return [*lines, ""]
