"""Markdown that also reads well as plain text: aligned tables, wrapped lines, numbers in few digits."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from repotrial._core.absence import NotComputable
from repotrial._core.display import neutralize

_COLUMNS: Final = 100
_MOST_NAME: Final = 60
ABSENT: Final = "none"


def build_table(
    header: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: Iterable[int] = ()
) -> list[str]:
    """A Markdown table with its columns aligned, so that it reads as text as well."""
    right = set(numbers)
    cells = [[cell.replace("|", "\\|") for cell in row] for row in (header, *rows)]
    widths = [max(3, *(len(row[place]) for row in cells)) for place in range(len(header))]
    rule = [f"{'-' * (width - 1)}:" if place in right else "-" * width for place, width in enumerate(widths)]
    lines = []
    for row in (cells[0], rule, *cells[1:]):
        padded = [
            cell.rjust(widths[place]) if place in right else cell.ljust(widths[place])
            for place, cell in enumerate(row)
        ]
        lines.append(f"| {' | '.join(padded)} |")
    return lines


def wrap(text: str) -> list[str]:
    return textwrap.wrap(text, _COLUMNS, break_long_words=False, break_on_hyphens=False)


def build_bullets(texts: Iterable[str]) -> list[str]:
    lines: list[str] = []
    for text in texts:
        lines += textwrap.wrap(
            f"- {text}", _COLUMNS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
        )
    return lines


def show_name(text: str) -> str:
    return neutralize(text, max_characters=_MOST_NAME)


def join_names(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def show_count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def show(value: float | NotComputable, form: Callable[[float], str]) -> str:
    return ABSENT if isinstance(value, NotComputable) else form(value)


def show_reach(low: float | NotComputable, high: float | NotComputable, form: Callable[[float], str]) -> str:
    if isinstance(low, NotComputable) or isinstance(high, NotComputable):
        return ABSENT
    return f"{form(low)} to {form(high)}"


def show_percent(value: float) -> str:
    return f"{100 * value:.1f}"


def show_points(value: float) -> str:
    return f"{100 * value:+.1f}"


def show_whole_points(value: float) -> str:
    return f"{100 * value:+.0f}"


def show_amount(value: float | NotComputable) -> str:
    """Three digits, without an exponent."""
    if isinstance(value, NotComputable):
        return ABSENT
    digits = 2 - math.floor(math.log10(value)) if value > 0 else 0
    return f"{value:,.{max(0, digits)}f}"


def show_p(value: float) -> str:
    return "<0.0001" if value < _LEAST_P else f"{value:.4f}"


_LEAST_P: Final = 1e-4
