"""A retrieval report as a page, as Markdown for people and as CSV in long form for tools."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from repotrial._core.absence import NotComputable
from repotrial._core.display import neutralize
from repotrial.report._retrieval_tables import Section, Table, build_sections
from repotrial.retrieval import Figure, RetrievalReport

if TYPE_CHECKING:
    from repotrial.stats import Estimate
from markupsafe import Markup

from repotrial import __version__
from repotrial.report._render import render_template
from repotrial.report._retrieval_figures import draw_figures

_BEFORE_FIGURES = frozenset({"coverage"})


def build_retrieval_page(report: RetrievalReport) -> str:
    """The whole report with figures as one HTML document; the same report gives the same bytes."""
    sections = build_sections(report)
    pictures = draw_figures(report)
    return render_template(
        "retrieval.html.j2",
        version=__version__,
        report=report,
        first=[section for section in sections if section.name in _BEFORE_FIGURES],
        others=[section for section in sections if section.name not in _BEFORE_FIGURES],
        pictures=pictures,
        # Drawn by us; every text in it was escaped.
        drawings={picture.name: Markup(picture.svg) for picture in pictures},  # noqa: S704
    )


_MOST_CHARACTERS: Final = 1000
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
    lines = ["# Retrieval evaluation", "", f"Generated: {_text(report.generated_at)}."]
    for section in build_sections(report):
        lines += ["", f"## {_text(section.title)}", ""]
        lines += _render_section(section)
    lines += ["", "## Sources", "", "| file | digest |", "| --- | --- |"]
    lines += [f"| {_text(row.artefact.file)} | {_text(row.artefact.digest)} |" for row in report.trials]
    return "\n".join(lines) + "\n"


def _render_section(section: Section) -> list[str]:
    lines: list[str] = []
    bullet = "- " if section.name == "caveats" else ""
    for words in section.words:
        lines += [f"{bullet}{_text(words)}", *([] if bullet else [""])]
    for table in section.tables:
        lines += _render_table(table)
    return lines[:-1] if lines and not lines[-1] else lines


def _render_table(table: Table) -> list[str]:
    lines = [f"### {_text(table.title)}", ""] if table.title else []
    lines.append(_render_row(table.columns))
    lines.append(_render_row(["---"] * len(table.columns)))
    lines += [_render_row([_show(cell) for cell in row]) for row in table.rows]
    lines.append("")
    return [*lines, _text(table.note), ""] if table.note else lines


def _render_row(cells: list[str] | tuple[str, ...]) -> str:
    return "| " + " | ".join(_text(cell) for cell in cells) + " |"


def _show(cell: str | NotComputable) -> str:
    return f"not computable ({cell.reason})" if isinstance(cell, NotComputable) else cell


def _text(value: str) -> str:
    """Text that stays text: no cell ends early, nothing in a name becomes markup."""
    shown = neutralize(value, max_characters=_MOST_CHARACTERS)
    for character, escaped in (("\\", "\\\\"), ("|", "\\|"), ("<", "&lt;"), ("`", "\\`"), ("[", "\\[")):
        shown = shown.replace(character, escaped)
    return shown


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
