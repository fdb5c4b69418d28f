"""`repotrial run replay` and `run rejudge`: a recorded run, judged again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.display import shorten_version
from repotrial.cli._batch import BatchVerdict, expand_runs, work_through
from repotrial.cli._machine import CacheOption, build_settings, verify_runs_directory
from repotrial.cli._options import JsonFlag, RunDirectories, RunDirectory
from repotrial.cli._output import Screen, counted, print_json
from repotrial.cli._trace import find_key_file


def rejudge(
    directories: RunDirectories,
    contract: Annotated[
        Path | None,
        typer.Option(
            "--contract",
            metavar="DIR",
            readable=False,
            help="The contract whose inventories judge, locked; left out: what each run recorded.",
        ),
    ] = None,
    *,
    json: JsonFlag = False,
) -> None:
    """Derive the outcomes of checks again from recorded results.

    By the inventories and draws that the run recorded, or by those of another version of its contract.

    Nothing is executed. What changed is shown, and a verdict with both contract versions on its label is
    written to rejudged/ in the run directory; the verdict of the run stays as it is.
    """
    judge = None if contract is None else api.load_judge(contract)
    work_through(
        expand_runs(directories),
        lambda directory: api.rejudge_run(directory, judge),
        judge=lambda result: BatchVerdict("changed" if result.is_changed else "unchanged", holds=True),
        show=_show_rejudged,
        noun="run",
        json=json,
    )


def _show_rejudged(screen: Screen, result: api.RejudgedRun) -> None:
    verdict = result.verdict
    word, style = ("changed", "bold yellow") if result.is_changed else ("unchanged", "bold green")
    became = (
        f"{result.recorded} -> {result.rejudged}" if result.recorded != result.rejudged else result.recorded
    )
    screen.line((f"{word:<11}", style), f"{result.directory}: {became}")
    then, now = (
        shorten_version(verdict.recorded_version_id),
        shorten_version(verdict.rejudged_version_id),
    )
    screen.line(f"  contract of the run {then}, judged by {'the same' if then == now else now}")
    for execution in verdict.executions:
        word = "changed" if execution.is_changed else "kept"
        screen.line((f"  {word:<9}", "yellow"), str(execution))
    screen.line((f"  written to {result.document}", "dim"))


def replay(
    directory: RunDirectory,
    contract: Annotated[
        Path,
        typer.Option(
            "--contract",
            metavar="DIR",
            readable=False,
            help="The contract that the run was bound to: its hidden checks are not in the run directory.",
        ),
    ],
    *,
    runs: Annotated[
        Path, typer.Option("--runs", metavar="DIR", readable=False, help="Where the replay is recorded.")
    ] = Path("replays"),
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Rebuild a run's final tree from its trace, judge it again, and compare outcome by outcome.

    No agent and no model takes part. Exit code 1 where anything came out differently.
    """
    verify_runs_directory(runs)
    key = find_key_file()
    result = api.replay_run(directory, contract, runs=runs, key_file=key, machine=build_settings(cache))
    if json:
        print_json(result)
    else:
        _show_replay(result)
    if not result.holds:
        raise typer.Exit(1)


def _show_replay(result: api.Replay) -> None:
    screen = Screen()
    word, style = ("same", "bold green") if result.holds else ("different", "bold red")
    screen.line((f"{word:<10}", style), result.run_id)
    rebuilt = "gives the change that was judged" if result.tree_rebuilt else "does not give the judged change"
    screen.line(f"  the trace alone {rebuilt}")
    if result.commands_replayed:
        more = f", {result.commands_left_out} more left out" if result.commands_left_out else ""
        ran = counted(result.commands_replayed, "test, build or lint command")
        screen.line(f"  {ran} of the agent run again{more}")
    for divergence in result.divergences:
        screen.line(f"  {divergence.what}: recorded {divergence.recorded}, now {divergence.replayed}")
    screen.line((f"  recorded in {result.directory}", "dim"))
