"""`repotrial run page`: a run as one HTML file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial.cli._options import JsonFlag, RunDirectory
from repotrial.cli._output import Screen, counted, print_json


def page(
    directory: RunDirectory,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--out",  # as the other commands say
            "-o",
            "--output",
            metavar="FILE",
            readable=False,
            help="Where to write it; RUN_NAME.html in the current directory if left out.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write one HTML page of a run: verdict, evidence, change and timeline; it opens offline."""
    missing = find_missing_parent(output)
    written = api.write_run_page(directory, output)
    tell_made(missing)
    if json:
        print_json(written)
    else:
        screen = Screen()
        screen.line(written.page)
        if written.beside:
            folder = Path(written.beside[0]).parent
            screen.line((f"and {counted(len(written.beside), 'file')} beside it, in {folder}", "dim"))


def find_missing_parent(output: Path | None) -> Path | None:
    """The directory that writing a page will make; None if it is there."""
    return None if output is None or os.path.lexists(output.parent) else output.parent


def tell_made(directory: Path | None) -> None:
    """Say which directory was made: a slip in its name would go unnoticed."""
    if directory is not None:
        Screen(to_stderr=True).line(("note", "yellow"), f": made the directory {directory}")
