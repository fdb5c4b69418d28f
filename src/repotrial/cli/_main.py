"""The command's outermost frame: every way to end has an exit code and words."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from repotrial._core.errors import USAGE, ErrorCode, MachineError, RepoTrialError, UsageError
from repotrial.cli._output import print_error, print_json_line

if TYPE_CHECKING:
    import typer

_INTERNAL_ERROR = 70  # EX_SOFTWARE: a fault of RepoTrial itself, never of the user's input
_STOPPED = 130  # as shells report a process that Ctrl-C ended
_PIPE_CLOSED = 141  # as shells report a process that a closed pipe ended

_OTHER_NAMES = {
    ("repotrial contract", "No such command 'lint'."): "lint is part of `repotrial contract check`",
}
"""What is looked for under a name that other tools use."""


SYSTEM_REFUSED = ErrorCode(
    "system-refused",
    MachineError,
    "The operating system refused something that the command needs, such as writing its output.",
    hint="check the free space, the permissions and the limits of this machine, then try again",
)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and end the process."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    _prepare_streams()
    try:
        status = _run(words)
        sys.stdout.flush()
    except BrokenPipeError:
        _abandon(1)
        status = _PIPE_CLOSED
    except OSError as error:
        status = _report_refusal(error)
    except KeyboardInterrupt:
        status = _STOPPED
    except Exception:  # noqa: BLE001 - the last frame: a fault must be seen, with what is needed to report it
        status = _report_fault()
    _settle_stderr()
    sys.exit(status)


def _run(words: list[str]) -> int:
    import typer

    from repotrial.cli._app import build_command, find_noun

    # typer's own switch for naming the shell (`--show-completion bash`) rather than guessing it from the
    # process tree, which fails in images, scripts and editors.
    os.environ.setdefault("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    # What follows `--` are names, whatever they look like.
    as_json = "--json" in words[: words.index("--") if "--" in words else None]
    try:
        status = build_command(find_noun(words))(words, prog_name="repotrial", standalone_mode=False)
    except RepoTrialError as error:
        return _report(error, as_json=as_json)
    except typer.TyperException as error:
        return _report_usage(error, as_json=as_json)
    except typer.Abort:
        sys.stderr.write("\nstopped: nothing was written\n")
        return _STOPPED
    except SystemExit as stop:
        # typer ends the process itself after a completion (0) and after a broken pipe.
        if isinstance(stop.__context__, BrokenPipeError):
            raise stop.__context__ from None
        raise
    return int(status or 0)


def _report(error: RepoTrialError, *, as_json: bool) -> int:
    if as_json:
        print_json_line({"error": error.to_dict()})
    else:
        print_error(error)
    return int(error.exit_code)


def _report_usage(error: typer.TyperException, *, as_json: bool) -> int:
    """A mistake on the command line, as the parser found it, in the form of our own errors."""
    # The parser has no public name for it: a noun without a verb, whose message is the noun's help.
    if type(error).__name__ == "NoArgsIsHelpError":
        sys.stderr.write(f"{error.format_message()}\n")
        return int(UsageError.exit_code)
    context = getattr(error, "ctx", None)
    command = context.command_path if context else "repotrial"
    message = error.format_message().replace("Value error, ", "")  # the name of a type of the parser's
    hint = _OTHER_NAMES.get((command, message), f"see `{command} --help`")
    return _report(USAGE.error(message, hint=hint), as_json=as_json)


def _report_refusal(error: OSError) -> int:
    if error.errno is None:  # raised by a library, not by the system
        return _report_fault()
    _abandon(1)
    return _report(SYSTEM_REFUSED.error(f"expected the system to comply, found: {error}"), as_json=False)


def _prepare_streams() -> None:
    """No encoding, and no missing stream, ends in a traceback; a line is out when it was written."""
    # A stream that was closed before the start is None.
    sys.stdin = sys.stdin or open(os.devnull, encoding="utf-8")  # noqa: SIM115, PTH123 - for the whole process
    sys.stdout = sys.stdout or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for the whole process
    sys.stderr = sys.stderr or open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - for the whole process
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)  # a stream that a caller put there may have none
        if reconfigure is not None:
            reconfigure(errors="backslashreplace", line_buffering=True)


def _settle_stderr() -> None:
    try:
        sys.stderr.flush()
    except OSError:  # it cannot be written; the exit code still says it
        _abandon(2)


def _abandon(descriptor: int) -> None:
    """Python flushes once more on its way out; what cannot be written would cost the exit code."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)


def _report_fault() -> int:
    import platform
    import traceback

    from repotrial import __version__
    from repotrial._core.display import escape_unprintable

    sys.stderr.write(escape_unprintable(traceback.format_exc(), keep="\n"))
    sys.stderr.write(
        "\nThis is a fault of RepoTrial itself, not of your input. Please report it with the lines above\n"
        f"(repotrial {__version__}, Python {platform.python_version()}, {platform.platform()}).\n"
    )
    return _INTERNAL_ERROR
