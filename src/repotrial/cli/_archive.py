"""`repotrial archive`: runs that are kept for years."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from repotrial import api
from repotrial._core.clock import format_moment
from repotrial._core.display import escape_unprintable
from repotrial.cli._options import JsonFlag, RunDirectories, RunDirectory, noun
from repotrial.cli._output import Screen, ScreenPart, counted, print_json, print_table
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

_Originals: TypeAlias = Annotated[
    Path,
    typer.Option(
        "--originals",
        metavar="DIR",
        readable=False,
        help="Where the vaults of runs are: `originals` of the custody policy.",
    ),
]
_ORIGINALS: Final = Path("originals")


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


@app.command(
    "open",
    short_help="Open originals of redacted texts, on record.",
    epilog="Example: repotrial archive open RUN_DIR --reason 'appeal 7' --identity me.txt --out opened",
)
def open_(  # noqa: PLR0913 - one option for each thing that a request says
    directory: RunDirectory,
    *,
    reason: Annotated[
        str, typer.Option("--reason", metavar="TEXT", help="Why; it stands in the access log.")
    ],
    identity: Annotated[
        Path,
        typer.Option(
            "--identity", metavar="FILE", readable=False, help="A recipient's identity, from `age-keygen`."
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", readable=False, help="Where the texts are written.")
    ],
    originals: _Originals = _ORIGINALS,
    digests: Annotated[
        list[str] | None,
        typer.Option("--digest", metavar="SHA256", help="Only this original (repeatable)."),
    ] = None,
    key_file: _KeyFile = None,
    json: JsonFlag = False,
) -> None:
    """Write texts as they were before redaction, each under its digest.

    The signed request is in the access log, and on the disk, before anything is decrypted; a request by
    a holder of another identity is refused, and is in the log as well.
    """
    found = api.open_originals(
        directory,
        vaults=originals,
        identity_file=identity,
        reason=reason,
        key_file=find_key_file(key_file),
        out=out,
        digests=digests or (),
    )
    if json:
        print_json(found)
        return
    screen = Screen()
    for item in found:
        places = ", ".join(map(str, item.events))
        screen.line(item.file, (f"  events {places}" if places else "  short text of an event", "dim"))
    screen.line(f"{counted(len(found), 'original')} opened; the request is in the access log")


@app.command(
    "log",
    short_help="Show who opened originals of a run, and verify that log.",
    epilog="Example: repotrial archive log RUN_DIR --originals originals",
)
def log(
    directory: RunDirectory,
    *,
    originals: _Originals = _ORIGINALS,
    keys: Annotated[
        list[Path] | None,
        typer.Option(
            "--key",
            metavar="FILE",
            readable=False,
            help="A public key whose requests are believed (repeatable); without it, any.",
        ),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Verify the chain and the signatures of an access log, and show each request."""
    trusted = api.load_trusted_keys(keys, None) if keys else ()
    found = api.show_access(directory, vaults=originals, trusted_keys=trusted)
    if json:
        print_json(found)
        return
    screen = Screen()
    screen.line((found.run, "bold"), f": {counted(found.originals, 'original')}; the log holds")
    for recipient in found.recipients:
        screen.line(f"  can be opened by {recipient}")
    rows: list[list[ScreenPart]] = [
        [
            format_moment(entry.at_us),
            entry.action,
            str(len(entry.originals)),
            escape_unprintable(entry.by),
            escape_unprintable(entry.reason),
        ]
        for entry in found.entries
    ]
    if rows:
        print_table(screen, ("when", "what", "originals", "by", "why"), rows)


@app.command(
    "shred",
    short_help="Take the originals of runs away for good, on record.",
    epilog="Example: repotrial archive shred runs --by custodian --why 'retention ended'",
)
def shred(
    directories: RunDirectories,
    *,
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who ordered it.")],
    why: Annotated[str, typer.Option("--why", metavar="TEXT", help="The reason; it stands in the log.")],
    originals: _Originals = _ORIGINALS,
    key_file: _KeyFile = None,
    json: JsonFlag = False,
) -> None:
    """Delete the encrypted originals of sealed runs; the records stay as they are.

    The log lists what was there before anything goes. Where it is cut, the same command finishes it.
    """
    done = api.shred_originals(
        directories, vaults=originals, by=by, reason=why, key_file=find_key_file(key_file)
    )
    if json:
        print_json(done)
        return
    for run, gone in done.items():
        Screen().line(f"{run}: {counted(gone, 'original')} taken away")
