"""`repotrial sandbox`: look around where the checks will run."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from repotrial._core.display import escape_unprintable
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import ContractDirectory, JsonFlag, noun

if TYPE_CHECKING:
    from repotrial.api import CommandResult

__all__ = ["app"]

app = noun("sandbox", "Sandboxes: where agents and checks run.")

_SIGNALED = 128  # what shells add to a signal's number
_STOPPED = 124  # what timeout(1) gives


@app.command("exec", epilog="Example: repotrial sandbox exec DIR -- python -m pytest -q tests")
def execute(
    directory: ContractDirectory,
    command: Annotated[list[str], typer.Argument(metavar="COMMAND", help="The program and its arguments.")],
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
    from repotrial import api
    from repotrial.cli._output import print_json

    result = api.execute_in_contract(
        directory, tuple(command), machine=build_settings(cache), timeout_seconds=timeout_seconds
    )
    if json:
        print_json(result)
    else:
        _pass_on(result.stdout.prefix, sys.stdout)
        _pass_on(result.stderr.prefix, sys.stderr)
    raise typer.Exit(_exit_code(result))


def _pass_on(data: bytes, stream: TextIO) -> None:
    """Bytes as they are, except to a terminal: what a candidate prints gets no power over it."""
    if stream.isatty():
        stream.write(escape_unprintable(data.decode("utf-8", "backslashreplace"), keep="\n\t"))
    else:
        stream.buffer.write(data)
    stream.flush()


def _exit_code(result: CommandResult) -> int:
    from repotrial.api import Exited, Signaled

    match result.exit:
        case Exited(code=code):
            return code
        case Signaled(signal=signal):
            return _SIGNALED + signal
        case _:
            from repotrial.cli._output import Screen

            Screen(to_stderr=True).line(("ended by the sandbox: ", "bold red"), result.cause)
            return _STOPPED
