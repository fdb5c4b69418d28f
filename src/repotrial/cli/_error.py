"""`repotrial error`: what a code means."""

from __future__ import annotations

from typing import Annotated

import typer

from repotrial import api
from repotrial.cli._options import JsonFlag, noun
from repotrial.cli._output import Screen, print_json

app = noun("error", "What error codes mean.")


@app.command("list", epilog="Example: repotrial error list --json")
def list_errors(*, json: JsonFlag = False) -> None:
    """List every error code, with who is to act."""
    entries = api.list_errors()
    if json:
        print_json(entries)
        return
    screen = Screen()
    for entry in entries:
        screen.line((f"{entry.code:<32} ", "bold"), (f"{entry.blame:<10} ", "dim"), entry.summary)


def _complete_code(incomplete: str) -> list[str]:
    return [entry.code for entry in api.list_errors() if entry.code.startswith(incomplete)]


@app.command("show", epilog="Example: repotrial error show contract-invalid")
def show_error(
    code: Annotated[
        str,
        typer.Argument(
            metavar="CODE", help="The code in brackets of a message.", autocompletion=_complete_code
        ),
    ],
    *,
    json: JsonFlag = False,
) -> None:
    """Explain one error code."""
    entry = api.find_error(code)
    if json:
        print_json(entry)
        return
    screen = Screen()
    screen.line((f"{entry.code}: ", "bold"), " ".join(entry.description.split()))
    screen.line(f"  to act:    {entry.blame}")
    screen.line(f"  exit code: {entry.exit_code}")
    if entry.hint:
        screen.line(f"  fix:       {entry.hint}")
