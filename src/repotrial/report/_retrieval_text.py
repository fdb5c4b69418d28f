"""A retrieval report as a page, as Markdown for people and as CSV in long form for tools."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from repotrial._core.absence import NotComputable
from repotrial.report._document import ReportPart, Section, Source, join_parts
from repotrial.report._document_page import render_report_page
from repotrial.report._document_text import render_section, show_text
from repotrial.report._retrieval_figures import draw_figures
from repotrial.report._retrieval_tables import build_sections
from repotrial.retrieval import Figure, RetrievalReport

if TYPE_CHECKING:
    from repotrial.stats import Estimate


def build_retrieval_page(report: RetrievalReport) -> str:
    """The whole report with figures as one HTML document; the same report gives the same bytes."""
    return render_report_page(join_parts([build_retrieval_part(report)], is_shared=False))


def build_retrieval_part(report: RetrievalReport) -> ReportPart:
    """The whole report in the model that all reports share."""
    first, *others = build_sections(report)
    figures = Section(name="figures", title="Figures", figures=draw_figures(report))
    return ReportPart(
        title="Retrieval evaluation",
        lead=(
            "Did agents find the files that matter, did they use them, and what does that go along with?",
            f"Generated {report.generated_at}. Ranking: {report.ranking}.",
            "Retrieval figures never enter a verdict or a reward.",
        ),
        sections=(first, *([figures] if figures.figures else []), *others),
        sources=tuple(
            Source(name=f"trial{number}", file=row.artefact.file, digest=row.artefact.digest)
            for number, row in enumerate(report.trials, start=1)
        ),
    )


COLUMNS: Final = (
    "section",
    "scope",
    "group",
    "task",
    "repeat",
    "quantity",
    "value",
    "low",
    "high",
    "level",
    "p_value",
    "p_adjusted",
    "n_trials",
    "n_tasks",
    "method",
    "reason",
    "artefact",
    "digest",
)
"""Of the CSV; a cell that does not apply is empty."""


def render_retrieval_markdown(report: RetrievalReport) -> str:
    """The whole report without figures; the same report gives the same text."""
    lines = ["# Retrieval evaluation", "", f"Generated: {show_text(report.generated_at)}."]
    for section in build_sections(report):
        lines += ["", f"## {show_text(section.title)}", ""]
        lines += render_section(section)
    lines += ["", "## Sources", "", "| file | digest |", "| --- | --- |"]
    lines += [
        f"| {show_text(row.artefact.file)} | {show_text(row.artefact.digest)} |" for row in report.trials
    ]
    return "\n".join(lines) + "\n"


def render_retrieval_csv(report: RetrievalReport) -> str:
    """One row for each figure of each trial, mean, association and difference."""
    stream = io.StringIO()
    writer = csv.DictWriter(stream, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for row in _iter_rows(report):
        writer.writerow({name: _guard(value) for name, value in row.items()})
    return stream.getvalue()


def _guard(value: object) -> object:
    """Spreadsheets take text that begins like a formula for one."""
    if isinstance(value, str) and value.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{value}"
    return value


def _iter_rows(report: RetrievalReport) -> Iterator[dict[str, object]]:
    yield from _iter_coverage(report)
    for item in report.configurations:
        parts = (item.quality, item.utilization, item.errors, item.outcomes)
        for figure in (figure for part in parts for figure in part):
            yield _build_mean(item.config_name, figure)
    yield from _iter_associations(report)
    yield from _iter_deltas(report)
    yield from _iter_trials(report)


def _iter_coverage(report: RetrievalReport) -> Iterator[dict[str, object]]:
    for item in report.coverage:
        for name in ("n_trials", "n_tasks", "computable", "degraded", "without_ground_truth", "with_reward"):
            value = getattr(item, name)
            yield {"section": "coverage", "scope": item.config_name, "quantity": name, "value": value}


def _build_mean(scope: str, figure: Figure) -> dict[str, object]:
    row: dict[str, object] = {
        "section": "mean",
        "scope": scope,
        "quantity": figure.name,
        "n_trials": figure.n_trials,
        "n_tasks": figure.n_tasks,
    }
    return row | _spread(figure.mean)


def _spread(estimate: Estimate | NotComputable) -> dict[str, object]:
    if isinstance(estimate, NotComputable):
        return {"reason": estimate.reason}
    interval = estimate.interval
    if isinstance(interval, NotComputable):
        return {"value": estimate.value, "reason": interval.reason}
    return {
        "value": estimate.value,
        "low": interval.low,
        "high": interval.high,
        "level": interval.level,
        "method": interval.method.value,
    }


def _iter_associations(report: RetrievalReport) -> Iterator[dict[str, object]]:
    for scope in report.comparison.associations:
        for item in scope.associations:
            row: dict[str, object] = {
                "section": "association",
                "scope": scope.scope,
                "quantity": f"{item.measure} and {item.outcome}",
                "n_trials": item.n_trials,
                "n_tasks": item.n_tasks,
            }
            found = item.association
            if isinstance(found, NotComputable):
                yield row | {"reason": found.reason}
                continue
            ends = found.interval
            if not isinstance(ends, NotComputable):
                row |= {"low": ends.low, "high": ends.high, "level": ends.level}
            row |= {"p_value": _known(found.p_value), "p_adjusted": _known(item.p_adjusted)}
            yield row | {"value": found.value, "method": found.method.value}


def _iter_deltas(report: RetrievalReport) -> Iterator[dict[str, object]]:
    for pair in report.comparison.matched:
        scope = f"{pair.treatment} less {pair.baseline}"
        if isinstance(pair.deltas, NotComputable):
            yield {"section": "difference", "scope": scope, "reason": pair.deltas.reason}
            continue
        for delta in pair.deltas:
            row: dict[str, object] = {
                "section": "difference",
                "scope": scope,
                "quantity": delta.quantity,
                "n_tasks": delta.n_tasks,
            }
            if isinstance(delta.shift, NotComputable):
                yield row | {"reason": delta.shift.reason}
                continue
            row |= {"p_value": delta.shift.sign_flip.p_value, "p_adjusted": _known(delta.p_adjusted)}
            yield row | _spread(delta.shift.mean)
        for task in pair.tasks:
            for name, value in task.deltas.items():
                row = {"section": "task difference", "scope": scope, "group": task.group, "task": task.task}
                yield row | {"quantity": name, "value": value}


def _iter_trials(report: RetrievalReport) -> Iterator[dict[str, object]]:
    for trial in report.trials:
        row: dict[str, object] = {
            "section": "trial",
            "scope": trial.config_name,
            "group": trial.group,
            "task": trial.task,
            "repeat": trial.repeat,
            "artefact": trial.artefact.file,
            "digest": trial.artefact.digest,
        }
        if trial.reason is not None:
            yield row | {"quantity": "measures", "reason": trial.reason}
        for name, value in (trial.values | trial.supplementary).items():
            yield row | {"quantity": name, "value": value}
        if trial.flags:
            yield row | {"quantity": "flags", "reason": "; ".join(trial.flags)}


def _known(value: float | NotComputable) -> object:
    return "" if isinstance(value, NotComputable) else value
