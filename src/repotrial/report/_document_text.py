"""A report as Markdown for people and as JSON for programs, from the same model as the page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from repotrial._core.display import mark_cap, neutralize
from repotrial.report._document import ReportDocument, RunView, Section, Table
from repotrial.report._markdown import build_bullets, build_table, wrap
from repotrial.report.figures.canvas import Cell, Figure, show_cell

_MOST_CHARACTERS: Final = 1000
_MOST_FIGURE_ROWS: Final = 200
_MOST_COLUMNS: Final = 100
"""Of a terminal."""


def render_report_markdown(document: ReportDocument) -> str:
    """The whole report; figures as their numbers."""
    lines = [f"# {show_text(document.title)}", ""]
    for words in (*document.lead, *([document.left_out] if document.left_out else [])):
        lines += [*wrap(show_text(words)), ""]
    for section in document.sections:
        lines += [f"## {show_text(section.title)}", "", *render_section(section), ""]
    if document.runs:
        lines += ["## Run by run", ""]
        for run in document.runs:
            lines += _render_run(run)
    lines += ["## Sources", ""]
    lines += build_bullets(
        f"{show_text(source.name)}: {show_text(source.file)}, {source.digest}" for source in document.sources
    )
    return "\n".join(lines) + "\n"


def _render_run(run: RunView) -> list[str]:
    lines = [f"### {show_text(run.title)}: {run.status}", ""]
    for gate in run.gates:
        why = mark_cap("; ".join(map(show_text, gate.why)))
        lines.append(f"- {gate.gate} {show_text(gate.name)}: {gate.outcome}{f': {why}' if why else ''}")
    lines += [
        f"- {show_text(name)}: {show_text(show_cell(value))}"
        for name, value in run.facts
        if value is not None
    ]
    lines += [f"- changed: {show_text(name)}" for name in run.changed]
    return [*lines, ""]


def render_section(section: Section) -> list[str]:
    """Paragraphs, numbers of figures, tables."""
    lines: list[str] = []
    bullet = section.is_list
    for words in section.words:
        lines += build_bullets([show_text(words)]) if bullet else [*wrap(show_text(words)), ""]
    for figure in section.figures:
        lines += _render_figure(figure)
    for table in section.tables:
        lines += _render_table(table)
    return lines[:-1] if lines and not lines[-1] else lines


def _render_figure(figure: Figure) -> list[str]:
    lines = [f"### {show_text(figure.title)}", "", *wrap(show_text(figure.words)), ""]
    lines += _lay_out(figure.columns, figure.rows[:_MOST_FIGURE_ROWS])
    if len(figure.rows) > _MOST_FIGURE_ROWS:
        lines += ["", f"and {len(figure.rows) - _MOST_FIGURE_ROWS} more rows in the JSON report"]
    return [*lines, ""]


def _render_table(table: Table) -> list[str]:
    lines = [f"### {show_text(table.title)}", ""] if table.title else []
    lines += [*_lay_out(table.columns, table.rows), ""]
    return [*lines, *wrap(show_text(table.note)), ""] if table.note else lines


def _lay_out(columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> list[str]:
    """An aligned table where it fits a terminal; else one point for each row, with the names of its cells."""
    shown = [[_escape(show_cell(cell)) for cell in row] for row in rows]
    heads = [_escape(name) for name in columns]
    numbers = [
        place
        for place in range(len(columns))
        if rows and all(row[place] is None or isinstance(row[place], int | float) for row in rows)
    ]
    table = build_table(heads, shown, numbers=numbers)
    if len(table[0]) <= _MOST_COLUMNS:
        return table
    return build_bullets(
        f"**{row[0]}**: "
        + "; ".join(f"{head} {cell}".strip() for head, cell in zip(heads[1:], row[1:], strict=True) if cell)
        for row in shown
    )


def show_text(value: str) -> str:
    """Text that stays text: no cell ends early, nothing in a name becomes markup."""
    return _escape(value).replace("|", "\\|")


def _escape(value: str) -> str:
    """The same without the bar, which tables escape."""
    shown = neutralize(value, max_characters=_MOST_CHARACTERS)
    for character, escaped in (("\\", "\\\\"), ("<", "&lt;"), ("`", "\\`"), ("[", "\\[")):
        shown = shown.replace(character, escaped)
    return shown


def render_report_json(document: ReportDocument) -> bytes:
    """All of the model but drawings; a value that is absent is an object with `kind` and `reason`."""
    built = msgspec.to_builtins(document)
    for figure in _iter_figures(built):
        del figure["svg"]
    return msgspec.json.format(msgspec.json.encode(built), indent=2) + b"\n"


def _iter_figures(built: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for section in built["sections"]:
        yield from section["figures"]
