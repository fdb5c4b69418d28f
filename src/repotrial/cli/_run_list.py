"""`repotrial run list`: the runs of a directory, in a line each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from repotrial import api
from repotrial._core.display import neutralize
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import RUN_HEADER, Part, Screen, build_run_rows, counted, print_json, print_table

RunsDirectory: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DIR", readable=False, help="The directory that run directories are in.")
]
AgentPattern: TypeAlias = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Only runs of this agent; * and ? match.")
]
ContractPattern: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--contract",
        metavar="ID[@VERSION]",
        help="Only runs on this contract, * and ? match; with @, only on versions that begin so.",
    ),
]
_MAX_WHY = 60
StatusWord: TypeAlias = Literal["success", "failure", "acceptance-error", "invalid"]


def list_runs(
    directory: RunsDirectory = Path("runs"),
    *,
    agent: AgentPattern = None,
    contract: ContractPattern = None,
    status: Annotated[StatusWord | None, typer.Option("--status", help="Only runs that ended so.")] = None,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="ID", help="Only runs with this tag; * and ? match."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """List runs with their verdicts, each computed anew from its evidence; nothing is written."""
    wanted = api.RunFilter(agent=agent, contract=contract, status=status, tag=tag)
    entries = api.list_runs(directory, wanted)
    if json:
        print_json(entries)
        return
    screen = Screen()
    if entries:
        header = (*RUN_HEADER[:-1], "tags", RUN_HEADER[-1])
        mixed = _find_mixed(entries)
        rows: list[list[Part]] = []
        for entry, (name, *cells, place) in zip(entries, build_run_rows(entries), strict=True):
            shown = entry.contract_label if entry.contract in mixed else name
            rows.append([shown, *cells, _describe_tags(entry), place])
        print_table(screen, header, rows)
    screen.line((counted(len(entries), "run"), "bold"))


def _find_mixed(entries: Sequence[api.RunEntry]) -> set[str | None]:
    """Contracts that occur with several versions: their ids alone do not say which."""
    versions = {(entry.contract, entry.contract_version_id) for entry in entries}
    names = [name for name, _ in versions]
    return {name for name in names if names.count(name) > 1}


def _describe_tags(entry: api.RunEntry) -> str:
    """Failure modes; in brackets, why there is no failure to speak of."""
    why: tuple[str, ...] = ()
    if entry.is_stopped:
        why = ("(stopped by the operator)",)
    elif entry.status == "invalid" and entry.why is not None:
        why = (f"({neutralize(entry.why, max_characters=_MAX_WHY)})",)
    return ",".join((*why, *entry.tags)) or "-"
