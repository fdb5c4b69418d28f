"""The tree of commands."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Annotated, Any, Final

import typer
import typer.main

from repotrial import __version__
from repotrial.cli._doctor import doctor

NOUNS: Final = (
    "contract",
    "suite",
    "pilot",
    "run",
    "fleet",
    "agent",
    "retrieval",
    "report",
    "trace",
    "archive",
    "sandbox",
    "image",
    "cache",
    "error",
)
"""In the order of the help; each is a module with an `app`."""
_EXIT_CODES = (
    "Exit codes: 0 done, 1 the thing checked does not hold, 2 bad usage or input, 3 this machine cannot."
)

_WAY_IN = f"""\
RepoTrial {__version__}: coding agents on trial, on real repositories.

  repotrial contract new --help         write a contract for a repository of yours
  repotrial contract mine --help        contracts of a whole history, tried and proved
  repotrial contract check DIR          see whether a contract is sound
  repotrial contract lock DIR           pin it: every digest, one version id
  repotrial run start DIR --agent noop  put agents on trial
  repotrial run summary RUNS            how they did, and how sure one can be of it
  repotrial pilot init --help           compare agents by a plan that is frozen first
  repotrial report build RUNS           the same as a page to read and hand around
  repotrial run verify RUN_DIR          does the record of a run hold?
  repotrial run show RUN_DIR            what happened in it
  repotrial doctor                      what can this machine isolate, and how well?

`repotrial NOUN --help` lists a noun's verbs; every verb's --help has an example.
{_EXIT_CODES}
"""


def find_noun(words: Sequence[str]) -> str | None:
    """The noun that a command line is about; None if all of them are wanted, as for help."""
    is_completing = "_REPOTRIAL_COMPLETE" in os.environ
    return words[0] if words and words[0] in NOUNS and not is_completing else None


@cache
def build_command(noun: str | None = None) -> Callable[..., Any]:
    """The tree of commands, or one noun's branch of it: the rest takes longer than many commands do."""
    app = typer.Typer(
        name="repotrial",
        help="Evaluate coding agents on real repositories, with executable contracts.",
        epilog=_EXIT_CODES,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback(invoke_without_command=True)(_root)
    for name in NOUNS if noun is None else (noun,):
        # A command is of one noun: the others are not loaded.
        app.add_typer(importlib.import_module(f"repotrial.cli._{name}").app)  # noqa: TID251 - of this room
    app.command(
        "doctor",
        short_help="Find out what this machine can isolate, and how well.",
        epilog="Example: repotrial doctor --json",
    )(doctor)
    return typer.main.get_command(app)


def _print_version(value: bool) -> None:  # noqa: FBT001 - typer calls it with the value alone
    if value:
        typer.echo(f"repotrial {__version__}")
        raise typer.Exit


def _root(
    context: typer.Context,
    *,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and stop."),
    ] = False,
) -> None:
    del version  # its callback has done the work
    if context.invoked_subcommand is None:
        typer.echo(_WAY_IN, nl=False)
