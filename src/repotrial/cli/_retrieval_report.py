"""`repotrial retrieval report`: the figures for people, with pictures and without."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repotrial.cli._options import JsonFlag
from repotrial.cli._retrieval_compare import BASELINE, SOURCES, TREATMENT


def report(  # noqa: PLR0913 - one parameter for each option
    directories: Annotated[list[Path], SOURCES],
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", readable=False, help="Where retrieval_report.* goes.")
    ] = Path("retrieval-report"),
    formats: Annotated[
        list[str] | None,
        typer.Option("--format", metavar="FORM", help="md, csv, json or html; may be repeated [all]."),
    ] = None,
    baseline: Annotated[str | None, BASELINE] = None,
    treatment: Annotated[str | None, TREATMENT] = None,
    columns: Annotated[
        bool, typer.Option("--supplementary", help="Also each trial, with retrieval beside its outcome.")
    ] = False,
    among: Annotated[
        float | None,
        typer.Option(
            "--among", metavar="RECALL", help="Also rewards among trials with at least this recall."
        ),
    ] = None,
    flags: Annotated[
        bool, typer.Option("--flags", help="Also reasons for caution beside each trial.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Write a report: coverage, what was found and used, what it goes along with, figures and sources.

    Older reports in the same place are replaced; run directories are left as they are.
    """
    from repotrial import api
    from repotrial.cli._output import Screen, counted, print_json

    written = api.report_retrieval(
        directories,
        out,
        formats=[api.parse_report_format(word) for word in formats or api.REPORT_FORMATS],
        baseline=baseline,
        treatment=treatment,
        supplements=api.SupplementOptions(has_columns=columns, least_recall=among, has_flags=flags),
    )
    if json:
        print_json(written)
        return
    screen = Screen()
    screen.line((f"{counted(written.n_trials, 'trial')}, {written.computable} with figures", "bold"))
    for file in written.files:
        screen.line(file)
