"""How the command speaks: lines and color for people, JSON for machines, errors with a way on.

What is printed may come from an untrusted file. `Screen` and `print_json` make every character that
could move the cursor, forge a line or hide text visible; nothing else in this package writes to a terminal.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from repotrial import api
from repotrial._core.display import escape_unprintable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from repotrial._core.errors import RepoTrialError
from typing import TYPE_CHECKING

from repotrial._core.display import shorten_digests

ScreenPart: TypeAlias = "str | tuple[str, str]"
"""Text, or text and its style."""

_BEYOND_ASCII = re.compile(r"[^\n\x20-\x7e]")


class Screen:
    """Text for people: a line stays one line and says exactly what it holds, markup included."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        from rich.console import Console

        self._console = Console(stderr=to_stderr, markup=False, emoji=False, highlight=False)

    def line(self, *parts: ScreenPart) -> None:
        """Print one line; terminals wrap it, files and pipes get it whole."""
        pairs = [(part, "") if isinstance(part, str) else part for part in parts]
        escaped = [(escape_unprintable(text), style) for text, style in pairs]
        if not self._console.is_terminal:
            # The renderer would cost more than reading an event does.
            self._console.file.write("".join(text for text, _ in escaped) + "\n")
            return
        from rich.text import Text

        self._console.print(Text.assemble(*escaped), soft_wrap=True)

    @property
    def is_terminal(self) -> bool:
        """Whether a person may be watching."""
        return self._console.is_terminal

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._console.width

    def live(self, build: Callable[[], Sequence[ScreenPart]]) -> contextlib.AbstractContextManager[object]:
        """While this lasts, keep the lines that `build` gives below all others, and up to date."""
        from rich.console import Group
        from rich.live import Live
        from rich.text import Text

        def render() -> RenderableType:
            pairs = [(part, "") if isinstance(part, str) else part for part in build()]
            return Group(
                *(
                    Text(escape_unprintable(text), style=style, no_wrap=True, overflow="ellipsis")
                    for text, style in pairs
                )
            )

        return Live(get_renderable=render, console=self._console, transient=True)

    def draw(self, renderable: RenderableType) -> None:
        """Print a table or a panel, whose maker has escaped what it holds."""
        self._console.print(renderable)


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def print_json(value: Any) -> None:
    """One JSON document on standard output, indented."""
    _write_json(value, indent=2)


def print_json_line(value: Any) -> None:
    """One JSON document on one line, for streams of them."""
    _write_json(value, indent=None)


def _write_json(value: Any, *, indent: int | None) -> None:
    import json

    import msgspec

    text = json.dumps(msgspec.to_builtins(value), indent=indent, ensure_ascii=False)
    is_unicode = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    sys.stdout.write(
        _BEYOND_ASCII.sub(
            lambda found: found[0] if is_unicode and found[0].isprintable() else _json_escape(found[0]), text
        )
        + "\n"
    )


def _json_escape(character: str) -> str:
    # A file name that is not UTF-8 holds lone surrogates; escaped, Python reads them back exactly.
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))


def print_error(error: RepoTrialError, *, where: str = "") -> None:
    """Say on standard error what is wrong (`where`: with which of several things) and what to do."""
    sys.stdout.flush()  # in a shared terminal or file, in the order of events
    named = error.message if error.message.startswith(where) else f"{where}: {error.message}"
    first, *others = named.split("\n")
    screen = Screen(to_stderr=True)
    with contextlib.suppress(OSError):  # it cannot be written; the exit code still says it
        screen.line(("error", "bold red"), (f"[{error.code}] ", "dim"), first)
        for other in others:
            # Marked, so that a line break in a file name cannot begin a line that looks like one of ours.
            screen.line(("  | ", "dim"), other)
        if error.hint:
            screen.line(("  fix: ", "bold"), error.hint)


def print_problems(screen: Screen, found: api.ContractCheck | api.CreatedContract) -> None:
    """Problems in the form that editors understand: path, line, severity, then the way on."""
    for problem in found.problems:
        line = "" if problem.line is None else f":{problem.line}"
        screen.line(
            (f"{found.directory}/{problem.file}{line}: ", "bold"),
            (problem.severity, "red" if problem.severity == "error" else "yellow"),
            (f"[{problem.code}] ", "dim"),
            f"{problem.field}: {problem.message}" if problem.field else problem.message,
        )
        if problem.hint:
            screen.line((f"    fix: {problem.hint}", "dim"))


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


def print_deviations(screen: Screen, entries: Sequence[api.RunEntry]) -> None:
    """Departures from the protocol below a table of runs, with counts; nothing where there are none."""
    counts = api.count_deviations(entry.deviations for entry in entries)
    if counts:
        screen.line(("deviations", "yellow"), f": {api.describe_deviations(counts, runs=len(entries))}")


def build_run_rows(entries: Sequence[api.RunEntry]) -> list[list[ScreenPart]]:
    """Runs as rows below `RUN_HEADER`."""
    labels = map(shorten_digests, api.label_agents(entries))
    return [_build_row(entry, label) for entry, label in zip(entries, labels, strict=True)]


def describe_cause(entry: api.RunEntry) -> str:
    """Why it ended, and what that makes of it."""
    if entry.reason is not None:
        return f"{entry.cause} ({entry.reason})"
    return f"{entry.cause} (excused)" if entry.is_excused else entry.cause


def _build_row(entry: api.RunEntry, agent: str) -> list[ScreenPart]:
    return [
        entry.contract or "?",
        agent,
        "?" if entry.replicate is None else str(entry.replicate),
        (entry.status, find_style(entry.status)),
        *(mark_gate(outcome) for outcome in entry.gates),
        entry.score or "-",
        entry.directory,
    ]


def print_table(screen: Screen, header: Sequence[str], rows: Sequence[Sequence[ScreenPart]]) -> None:
    """Columns as wide as their widest cell; on a narrow terminal, the last ones go on indented lines."""
    cells: list[list[tuple[str, str]]] = [[(name, "bold") for name in header]]
    cells += [[_split(cell) for cell in row] for row in rows]
    widths = [max(len(row[place][0]) for row in cells) for place in range(len(header))]
    lines = _fold(widths, screen.width) if screen.is_terminal else [range(len(widths))]
    for row in cells:
        for number, places in enumerate(lines):
            parts: list[ScreenPart] = [" " * _INDENT] if number else []
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


def _split(cell: ScreenPart) -> tuple[str, str]:
    text, style = (cell, "") if isinstance(cell, str) else cell
    return escape_unprintable(text), style
