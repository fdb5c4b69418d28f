"""`repotrial contract mine` and `contract review`: contracts from a whole history."""

from __future__ import annotations

import getpass
import shlex
from collections.abc import Sequence
from datetime import date
from pathlib import Path
from typing import Annotated

import typer

from repotrial import api
from repotrial._core.errors import USAGE, ErrorCode, ExitCode, UsageError
from repotrial.cli._machine import CacheOption, build_settings
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import Screen, counted, print_json, print_table
from repotrial.cli._trace import find_key_file

_MINUTE = 60


MINE_OPTION_INVALID = ErrorCode(
    "mine-option-invalid",
    UsageError,
    "An option of `contract mine` or `contract review` has a value that cannot be used.",
    hint="see `repotrial contract mine --help` and `repotrial contract review --help`",
)


def mine(  # noqa: PLR0913 - one option for each thing that only the author can decide
    repository: Annotated[str, typer.Argument(metavar="REPO", help="A git path, URL or bundle.")],
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", readable=False, help="Rows, page and contracts go here.")
    ],
    limit: Annotated[
        int, typer.Option("--limit", min=1, help="Candidates to try, those of earlier calls included.")
    ] = 25,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Candidates at a time.")] = 1,
    revision: Annotated[str, typer.Option("--revision", metavar="REV", help="Where to begin.")] = "HEAD",
    history: Annotated[int, typer.Option("--history", min=1, help="Commits to look at.")] = 500,
    timeout: Annotated[
        int, typer.Option("--timeout", min=10, metavar="SECONDS", help="For the trials of one candidate.")
    ] = 900,
    issues: Annotated[
        Path | None,
        typer.Option("--issues", metavar="FILE", readable=False, help="A tracker's export, for statements."),
    ] = None,
    cutoff: Annotated[
        str | None,
        typer.Option(
            "--cutoff", metavar="DATE", help="What the models were trained up to: mark older changes."
        ),
    ] = None,
    tests: Annotated[
        list[str] | None, typer.Option("--tests", metavar="GLOB", help="Which files are tests (repeatable).")
    ] = None,
    embed: Annotated[bool, typer.Option("--embed", help="Put each tree beside its contract.")] = False,
    certify: Annotated[
        bool,
        typer.Option("--certify/--no-certify", help="Certify (quick) what is proved; later, if left out."),
    ] = True,
    plan_only: Annotated[bool, typer.Option("--plan", help="Show the estimate, and try nothing.")] = False,
    key_file: Annotated[
        Path | None,
        typer.Option("--key-file", metavar="FILE", readable=False, help="The private key that signs."),
    ] = None,
    cache: CacheOption = None,
    json: JsonFlag = False,
) -> None:
    """Make contracts of the changes in a history: tried red and green, certified, and queued for a statement.

    No model is asked. Repeat the command to go on where it was ended, or with a higher --limit.
    """
    request = api.MineRequest(
        source=repository,
        directory=out,
        machine=build_settings(cache),
        key_file=find_key_file(key_file),
        limit=limit,
        revision=revision,
        history=history,
        jobs=jobs,
        seconds_per_candidate=timeout,
        is_certified=certify,
        is_embedded=embed,
        test_globs=tuple(tests or ()),
        issues=issues,
        cutoff=_parse_date(cutoff),
    )
    note = Screen(to_stderr=True)

    def on_plan(plan: api.MinePlan) -> bool:
        if not json:
            _show_plan(note, plan)
        return not plan_only

    mined = api.mine_contracts(
        request, on_plan, lambda row, left: None if json else _show_row(note, row, left)
    )
    if json:
        print_json(mined.summarize())
    else:
        _show_summary(Screen(), mined)


