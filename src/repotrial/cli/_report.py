"""`repotrial report`: what people look at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from repotrial import api
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, counted, print_json
from repotrial.cli._run_page import find_missing_parent, tell_made
from repotrial.cli._trace import KeyFiles, load_trust

app = noun("report", "Reports: one file about runs, trials and retrieval.")


@app.callback()
def _hold_together() -> None:
    """Keep the noun a group, however many verbs it has."""


@app.command(
    "build",
    short_help="Write one report about runs, tables of trials, analyses or retrieval.",
    epilog="Example: repotrial report build runs --out report.html",
)
def build(  # noqa: PLR0913 - one parameter for each option
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            readable=False,
            help="Run directories, directories of runs, retrieval results, a table of trials (.csv), or what "
            "`pilot analyze --json` printed (.json); any mix.",
        ),
    ],
    *,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", readable=False, help="Where to write it [report.html]."),
    ] = None,
    form: Annotated[
        Literal["html", "md", "csv", "json"], typer.Option("--format", help="What to write.")
    ] = "html",
    share: Annotated[
        bool, typer.Option("--share", help="Leave out source code, prompts and outputs, and say so.")
    ] = False,
    run_pages: Annotated[
        bool, typer.Option("--run-pages", help="Also write a page of each run, beside the report.")
    ] = False,
    pool_versions: Annotated[
        bool, typer.Option("--pool-versions", help="Count versions of one contract together; labeled.")
    ] = False,
    keys: KeyFiles = None,
    json: JsonFlag = False,
) -> None:
    """Write one file that opens from disk, asks for nothing and prints well.

    Verdicts are computed anew from the evidence. A single run gives its page, several give a page of all.
    """
    target = Path(f"report.{form}") if out is None else out
    request = api.ReportRequest(
        out=target,
        form=form,
        is_shared=share,
        has_run_pages=run_pages,
        pool_versions=pool_versions,
        keys=load_trust(keys),
    )
    missing = find_missing_parent(target)
    built = api.build_report(paths, request)
    tell_made(missing)
    if json:
        print_json(built)
        return
    screen = Screen()
    screen.line(built.file)
    if built.beside:
        folder = Path(built.beside[0]).parent
        screen.line((f"and {counted(len(built.beside), 'file')} beside it, in {folder}", "dim"))
