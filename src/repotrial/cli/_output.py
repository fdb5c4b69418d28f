"""How the command speaks: lines and color for people, JSON for machines, errors with a way on.

Whatever is printed may come from a file of somebody else. `Screen` and `print_json` make every character that
could move the cursor, forge a line or hide text visible; nothing else in this package writes to a terminal.
"""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from repotrial._core.display import escape_unprintable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from repotrial._core.errors import RepoTrialError
    from repotrial.api import Problem

Part: TypeAlias = "str | tuple[str, str]"
"""Text, or text and its style."""

_BEYOND_ASCII = re.compile(r"[^\n\x20-\x7e]")


class Screen:
    """Text for people: a line stays one line and says exactly what it holds, markup included."""

    def __init__(self, *, to_stderr: bool = False) -> None:
        from rich.console import Console

        self._console = Console(stderr=to_stderr, markup=False, emoji=False, highlight=False)

    def line(self, *parts: Part) -> None:
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
        """Whether somebody may be watching."""
        return self._console.is_terminal

    @property
    def width(self) -> int:
        """Columns of the terminal."""
        return self._console.width

    def live(self, build: Callable[[], Sequence[Part]]) -> contextlib.AbstractContextManager[object]:
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
    with contextlib.suppress(OSError):  # nobody hears it; the exit code still says it
        screen.line(("error", "bold red"), (f"[{error.code}] ", "dim"), first)
        for other in others:
            # Marked, so that a line break in a file name cannot begin a line that looks like one of ours.
            screen.line(("  | ", "dim"), other)
        if error.hint:
            screen.line(("  fix: ", "bold"), error.hint)


def print_problems(screen: Screen, problems: Sequence[Problem], *, prefix: str) -> None:
    """Problems in the form that editors understand: path, line, severity, then the way on."""
    for problem in problems:
        line = "" if problem.line is None else f":{problem.line}"
        screen.line(
            (f"{prefix}/{problem.file}{line}: ", "bold"),
            (problem.severity, "red" if problem.severity == "error" else "yellow"),
            (f"[{problem.code}] ", "dim"),
            f"{problem.field}: {problem.message}" if problem.field else problem.message,
        )
        if problem.hint:
            screen.line((f"    fix: {problem.hint}", "dim"))
