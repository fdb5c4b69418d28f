"""`repotrial cache`: what is kept for the next run, prepared workspaces and environments."""

from __future__ import annotations

from typing import Annotated

import typer

from repotrial import api
from repotrial.cli._machine import CacheOption, find_cache
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, counted, print_json

app = noun("cache", "Prepared workspaces and environments, kept for the next run.")

_DAY_SECONDS = 24 * 3600
_MEGABYTE = 1024 * 1024


@app.command("list", epilog="Example: repotrial cache list --json")
def list_entries(*, cache: CacheOption = None, json: JsonFlag = False) -> None:
    """List what is kept, the longest unused first."""
    entries = api.list_cache(find_cache(cache))
    if json:
        print_json(entries)
    else:
        _print_entries(entries, verb="kept")


@app.command(
    "prune",
    short_help="Remove what no run uses, the longest unused first.",
    epilog="Example: repotrial cache prune --unused-days 7",
)
def prune(
    *,
    unused_days: Annotated[
        int, typer.Option("--unused-days", min=0, help="Leave alone what was used since then.")
    ] = 0,
    keep_mb: Annotated[
        int | None, typer.Option("--keep-mb", min=0, help="Stop when no more than this is left.")
    ] = None,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Remove what no run uses, the longest unused first; what is in use stays."""
    removed = api.prune_cache(
        find_cache(cache),
        unused_seconds=unused_days * _DAY_SECONDS,
        max_bytes=None if keep_mb is None else keep_mb * _MEGABYTE,
    )
    if json:
        print_json(removed)
    else:
        _print_entries(removed, verb="removed")


def _print_entries(entries: list[api.KeptItem], *, verb: str) -> None:
    screen = Screen()
    for entry in entries:
        size = "?" if entry.size_bytes is None else f"{entry.size_bytes / _MEGABYTE:.1f}"
        screen.line(
            (f"{size:>9} MB ", "bold"),
            f"{entry.kind:<9}  {entry.key}",
            f"  {entry.content}" if entry.content else "",
            ("  in use" if entry.is_in_use else "", "green"),
            (f"  {entry.problem}" if entry.problem else "", "red"),
        )
    screen.line(f"{counted(len(entries), 'tree')} {verb}")
