"""`repotrial archive`: runs that are kept for years."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from repotrial import api
from repotrial._core.display import escape_unprintable
from repotrial.cli._options import JsonFlag, RunDirectories, noun
from repotrial.cli._output import Screen, counted, print_json
from repotrial.cli._trace import default_key_file, find_key_file

app = noun("archive", "Archives: what is kept of finished runs, and who decided it.")

_PlanFile: TypeAlias = Annotated[
    Path, typer.Argument(metavar="PLAN", readable=False, help="What `archive plan` wrote.")
]
_KeyFile: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--key-file",
        metavar="FILE",
        readable=False,
        help="The private key that signs; this machine's own if left out.",
    ),
]


@app.command(
    "plan",
    short_help="See what the minimal tier takes out of runs.",
    epilog="Example: repotrial archive plan runs --out archive.json",
)
def plan(
    directories: RunDirectories,
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", readable=False, help="Where to write the plan.")
    ],
    json: JsonFlag = False,
) -> None:
    """Write a plan for people to read and approve; no run is changed.

    The minimal tier keeps outcomes, digests, the score card, the chain without its texts, and the seal. Runs
    whose chain needs its texts (trace version 1) are refused by name.
    """
    found = api.plan_archive(directories, out)
    if json:
        print_json(found)
        return
    screen = Screen()
    screen.line(
        (f"{found.plan}", "bold"),
        f": {counted(found.runs, 'run')} to the tier {found.tier}; {counted(found.gone_files, 'file')} and "
        f"{found.gone_bytes:,} bytes would go",
    )
    for run, words in found.not_shown.items():
        screen.line(f"  {escape_unprintable(run)} could not show any more:")
        for line in words:
            screen.line((f"    {line}", "dim"))
    screen.line((f"next: repotrial archive approve {found.plan} --by NAME --why TEXT", "dim"))


@app.command(
    "approve",
    short_help="Sign that a plan may be carried out.",
    epilog="Example: repotrial archive approve archive.json --by custodian --why 'the pilot is over'",
)
def approve(
    plan_file: _PlanFile,
    *,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who approves.")],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; it stands in each receipt.")],
    key_file: _KeyFile = None,
    json: JsonFlag = False,
) -> None:
    """Sign the plan as it is; a plan that is changed later is not approved."""
    place = api.approve_archive(plan_file, approved_by=by, reason=why, key_file=find_key_file(key_file))
    if json:
        print_json({"approval": place})
        return
    Screen().line(place)
    Screen().line((f"next: repotrial archive apply {plan_file}", "dim"))


@app.command(
    "apply",
    short_help="Carry out an approved plan.",
    epilog="Example: repotrial archive apply archive.json",
)
def apply(
    plan_file: _PlanFile,
    *,
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--key",
            metavar="FILE",
            readable=False,
            help="A public key whose approval is believed (repeatable), beside this machine's own.",
        ),
    ] = None,
    key_file: _KeyFile = None,
    json: JsonFlag = False,
) -> None:
    """Move the runs; each gets a signed receipt in its custody.jsonl, chained to its seal.

    What is to go is on record before anything goes. Where it is cut, the same command goes on.
    """
    trusted = api.load_trusted_keys(keys or (), default_key_file())
    done = api.apply_archive(plan_file, key_file=find_key_file(key_file), trusted_keys=trusted)
    if json:
        print_json(done)
        return
    screen = Screen()
    for run in done:
        word = "was done before" if run.was_done else f"{counted(run.removed, 'file')} taken out"
        screen.line(f"{run.directory}: tier {run.tier}, {word}")
    screen.line(("next: repotrial run verify RUN_DIR names what a receipt accounts for", "dim"))
