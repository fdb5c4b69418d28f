"""`repotrial report`: what people look at."""

from __future__ import annotations

import getpass
import os
import threading
from pathlib import Path
from typing import Annotated, Literal

import typer

from repotrial import api
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import JsonFlag, LookFlag, noun
from repotrial.cli._output import Screen, counted, print_json
from repotrial.cli._run_page import find_missing_parent, tell_made
from repotrial.cli._signals import stop_on_signals
from repotrial.cli._trace import KeyFiles, find_key_file, load_trust

app = noun("report", "Reports: pages about runs, trials and retrieval; a viewer.")


@app.callback()
def _hold_together() -> None:
    """Keep the noun a group, however many verbs it has."""


@app.command(
    "build",
    short_help="Write one report about runs, pilots, tables of trials or retrieval.",
    epilog="Example: repotrial report build runs --out report.html",
)
def build(  # noqa: PLR0913 - one parameter for each option
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            readable=False,
            help="Run directories, directories of runs, pilots, retrieval results, a table of trials (.csv), "
            "what `pilot analyze --json` printed (.json), the address of a store; any mix.",
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
    look: LookFlag = False,
    keys: KeyFiles = None,
    json: JsonFlag = False,
) -> None:
    """Write one file that opens from disk, asks for nothing and prints well.

    Verdicts are computed anew from the evidence. A single run gives its page, several give a page of all. A
    pilot gives its results after its end, and its plan alone before it.
    """
    target = Path(f"report.{form}") if out is None else out
    request = api.ReportRequest(
        out=target,
        form=form,
        is_shared=share,
        has_run_pages=run_pages,
        pool_versions=pool_versions,
        keys=load_trust(keys),
        look_key=find_key_file() if look else None,
    )
    missing = find_missing_parent(target)
    with api.open_places(paths, os.environ) as places:
        built = api.build_report(places, request)
    tell_made(missing)
    if json:
        print_json(built)
        return
    screen = Screen()
    screen.line(built.file)
    if built.beside:
        folder = Path(built.beside[0]).parent
        screen.line((f"and {counted(len(built.beside), 'file')} beside it, in {folder}", "dim"))


@app.command(
    "serve",
    short_help="Look at runs and pilots in a browser, live, and answer those that wait.",
    epilog="Example: repotrial report serve runs",
)
def serve(
    directory: Annotated[
        Path,
        typer.Argument(metavar="[DIR]", readable=False, help="Runs, pilots, or directories of them."),
    ] = Path(),
    *,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Listen there; others can then reach it.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option("--port", metavar="N", min=0, max=65535, help="Listen there; 0 takes a free one.")
    ] = 0,
    operator: Annotated[
        str | None, typer.Option("--operator", metavar="NAME", help="Who decides; your account if left out.")
    ] = None,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Serve a directory on this machine, until Ctrl-C. The address that is printed carries a secret token.

    Nothing is written into run directories. Decisions go to the harness that waits for them.
    """
    machine = build_settings(cache)
    settings = api.ViewerSettings(
        root=directory.absolute(),
        cache=machine.cache,
        host=host,
        port=port,
        operator=operator or getpass.getuser(),
    )
    ended = threading.Event()
    with stop_on_signals(ended.set):
        api.serve_runs(
            settings, machine, on_ready=lambda guard: _tell_ready(guard, json=json), wait=ended.wait
        )


def _tell_ready(guard: api.ViewerGuard, *, json: bool) -> None:
    address = f"{guard.address}?token={guard.token}"
    if json:
        print_json({"address": address, "is_local": guard.is_local})
        return
    screen = Screen()
    screen.line(address)
    screen.line(("The token in it is the key: who has the address can read all runs here and decide.", "dim"))
    if not guard.is_local:
        screen.line(
            ("Other machines can reach this address, and nothing is encrypted on the way.", "bold yellow")
        )
