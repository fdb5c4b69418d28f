"""`repotrial run recompute` and `run decide`: what breakers decided, and what a person decides."""

from __future__ import annotations

import getpass
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cli._batch import BatchVerdict, expand_runs, work_through
from repotrial.cli._options import JsonFlag, RunDirectories, RunDirectory
from repotrial.cli._output import Screen, counted, print_json

DECISION_MISSING = ErrorCode(
    "decision-missing",
    UsageError,
    "A decision has to be one of two things.",
    hint="give exactly one of --allow and --abort",
)


def recompute(directories: RunDirectories, *, json: JsonFlag = False) -> None:
    """Derive every decision of the breakers again, from the trace alone, and hold it against the record."""
    work_through(
        expand_runs(directories),
        api.recompute_run,
        judge=lambda result: BatchVerdict("agreeing" if result.holds else "not agreeing", result.holds),
        show=_show,
        noun="run",
        json=json,
    )


def _show(screen: Screen, result: api.RecomputedRun) -> None:
    word, style = ("agrees", "bold green") if result.holds else ("does not agree", "bold red")
    rules = "" if result.rules is None else f" by rules {result.rules}"
    count = counted(len(result.decisions), "decision")
    screen.line((f"{word:<15}", style), f"{result.directory}: {count}{rules}")
    for item in result.decisions:
        place = "" if item.alert is None else f"  alert {item.alert}"
        done = "" if item.intervention is None else f"  intervention {item.intervention}"
        screen.line((f"  {item.status:<22}", "" if item.is_agreed else "red"), f"{item.rule}{place}{done}")


def decide(
    directory: RunDirectory,
    *,
    allow: Annotated[bool, typer.Option("--allow", help="Let the run go on.")] = False,
    abort: Annotated[bool, typer.Option("--abort", help="End the run.")] = False,
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason, in your words.")],
    reason: Annotated[
        str, typer.Option("--reason", metavar="CODE", help="A stable kebab-case reason.")
    ] = "reviewed",
    operator: Annotated[
        str | None, typer.Option("--operator", metavar="NAME", help="Who decides; your account if left out.")
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Decide on a run that is paused and waits for a person; its harness puts the decision on record."""
    if allow == abort:
        raise DECISION_MISSING.error("expected one of --allow and --abort, found both or none")
    path = api.decide_run(
        directory, is_allowed=allow, operator=operator or getpass.getuser(), reason=reason, text=why
    )
    if json:
        print_json({"directory": str(directory), "dropped": str(path)})
    else:
        Screen().line(f"dropped {path}; the run's harness takes it from there")
