"""`repotrial run page`: a run as one HTML file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repotrial.cli._options import JsonFlag, RunDirectory

__all__ = ["page"]


def page(
    directory: RunDirectory,
    *,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            readable=False,
            help="Where to write it; RUN_NAME.html in the current directory if left out.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Write one HTML page of a run: verdict, evidence, change and timeline; it opens offline."""
    from repotrial import api
    from repotrial.cli._output import Screen, print_json

    written = api.write_run_page(directory, output)
    if json:
        print_json(written)
    else:
        Screen().line(written.page)
