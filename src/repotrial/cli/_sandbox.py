"""`repotrial sandbox`: look around where the checks will run."""

from __future__ import annotations

import sys
from typing import Annotated, TextIO

import typer

from repotrial import api
from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ExitCode
from repotrial._core.words import Level
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import ContractDirectory, JsonFlag, LevelOption, noun
from repotrial.cli._output import Screen, counted, print_json

app = noun("sandbox", "Sandboxes: where agents and checks run.")


@app.command(
    "exec",
    short_help="Run a command where a contract's checks will run.",
    epilog="Example: repotrial sandbox exec DIR -- python -m pytest -q tests",
)
def execute(
    directory: ContractDirectory,
    command: Annotated[
        list[str], typer.Argument(metavar="COMMAND...", help="The program and its arguments.")
    ],
    *,
    timeout_seconds: Annotated[
        int, typer.Option("--timeout", min=1, metavar="SECONDS", help="End it after this long.")
    ] = 600,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Run a command on a contract's snapshot, with its tools, without network; changes are thrown away.

    Ends with the command's own exit code. With --json, what it printed stands in base64.
    """
    result = api.execute_in_contract(
        directory, tuple(command), machine=build_settings(cache), timeout_seconds=timeout_seconds
    )
    if json:
        print_json(result)
    else:
        _pass_on(result.stdout.prefix, sys.stdout)
        _pass_on(result.stderr.prefix, sys.stderr)
    status = api.find_shell_status(result)
    if status.trouble is not None:
        Screen(to_stderr=True).line((f"{status.trouble}: ", "bold red"), status.reason)
    raise typer.Exit(status.code)


@app.command(
    "probe",
    short_help="Try to get out of a sandbox, in every known way.",
    epilog="Example: repotrial sandbox probe --level L2 --json",
)
def probe(
    *,
    level: LevelOption = Level.L3,
    json: JsonFlag = False,
) -> None:
    """Try to get out of a sandbox on this machine, in every known way, and show what came of each attempt.

    Exit codes: 0 everything held, 1 something did not, 3 this machine has no such level.
    """
    report = api.probe_sandbox(level)
    if json:
        print_json(report)
    else:
        screen = Screen()
        width = max(len(result.tries) for result in report.results)
        styles = {"held": "green", "not-promised": "yellow"}
        screen.line((f"{'attempt':<{width}}  {'expected':<12}  {'found':<16}  verdict", "bold"))
        for result in report.results:
            word = result.verdict if result.verdict in styles else result.verdict.upper()
            screen.line(
                f"{result.tries:<{width}}  {result.expected:<12}  {result.found:<16}  ",
                (word, styles.get(result.verdict, "bold red")),
            )
        kept = sum(result.verdict == "held" for result in report.results)
        screen.line(
            f"{report.level.value}, harness uid {report.harness_uid}, programs as uid {report.sandbox_uid}: "
            f"{kept} of {counted(len(report.results), 'attempt')} held"
        )
    if not report.has_held:
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


def _pass_on(data: bytes, stream: TextIO) -> None:
    """Bytes as they are, except to a terminal: what a candidate prints gets no power over it."""
    if stream.isatty():
        stream.write(escape_unprintable(data.decode("utf-8", "backslashreplace"), keep="\n\t"))
    else:
        stream.buffer.write(data)
    stream.flush()
