"""`repotrial run export`: runs in the formats of other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from repotrial import api
from repotrial.cli._options import JsonFlag, RunDirectories
from repotrial.cli._output import Screen, counted, print_json
from repotrial.cli._trace import KeyFiles, find_key_file, load_trust


def export(
    form: Annotated[
        Literal["atif", "in-toto", "inspect", "jsonl", "junit", "swebench"],
        typer.Argument(metavar="FORMAT", help="atif, in-toto, inspect, jsonl, junit or swebench."),
    ],
    directories: RunDirectories,
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            readable=False,
            help="Where to write it; a directory where the format holds one run or one agent in a file.",
        ),
    ],
    key_file: Annotated[
        Path | None,
        typer.Option(
            "--key-file",
            metavar="FILE",
            readable=False,
            help="The key that signs attestations (in-toto); this machine's own if left out.",
        ),
    ] = None,
    keys: KeyFiles = None,
    json: JsonFlag = False,
) -> None:
    """Write runs for another tool, and say what its format has no place for.

    Verdicts are computed anew from the evidence. What is lost is listed in the file too.
    """
    written = api.export_runs(form, directories, out, key_file=find_key_file(key_file), keys=load_trust(keys))
    if json:
        print_json(written)
        return
    screen = Screen()
    for export in written:
        screen.line(f"{export.file}: {counted(export.runs, 'run')}")
        screen.line(("  not in the file:", "dim"))
        for loss in export.lost:
            screen.line((f"    {loss.words}", "dim"))
