"""`repotrial run compare`: two runs side by side, if they may be compared."""

from __future__ import annotations

from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.display import mark_cap
from repotrial._core.errors import ExitCode
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import Screen, ScreenPart, find_style, mark_gate, print_json, print_table

_VALUE_CHARACTERS = 60
_CONTEXT_CHARACTERS = 20


def compare(
    one: Annotated[Path, typer.Argument(metavar="RUN_DIR", readable=False, help="A run directory.")],
    other: Annotated[Path, typer.Argument(metavar="OTHER_DIR", readable=False, help="Another one.")],
    *,
    force: Annotated[
        bool, typer.Option("--force", help="Compare all the same; the differences are declared.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Show two verdicts side by side, if the runs had the same contract, statement and conditions.

    Where they had not, the differences are shown instead, with exit code 1; --force shows both.
    """
    found = api.compare_runs(one, other)
    if json:
        print_json(found)
    else:
        screen = Screen()
        _print_differences(screen, found, is_declared=force)
        if found.is_comparable or force:
            _print_sides(screen, found)
    if not found.is_comparable and not force:
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


def _print_differences(screen: Screen, found: api.RunComparison, *, is_declared: bool) -> None:
    if found.is_comparable or is_declared:
        is_plain = found.is_comparable and not found.is_provisional
        screen.line((found.label, "bold green" if is_plain else "bold yellow"))
    else:
        screen.line(("not comparable: ", "bold red"), "--force shows both, with these differences declared")
    if found.differences:
        rows = [[item.field, *_shorten_sides(item.one, item.other)] for item in found.differences]
        print_table(screen, ("field", "one", "other"), rows)
        capped = [item.field for item in found.differences if item.field.startswith("configuration.limits.")]
        if capped:
            screen.line(mark_cap(", ".join(capped)))


def _shorten_sides(one: str, other: str) -> tuple[str, str]:
    """Two long values from where they begin to differ: what they share tells nothing."""
    if max(len(one), len(other)) <= _VALUE_CHARACTERS:
        return one, other
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    start = max(0, shared - _CONTEXT_CHARACTERS)
    return _cut(one, start), _cut(other, start)


def _cut(text: str, start: int) -> str:
    end = start + _VALUE_CHARACTERS
    return f"{'…' if start else ''}{text[start:end]}{'…' if end < len(text) else ''}"


def _print_sides(screen: Screen, found: api.RunComparison) -> None:
    left, right = (dict(_list_facts(side)) for side in (found.one, found.other))
    names = [*left, *(name for name in right if name not in left)]
    rows: list[list[ScreenPart]] = [[name, left.get(name, "-"), right.get(name, "-")] for name in names]
    print_table(screen, ("", "one", "other"), rows)
    # Not in the table: paths are long, and every row of it would be folded for theirs.
    for name, side in (("one", found.one), ("other", found.other)):
        screen.line((f"{name:<7}", "dim"), side.entry.directory)


def _describe_models(side: api.RunSide) -> str:
    """Money, units and tokens, as far as the record states them."""
    cost = side.card.cost
    stated = [(cost.cost_usd, "USD"), (cost.cost_units, "units"), (cost.tokens, "tokens")]
    return ", ".join(f"{value} {unit}" for value, unit in stated if isinstance(value, str | int)) or "-"


def _list_facts(side: api.RunSide) -> list[tuple[str, ScreenPart]]:
    entry = side.entry
    facts: list[tuple[str, ScreenPart]] = [
        ("agent", f"{entry.agent or '?'} ({entry.agent_version or '?'})"),
        ("replicate", "?" if entry.replicate is None else str(entry.replicate)),
        ("status", (entry.status, find_style(entry.status))),
    ]
    facts += [(f"G{number}", mark_gate(outcome)) for number, outcome in enumerate(entry.gates, start=1)]
    facts += [(f"check {name}", mark_gate(verdict)) for name, verdict in side.checks.items()]
    wall = side.card.cost.wall_us
    return [
        *facts,
        ("score", entry.score or "-"),
        ("tags", ", ".join(entry.tags) or "-"),
        ("agent's time", f"{wall / 1_000_000:.1f} s" if isinstance(wall, int) else "?"),
        ("models", _describe_models(side)),
        ("answered by", entry.answered_by),
        ("root seed", "?" if entry.root_seed is None else str(entry.root_seed)),
        ("deviations", ", ".join(entry.deviations) or "-"),
    ]
