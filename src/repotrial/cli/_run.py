"""`repotrial run`: verify and show."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from repotrial.cli._options import JsonFlag, RunDirectories, RunDirectory, noun
from repotrial.cli._trace import default_key_file

if TYPE_CHECKING:
    from repotrial.api import AspectVerdict, PublicKey, RunCheck, TimelineRow
    from repotrial.cli._output import Screen

__all__ = ["app"]

app = noun("run", "Runs: one agent on one contract, once.")

_MAX_TYPES_NAMED = 20
_STYLES = {
    "alert": "bold yellow",
    "intervention": "bold yellow",
    "passed": "green",
    "failed": "bold red",
    "errored": "bold magenta",
    "gap": "bold magenta",
    "end": "bold",
}
_ASPECTS = ("chain", "seal", "completeness", "identity")
_FETCH_AGAIN = "fetch the run directory again from where it was recorded, or repeat the run"
_NAME_THE_KEY = (
    "name the signer's public key with --key (its machine prints it: `repotrial trace key show`), "
    "or ask with --integrity-only whether anything changed"
)


@app.command("verify", epilog="Example: repotrial run verify runs/* --key public-key.pem")
def verify(
    directories: RunDirectories,
    *,
    key_files: Annotated[
        list[Path] | None,
        typer.Option(
            "--key",
            metavar="FILE",
            readable=False,
            help="A public key to trust (repeatable); this machine's own if left out.",
        ),
    ] = None,
    integrity_only: Annotated[
        bool, typer.Option("--integrity-only", help="Do not ask who signed, only whether anything changed.")
    ] = False,
    json: JsonFlag = False,
) -> None:
    """Check that the record of a run holds: chain, seal, completeness and identity."""
    from repotrial import api
    from repotrial.cli._batch import Verdict, work_through

    trusted = None if integrity_only else _load_trusted_keys(key_files or [])
    work_through(
        directories,
        lambda directory: api.verify_run(directory, trusted_keys=trusted),
        judge=lambda result: Verdict("holding" if result.holds else "not holding", result.holds),
        show=_show_check,
        noun="run",
        json=json,
    )


def _load_trusted_keys(key_files: list[Path]) -> list[PublicKey]:
    from repotrial import api

    if key_files:
        return api.load_public_keys(key_files)
    own = default_key_file()
    return [] if own is None else api.load_own_public_key(own)


def _show_check(screen: Screen, result: RunCheck) -> None:
    from repotrial.api import Holds
    from repotrial.cli._output import counted

    word, style = ("holds", "bold green") if result.holds else ("does not hold", "bold red")
    screen.line(
        (f"{word:<14}", style), f"{result.directory}: {counted(result.event_count, 'event')} verified"
    )
    for name in _ASPECTS:
        _show_verdict(screen, name, getattr(result, name))
    if not result.holds:
        # If nothing else is open, the files are good and only the signer is in question.
        others_hold = all(isinstance(getattr(result, name), Holds) for name in _ASPECTS if name != "seal")
        way_on = _NAME_THE_KEY if result.is_unchanged and others_hold else _FETCH_AGAIN
        screen.line((f"  fix: {way_on}", "dim"))


def _show_verdict(screen: Screen, name: str, verdict: AspectVerdict) -> None:
    from repotrial.api import CouldNotBeChecked, DoesNotHold, Holds

    match verdict:
        case Holds():
            screen.line((f"  {name:<13}holds", "green"))
            return
        case CouldNotBeChecked():
            screen.line((f"  {name:<13}could not be checked", "yellow"))
        case DoesNotHold():
            screen.line((f"  {name:<13}does not hold", "red"))
    for finding in verdict.findings:
        place = "" if finding.seq is None else f"event {finding.seq}: "
        screen.line(f"    {place}{finding.text}")


def _complete_type(incomplete: str) -> list[str]:
    from repotrial import api

    return [name for name in api.list_event_types() if name.startswith(incomplete)]


@app.command("show", epilog="Example: repotrial run show runs/textkit-noop-r0 --type acceptance-execution")
def show(
    directory: RunDirectory,
    *,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only events of this type (repeatable).",
            autocompletion=_complete_type,
        ),
    ] = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object per event, one per line.")
    ] = False,
) -> None:
    """Show what happened in a run, event by event. Nothing is verified: see `run verify`."""
    from repotrial import api
    from repotrial.cli._output import Screen, print_json_line

    screen = Screen()
    for row in _select(api.iter_run_timeline(directory), set(types or ())):
        if json:
            print_json_line(row)
        else:
            _show_row(screen, row)


def _select(rows: Iterator[TimelineRow], wanted: set[str]) -> Iterator[TimelineRow]:
    """The rows of the wanted types, all if none is named; says so where there are none."""
    from repotrial.cli._output import Screen

    missing = set(wanted)
    seen: dict[str, None] = {}
    for row in rows:
        if len(seen) < _MAX_TYPES_NAMED:
            seen[row.type] = None
        if not wanted or row.type in wanted:
            missing.discard(row.type)
            yield row
    if not seen:
        Screen(to_stderr=True).line("no events: the run ended before its first one was written")
    elif missing:
        Screen(to_stderr=True).line(
            f"no event of type {', '.join(sorted(missing))}; this trace has {', '.join(sorted(seen))}"
        )


def _show_row(screen: Screen, row: TimelineRow) -> None:
    screen.line(
        (f"{row.seq:>6} {row.elapsed_us / 1_000_000:>10.3f}s ", "dim"),
        (f"{row.actor:<9}{row.type:<22} ", _STYLES.get(row.marker.value, "")),
        row.summary,
    )
