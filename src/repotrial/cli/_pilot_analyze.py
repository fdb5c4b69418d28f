"""`repotrial pilot analyze`: from trials to figures that decide."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.display import escape_unprintable
from repotrial._core.errors import USAGE
from repotrial.cli._options import JsonFlag, LookFlag
from repotrial.cli._output import Screen, print_json
from repotrial.cli._trace import find_key_file


def analyze(
    directory: Annotated[
        Path | None,
        typer.Argument(metavar="[DIR]", readable=False, help="A conducted pilot's directory."),
    ] = None,
    *,
    table: Annotated[
        Path | None,
        typer.Option(
            "--table",
            metavar="PATH",
            readable=False,
            help="Instead of a pilot: a CSV table of trials, or results of Harbor, Inspect or SWE-bench.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            readable=False,
            help="Also write analysis.json, analysis.md and CSV tables there.",
        ),
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(
            "--check",
            metavar="FILE.json",
            readable=False,
            help="Compute everything anew and compare it with this analysis.json; exit code 1 if it differs.",
        ),
    ] = None,
    look: LookFlag = False,
    json: JsonFlag = False,
) -> None:
    """Decision, rates with intervals over tasks, differences adjusted for each other, ties, bounds, costs.

    Of a conducted pilot: from its documents and run directories alone, on any machine; nothing is executed.
    Of a table (task,arm,repeat,outcome,cost_usd,wall_seconds): an outcome is success, failure, error or
    invalid; cost_usd and wall_seconds may be empty. Results of Harbor (a job), Inspect (logs) and SWE-bench
    (report files) are read as they are. None of these is witnessed. The rate is successes over all planned
    trials, or over all trials of the table.
    """
    if (directory is None) == (table is None):
        raise USAGE.error(
            "expected a pilot's directory or --table, found " + ("neither" if table is None else "both"),
            hint="see `repotrial pilot analyze --help`",
        )
    if table is not None:
        found = api.analyze_table(table)
    else:
        found = api.analyze_conducted(Path(directory or "."), find_key_file() if look else None)
    if check is not None:
        api.check_analysis(found, check)
    texts = api.report_analysis(found, out)
    screen = Screen(to_stderr=True)
    if json:
        print_json(found)
    elif check is None:
        for line in texts["analysis.md"].splitlines():
            sys.stdout.write(f"{escape_unprintable(line)}\n")
    if check is not None:
        screen.line((f"{check}: every figure computed anew is the same", "bold green"))
    if out is not None:
        screen.line(f"written to {out}: {', '.join(texts)}")


def bundle(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", readable=False, help="A conducted pilot's directory.")
    ],
    *,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="FILE.tar", readable=False, help="The archive; must not exist yet."),
    ],
    json: JsonFlag = False,
) -> None:
    """Pack plan, registrations, journal, labels, runs and the analysis into one archive for an outsider.

    It has a list of digests (SHA256SUMS) and no key. Unpacked anywhere, `pilot analyze DIR --check
    DIR/analysis/analysis.json` computes every figure anew; nothing is executed.
    """
    found = api.bundle_pilot(directory, out)
    if json:
        print_json(found)
        return
    screen = Screen()
    screen.line((f"written: {found.path}: {found.files} files, {found.digest}", "bold"))
    check = f"{found.folder} --check {found.folder}/analysis/analysis.json"
    screen.line((f"to check it: tar -xf {out.name} && repotrial pilot analyze {check}", "dim"))
