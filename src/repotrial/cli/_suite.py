"""`repotrial suite`: contracts that count together."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, counted, print_json

app = noun("suite", "Suites: contracts that count together, under one id.")


@app.command(
    "lock",
    short_help="Check every contract and certificate, and write the suite's id.",
    epilog="Example: repotrial suite lock suite.toml --reason 'flaky check of parser-dates replaced'",
)
def lock(
    path: Annotated[
        Path, typer.Argument(metavar="FILE", readable=False, help="The suite's file (suite.toml).")
    ],
    *,
    reason: Annotated[
        str | None, typer.Option("--reason", metavar="TEXT", help="Why it differs from the suite before.")
    ] = None,
    key_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--key",
            metavar="FILE",
            readable=False,
            help="A public key whose certificates count (repeatable); any key if left out.",
        ),
    ] = None,
    check_only: Annotated[
        bool, typer.Option("--check", help="Write nothing; fail where the lock is not the present one.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Check that every contract is locked and fully certified, and write suite.lock.json.

    A contract or a check that was changed or removed makes another suite: its id names the one before, and
    why (--reason).
    """
    keys = api.load_trusted_keys(key_files, None) if key_files else None
    result = api.lock_suite(path, reason=reason, trusted_keys=keys, is_check=check_only)
    if json:
        print_json(result)
        return
    screen = Screen()
    screen.line((f"{'written' if result.is_written else 'unchanged'}: {result.path}", "bold"))
    screen.line(f"  suite id  {result.lock.suite_id}")
    screen.line(f"  {counted(len(result.lock.contracts), 'contract')}, each with a full certificate")
    for change in result.changes:
        screen.line(f"  changed: {change}")
    for revision in result.lock.lineage:
        screen.line(f"  before: {revision.suite_id}: {revision.reason}")
