"""Tables of plain text: the same on a terminal, in a file and in a pipe."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from repotrial._core.display import escape_unprintable, shorten_digests

if TYPE_CHECKING:
    from repotrial.api import RunEntry
    from repotrial.cli._output import Part, Screen

_STYLES = {"success": "green", "failure": "bold red", "acceptance-error": "bold magenta", "invalid": "yellow"}
_GATE_MARKS = {
    "passed": ("pass", "green"),
    "failed": ("FAIL", "bold red"),
    "errored": ("ERROR", "bold magenta"),
}

UNANSWERED = (
    "look at the key, the provider and the limits before you blame the agent "
    "(`repotrial run show RUN_DIR --type response --type monitor-alert`)"
)
"""What to do about runs in which no model ever answered."""

_GAP = 2
_INDENT = 4

RUN_HEADER = ("contract", "agent", "rep", "status", "G1", "G2", "G3", "G4", "score", "directory")


def find_style(status: str) -> str:
    """How a status is colored."""
    return _STYLES.get(status, "")


def mark_gate(outcome: str) -> tuple[str, str]:
    """A gate's outcome, where there is little room."""
    return _GATE_MARKS.get(outcome, (outcome, ""))


def build_run_rows(entries: Sequence[RunEntry]) -> list[list[Part]]:
    """Runs as rows below `RUN_HEADER`."""
    from repotrial import api

    labels = map(shorten_digests, api.label_agents(entries))
    return [_build_row(entry, label) for entry, label in zip(entries, labels, strict=True)]


def _build_row(entry: RunEntry, agent: str) -> list[Part]:
    return [
        entry.contract or "?",
        agent,
        "?" if entry.replicate is None else str(entry.replicate),
        (entry.status, find_style(entry.status)),
        *(mark_gate(outcome) for outcome in entry.gates),
        entry.score or "-",
        entry.directory,
    ]


def print_table(screen: Screen, header: Sequence[str], rows: Sequence[Sequence[Part]]) -> None:
    """Columns as wide as their widest cell; on a narrow terminal, the last ones go on indented lines."""
    cells: list[list[tuple[str, str]]] = [[(name, "bold") for name in header]]
    cells += [[_split(cell) for cell in row] for row in rows]
    widths = [max(len(row[place][0]) for row in cells) for place in range(len(header))]
    lines = _fold(widths, screen.width) if screen.is_terminal else [range(len(widths))]
    for row in cells:
        for number, places in enumerate(lines):
            parts: list[Part] = [" " * _INDENT] if number else []
            for place in places[:-1]:
                text, style = row[place]
                parts += [(text, style), " " * (widths[place] - len(text) + _GAP)]
            screen.line(*parts, row[places[-1]])


def _fold(widths: Sequence[int], room: int) -> list[range]:
    """Which columns share a line: as many as there is room for, and at least one."""
    lines: list[range] = []
    first, used = 0, 0
    for place, width in enumerate(widths):
        if place > first and used + width > room:
            lines.append(range(first, place))
            first, used = place, _INDENT
        used += width + _GAP
    return [*lines, range(first, len(widths))]


def _split(cell: Part) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return escape_unprintable(text), style