def _parse_date(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise MINE_OPTION_INVALID.error(
            f"--cutoff: expected a date such as 2026-03-31, found {text!r}"
        ) from error


def _show_plan(screen: Screen, plan: api.MinePlan) -> None:
    screen.line(
        f"{counted(plan.commits, 'commit')}, {counted(plan.candidates, 'candidate')} that change code and "
        f"tests, {plan.left_out} of them left out"
    )
    minutes = max(1, round(plan.seconds / _MINUTE))
    more = f", and {len(plan.to_certify)} to certify" if plan.to_certify else ""
    screen.line(f"estimate: {len(plan.todo)} to try{more}, about {counted(minutes, 'minute')}")


_STYLES = {
    "certified": "green",
    "proved": "green",
    "not-certified": "red",
    "unproved": "yellow",
    "refused": "red",
}


def _show_row(screen: Screen, row: api.MineRow, left: int) -> None:
    said = f"{row.reason}: {row.message}" if row.reason else f"{row.turning} turn, {row.staying} stay"
    screen.line(f"{row.commit[:10]} ", (row.state, _STYLES.get(row.state, "")), f" {said} ({left} left)")


def _show_summary(screen: Screen, mined: api.Mine) -> None:
    summary = mined.summarize()
    print_table(
        screen, ("step", "candidates"), [(name, str(count)) for name, count in summary.funnel.items()]
    )
    screen.line((f"page: {summary.page}", "bold"))
    waiting = summary.funnel["certified"] - summary.funnel["ready"]
    if waiting:
        command = f"repotrial contract review {shlex.quote(summary.directory)}"
        screen.line(f"next: {counted(waiting, 'statement')} to approve: `{command}`")


def review(
    directory: Annotated[
        Path, typer.Argument(metavar="DIR", readable=False, help="What `contract mine` wrote (--out).")
    ],
    *,
    batch: Annotated[int, typer.Option("--batch", min=1, help="Statements at a time.")] = 10,
    by: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Who approves; your login if left out.")
    ] = None,
    write: Annotated[
        Path | None,
        typer.Option(
            "--write", metavar="FILE", readable=False, help="Write the batch here, and open no editor."
        ),
    ] = None,
    apply: Annotated[
        Path | None,
        typer.Option("--apply", metavar="FILE", readable=False, help="Take an edited batch from here."),
    ] = None,
    json: JsonFlag = False,
) -> None:
    """Edit and approve the statements of mined contracts, several at a time, in your editor.

    A contract is ready only with a yes; the yes is recorded with its name and the statement's digest.
    """
    if apply is None:
        waiting, text = api.Mine(directory).render_batch(batch)
        if write is not None:
            write.write_text(text, encoding="utf-8")
            Screen().line(f"written: {write} ({min(batch, waiting)} of {counted(waiting, 'statement')})")
            return
        edited = _edit(text) if waiting else None
        if edited is None:
            Screen().line("nothing to review" if not waiting else "nothing was changed")
            return
    else:
        edited = _read(apply)
    outcomes = api.apply_review(directory, edited, by=by or getpass.getuser())
    if json:
        print_json(outcomes)
    else:
        _show_outcomes(outcomes)
    if any(outcome.state == "refused" for outcome in outcomes):
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise MINE_OPTION_INVALID.error(
            f"--apply: expected an edited batch in {path}, found: {error}"
        ) from error


def _show_outcomes(outcomes: Sequence[api.ReviewOutcome]) -> None:
    screen = Screen()
    for outcome in outcomes:
        said = f": {outcome.message}" if outcome.message else ""
        style = {"approved": "green", "refused": "bold red"}.get(outcome.state, "")
        screen.line((f"{outcome.state:<10}", style), f"{outcome.contract}{said}")
    if any(outcome.state == "approved" for outcome in outcomes):
        screen.line("next: name the approved ones in a suite.toml, then `repotrial suite lock --certify`")


def _edit(text: str) -> str | None:
    try:
        import click  # comes with many packages, and is needed here alone
    except ImportError:
        message = "expected the package click, which opens the editor, found none"
        raise USAGE.error(message, hint="pip install click, or use --write and --apply") from None
    return click.edit(text, extension=".md")
