"""The very lines that a verdict points at, opened (S5)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from repotrial import api
from repotrial.cli._output import Screen, print_json_line

_MOST_SHOWN = 12
_MOST_QUOTES = 4


def show_lines(screen: Screen, run: api.JudgedRun, *, json: bool) -> bool:
    """Print them all, by gate and tag; whether all could be opened."""
    opened = api.open_lines(run)
    if not opened and not json:
        screen.line("no lines: nothing was printed, or an earlier release recorded the run")
    for name, found in opened.items():
        if json:
            for lines in found:
                print_json_line(_build_entry(name, lines))
            continue
        screen.line((name, "bold"))
        for lines in found:
            _print_quote(screen, lines, most=None)
    return not any(lines.lost for found in opened.values() for lines in found)


def print_quotes(screen: Screen, quotes: Collection[api.QuotedLines]) -> None:
    """The first of them, below the reasons of a gate."""
    for lines in [*quotes][:_MOST_QUOTES]:
        _print_quote(screen, lines, most=_MOST_SHOWN)
    if len(quotes) > _MOST_QUOTES:
        screen.line((f"      … and {len(quotes) - _MOST_QUOTES} more: `run show --lines` opens all", "dim"))


def _print_quote(screen: Screen, quote: api.QuotedLines, *, most: int | None) -> None:
    pointer = quote.pointer
    end = pointer.offset_bytes + pointer.length_bytes
    which = f" of command {pointer.runner}" if pointer.runner > 1 else ""
    missing = "".join(f"; missing: {each.kind} {each.name}" for each in pointer.missing)
    place = f"event {pointer.seq}, {pointer.stream}{which}, bytes {pointer.offset_bytes}-{end}{missing}"
    screen.line((f"      {place}", "cyan"))
    if quote.lost:
        screen.line(("      cannot be opened", "bold red"), f": {quote.lost}")
        return
    lines = quote.text.rstrip("\n").split("\n")
    for line in lines[:most]:
        screen.line(("      | ", "dim"), line.expandtabs())
    if most is not None and len(lines) > most:
        screen.line((f"      … and {len(lines) - most} more lines", "dim"))


def _build_entry(name: str, quote: api.QuotedLines) -> dict[str, Any]:
    pointer = quote.pointer
    return {
        "of": name,
        "seq": pointer.seq,
        "type": pointer.type,
        "check": pointer.check,
        "command": pointer.command,
        "runner": pointer.runner,
        "stream": pointer.stream,
        "offset_bytes": pointer.offset_bytes,
        "length_bytes": pointer.length_bytes,
        "missing": pointer.missing,
        "line": quote.line,
        "text": quote.text,
        "lost": quote.lost or None,
    }
