"""`repotrial run`: the noun with its verbs, and the one that verifies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial.cli._batch import BatchVerdict, expand_runs, work_through
from repotrial.cli._options import JsonFlag, RunDirectories, noun
from repotrial.cli._output import Screen, counted
from repotrial.cli._run_again import rejudge, replay
from repotrial.cli._run_compare import compare
from repotrial.cli._run_cost import cost
from repotrial.cli._run_export import export
from repotrial.cli._run_oversight import decide, recompute
from repotrial.cli._run_page import page
from repotrial.cli._run_show import show
from repotrial.cli._run_start import retry, start
from repotrial.cli._run_summary import list_runs, summarize
from repotrial.cli._run_verdict import score
from repotrial.cli._run_why import why
from repotrial.cli._trace import default_key_file

app = noun("run", "Runs: one agent on one contract, once.")
app.command("start", epilog="Example: repotrial run start DIR --agent noop --agent script:fix.sh")(start)
app.command(
    "retry",
    short_help="Repeat runs that ended for a cause not the agent's.",
    epilog="Example: repotrial run retry --cause provider",
)(retry)

_ASPECTS = ("chain", "seal", "completeness", "identity")
_FETCH_AGAIN = "fetch the run directory again from where it was recorded, or repeat the run"
_STOPPED = (
    "the operator stopped this run, and it was sealed as it stood: nothing was changed since and there is "
    "nothing to fetch; it was conducted again, or will be when the same `repotrial run start` is given again"
)
_ASPECT_STYLES = {"holds": "green", "could-not-be-checked": "yellow", "does-not-hold": "red"}
_WORDS = {"holding": "holds", "not holding": "does not hold", "stopped": "stopped"}
_STYLES = {"holds": "bold green", "does not hold": "bold red", "stopped": "bold yellow"}
_NAME_THE_KEY = (
    "name the signer's public key with --key (its machine prints it: `repotrial trace key show`), "
    "or ask with --integrity-only whether anything changed"
)


@app.command(
    "verify",
    short_help="Check that the record of a run holds.",
    epilog="Example: repotrial run verify runs --key public-key.pem",
)
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
    """Check that the record of a run holds: chain, seal, completeness and identity.

    The address of a store (file:DIR, s3://…) stands for the runs of its plan that count. Exit code 1 if one
    of the four does not hold, for any reason: a run that was stopped is not complete.
    """
    trusted = None if integrity_only else api.load_trusted_keys(key_files or (), default_key_file())
    with api.open_places(directories, os.environ) as places:
        work_through(
            expand_runs(places),
            lambda directory: api.verify_run(directory, trusted_keys=trusted),
            judge=lambda result: BatchVerdict(_find_word(result), result.holds),
            show=_show_check,
            noun="run",
            json=json,
        )


def _show_check(screen: Screen, result: api.RunCheck) -> None:
    word = _WORDS[_find_word(result)]
    screen.line(
        (f"{word:<14}", _STYLES[word]), f"{result.directory}: {counted(result.event_count, 'event')} verified"
    )
    if result.withdrawn_count:
        taken = counted(result.withdrawn_count, "text")
        screen.line(f"  {taken} taken out after the run; digests and lengths are there")
    if result.archived is not None:
        _show_archived(screen, result.archived)
    for name in _ASPECTS:
        verdict = getattr(result, name)
        aspect = verdict.__struct_config__.tag
        screen.line((f"  {name:<13}{aspect.replace('-', ' ')}", _ASPECT_STYLES[aspect]))
        for finding in () if aspect == "holds" else verdict.findings:
            place = "" if finding.seq is None else f"event {finding.seq}: "
            screen.line(f"    {place}{finding.text}")
    if result.is_stopped and not result.holds:
        screen.line((f"  {_STOPPED}", "dim"))
    elif not result.holds:
        screen.line((f"  fix: {_NAME_THE_KEY if result.lacks_only_trust else _FETCH_AGAIN}", "dim"))


def _show_archived(screen: Screen, archived: api.ArchivedRun) -> None:
    gone = counted(archived.gone_files, "file")
    screen.line(
        f"  tier {archived.tier}: {gone} taken out, approved by {archived.approved_by}: {archived.reason}"
    )
    if not archived.is_finished:
        screen.line(("  the move was cut; `repotrial archive apply PLAN` finishes it", "yellow"))
    for words in archived.not_shown:
        screen.line((f"  cannot be shown any more: {words}", "dim"))


def _find_word(result: api.RunCheck) -> str:
    if result.holds:
        return "holding"
    return "stopped" if result.is_stopped else "not holding"


app.command(
    "show",
    short_help="Show the verdict on a run, and what happened in it.",
    epilog="Example: repotrial run show runs/textkit-noop-r0 --type termination",
)(show)
app.command(
    "why",
    short_help="Say on one screen why a run ended as it did.",
    epilog="Example: repotrial run why runs/textkit-noop-r0",
)(why)
app.command(
    "score",
    short_help="Compute the verdict on a run anew, from its evidence.",
    epilog="Example: repotrial run score runs --json",
)(score)
app.command(
    "page",
    short_help="Write one HTML page of a run.",
    epilog="Example: repotrial run page runs/textkit-noop-r0 -o noop.html",
)(page)
app.command(
    "replay",
    short_help="Rebuild the change from the trace, and judge it again.",
    epilog="Example: repotrial run replay runs/textkit-noop-r0 --contract DIR",
)(replay)
app.command(
    "rejudge",
    short_help="Derive outcomes again by a corrected contract.",
    epilog="Example: repotrial run rejudge runs --contract DIR",
)(rejudge)
app.command(
    "cost", short_help="State what runs cost.", epilog="Example: repotrial run cost runs --prices book.csv"
)(cost)
app.command(
    "recompute",
    short_help="Derive the decisions of the breakers again.",
    epilog="Example: repotrial run recompute runs",
)(recompute)
app.command(
    "decide",
    short_help="Decide on a run that waits for a person.",
    epilog="Example: repotrial run decide runs/one --allow --why 'a test fixture'",
)(decide)
app.command(
    "list",
    short_help="List runs with their verdicts.",
    epilog="Example: repotrial run list runs --tag acceptance-failure",
)(list_runs)
app.command(
    "compare",
    short_help="Show two runs side by side.",
    epilog="Example: repotrial run compare runs/one runs/other --force",
)(compare)
app.command(
    "summary",
    short_help="How agents did, what it took, how sure one can be.",
    epilog="Example: repotrial run summary runs --compare noop,reference",
)(summarize)
app.command(
    "export",
    short_help="Write runs in the format of another tool.",
    epilog="Example: repotrial run export junit runs --out junit.xml",
)(export)
