"""`repotrial run replay`: the recorded change, judged again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import JsonFlag, RunDirectory
from repotrial.cli._runs_directory import verify_runs_directory
from repotrial.cli._trace import HOME_UNKNOWN, default_key_file

if TYPE_CHECKING:
    from repotrial.api import Replay


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
    from repotrial import api
    from repotrial.cli._output import print_json

    verify_runs_directory(runs)
    key = default_key_file()
    if key is None:
        raise HOME_UNKNOWN.error("expected a home directory with the key, found that this user has none")
    result = api.replay_run(directory, contract, runs=runs, key_file=key, machine=build_settings(cache))
    if json:
        print_json(result)
    else:
        _show_replay(result)
    if not result.holds:
        raise typer.Exit(1)


def _show_replay(result: Replay) -> None:
    from repotrial.cli._output import Screen, counted

    screen = Screen()
    word, style = ("same", "bold green") if result.holds else ("different", "bold red")
    screen.line((f"{word:<10}", style), result.run_id)
    rebuilt = "gives the change that was judged" if result.tree_rebuilt else "does not give the judged change"
    screen.line(f"  the trace alone {rebuilt}")
    if result.commands_replayed:
        screen.line(f"  {counted(result.commands_replayed, 'test command')} of the agent run again")
    for divergence in result.divergences:
        screen.line(f"  {divergence.what}: recorded {divergence.recorded}, now {divergence.replayed}")
    screen.line((f"  recorded in {result.directory}", "dim"))
