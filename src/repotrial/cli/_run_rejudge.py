"""`repotrial run rejudge`: a corrected judge applied to recorded runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repotrial.cli._options import JsonFlag, RunDirectories

if TYPE_CHECKING:
    from repotrial.api import RejudgedRun
    from repotrial.cli._output import Screen


def rejudge(
    directories: RunDirectories,
    contract: Annotated[
        Path,
        typer.Option(
            "--contract",
            metavar="DIR",
            readable=False,
            help="The contract whose inventories judge, locked; also another version of the runs' contract.",
        ),
    ],
    *,
    json: JsonFlag = False,
) -> None:
    """Derive the outcomes of checks again from recorded results, by the inventories of a contract.

    Nothing is executed. What changed is shown, and a verdict with both contract versions on its label is
    written to rejudged/ in the run directory; the verdict of the run stays as it is.
    """
    from repotrial import api
    from repotrial.cli._batch import Verdict, expand_runs, work_through

    judge = api.load_judge(contract)
    work_through(
        expand_runs(directories),
        lambda directory: api.rejudge_run(directory, judge),
        judge=lambda result: Verdict("changed" if result.is_changed else "unchanged", holds=True),
        show=_show_rejudged,
        noun="run",
        json=json,
    )


def _show_rejudged(screen: Screen, result: RejudgedRun) -> None:
    from repotrial.api import shorten_version

    verdict = result.verdict
    word, style = ("changed", "bold yellow") if result.is_changed else ("unchanged", "bold green")
    became = (
        f"{result.recorded} -> {result.rejudged}" if result.recorded != result.rejudged else result.recorded
    )
    screen.line((f"{word:<11}", style), f"{result.directory}: {became}")
    then, now = shorten_version(verdict.recorded_version_id), shorten_version(verdict.rejudged_version_id)
    screen.line(f"  contract of the run {then}, judged by {'the same' if then == now else now}")
    for execution in verdict.executions:
        word = "changed" if execution.is_changed else "kept"
        screen.line((f"  {word:<9}", "yellow"), str(execution))
    screen.line((f"  written to {result.document}", "dim"))
