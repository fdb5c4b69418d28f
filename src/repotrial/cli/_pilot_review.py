"""`repotrial pilot review`: a queue of runs for people, blinded cases, labels."""

from __future__ import annotations

import math
import sys
import time
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Literal, TypeAlias, get_args

import typer

from repotrial import api
from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cli._options import JsonFlag
from repotrial.cli._output import Screen, ScreenPart, counted, print_error, print_json, print_table
from repotrial.cli._pilot_run import PilotDirectory

_Verdict: TypeAlias = Literal["correct", "incorrect", "unclear"]
_MINUTE = 60.0
_LEAVE = "leave"

LABEL_INCOMPLETE = ErrorCode(
    "label-incomplete",
    UsageError,
    "A label needs its case, who gives it, why, and how long it took.",
    hint="give --case, --reviewer, --why and --minutes beside --label",
)


def review(  # noqa: PLR0913 - one option for each part of a label
    directory: PilotDirectory,
    *,
    case: Annotated[
        str | None, typer.Option("--case", metavar="CASE", help="Show this case instead of the queue.")
    ] = None,
    label: Annotated[
        str | None,
        typer.Option("--label", metavar="<correct|incorrect|unclear>", help="Label the case of --case."),
    ] = None,
    reviewer: Annotated[
        str | None,
        typer.Option(
            "--reviewer", metavar="NAME", help="Who labels; of the queue: what this person has still to do."
        ),
    ] = None,
    why: Annotated[str | None, typer.Option("--why", metavar="TEXT", help="Reason of the label.")] = None,
    minutes: Annotated[
        int | None, typer.Option("--minutes", min=0, help="Time that it took; goes into C_human.")
    ] = None,
    failure_mode: Annotated[
        str | None,
        typer.Option("--failure-mode", metavar="ID", help="A failure mode of plan/failure-modes.jsonl."),
    ] = None,
    with_verdict: Annotated[
        bool,
        typer.Option("--with-verdict", help="Also show the checks' verdict; the label records that."),
    ] = False,
    json: JsonFlag = False,
) -> None:
    """List the runs that people look at, show one without names and prices, or label it.

    In the queue is every borderline, flagged or security-relevant run, every change of a manifest or lock
    file, and a random sample of all others at the registered chance. On a terminal, --reviewer leads through
    what is open, case by case. Labels are only ever added, to DIR/labels.jsonl.
    """
    screen = Screen()
    if label is not None:
        given = _build(label, case, reviewer, why, minutes)
        _write(directory, _complete(given, failure_mode, with_verdict=with_verdict), json=json)
    elif case is not None:
        _show_case(directory, case, with_verdict=with_verdict, json=json)
    elif reviewer is not None and not json and sys.stdin.isatty() and screen.is_terminal:
        _lead(directory, reviewer, with_verdict=with_verdict)
    else:
        _show_queue(directory, reviewer, json=json)


def _build(
    label: str, case: str | None, reviewer: str | None, why: str | None, minutes: int | None
) -> api.GivenLabel:
    verdict = next((word for word in get_args(_Verdict) if word == label), None)
    if verdict is None:
        raise LABEL_INCOMPLETE.error(f"--label: expected correct, incorrect or unclear, found {label!r}")
    given = {"--case": case, "--reviewer": reviewer, "--why": why, "--minutes": minutes}
    missing = [name for name, value in given.items() if value is None]
    if case is None or reviewer is None or why is None or minutes is None:
        raise LABEL_INCOMPLETE.error(f"expected a whole label, found no {', '.join(missing)}")
    return api.GivenLabel(case=case, verdict=verdict, reviewer=reviewer, reason=why, minutes=minutes)


def _complete(given: api.GivenLabel, failure_mode: str | None, *, with_verdict: bool) -> api.GivenLabel:
    return api.GivenLabel(
        case=given.case,
        verdict=given.verdict,
        reviewer=given.reviewer,
        reason=given.reason,
        minutes=given.minutes,
        failure_mode=failure_mode,
        is_verdict_seen=with_verdict,
    )


def _show_queue(directory: Path, reviewer: str | None, *, json: bool) -> None:
    queue, screen = api.list_review(directory, reviewer=reviewer), Screen()
    if json:
        print_json(queue)
        return
    rows: list[list[ScreenPart]] = [
        [item.case, item.task, ", ".join(item.kinds), str(item.chance), f"{item.labels} of {item.wanted}"]
        for item in queue.cases
    ]
    if rows:
        print_table(screen, ("case", "task", "why", "chance", "labels"), rows)
    screen.line((f"{counted(len(rows), 'case')}, {queue.open} open", "bold"))
    screen.line(f"  unflagged runs are drawn at a chance of {queue.sample_share}; all others are in")
    screen.line(f"  people spent {counted(queue.minutes, 'minute')}")
    kappa = queue.kappa
    words = f"{kappa:.2f}" if isinstance(kappa, float) else f"not computable: {kappa.reason}"
    screen.line(f"  agreement of two reviewers (Cohen's kappa): {words}")
    screen.line((f"next: repotrial pilot review {directory} --case CASE", "dim"))


def _show_case(directory: Path, case: str, *, with_verdict: bool, json: bool) -> None:
    found, screen = api.show_review(directory, case, with_verdict=with_verdict), Screen()
    if json:
        print_json(found)
        return
    screen.line((f"{found.case}: {found.task}", "bold"))
    for reason in found.reasons:
        screen.line(f"  {reason.kind}: {reason.message}")
    for title, text in (("task", found.statement), ("change", found.change or "(nothing was changed)")):
        screen.line((title, "bold"))
        for line in text.splitlines():
            screen.line(f"  {line}")
    if found.is_cut:
        screen.line(("  the change is longer than what is shown", "yellow"))
    for line in found.verdict:
        screen.line(("verdict  ", "bold"), line)


def _write(directory: Path, given: api.GivenLabel, *, json: bool) -> None:
    written, screen = api.write_label(directory, given), Screen()
    if json:
        print_json(written)
        return
    label, usd = written.label, written.human_usd
    cost = f"{usd:.2f} USD" if isinstance(usd, Decimal) else f"not priced: {usd.reason}"
    time_spent = counted(label.minutes, "minute")
    screen.line((f"{label.case}: {label.verdict}", "bold"), f" by {label.reviewer}, {time_spent}, {cost}")


def _lead(directory: Path, reviewer: str, *, with_verdict: bool) -> None:
    """From case to case; Ctrl-C leaves, and what was labeled stays."""
    queue, screen = api.list_review(directory, reviewer=reviewer), Screen()
    for place, item in enumerate(queue.cases, start=1):
        screen.line((f"{place} of {len(queue.cases)}", "dim"))
        _show_case(directory, item.case, with_verdict=with_verdict, json=False)
        began = time.monotonic()
        while True:
            verdict = typer.prompt("does the change do what the task asks for", value_proc=_parse_answer)
            if verdict == _LEAVE:
                return
            mode = str(typer.prompt("failure mode (Enter: none)", default="", show_default=False)).strip()
            why = str(typer.prompt("why")).strip()
            spent = max(1, math.ceil((time.monotonic() - began) / _MINUTE))
            given = _build(verdict, item.case, reviewer, why, int(typer.prompt("minutes", default=spent)))
            try:
                _write(directory, _complete(given, mode or None, with_verdict=with_verdict), json=False)
            except UsageError as error:
                print_error(error)
                continue
            break


def _parse_answer(answer: str) -> str:
    words: tuple[str, ...] = (*get_args(_Verdict), _LEAVE)
    found = [word for word in words if answer.strip() and word.startswith(answer.strip().lower())]
    if len(found) != 1:
        raise typer.BadParameter(f"expected one of {', '.join(words)}, found {escape_unprintable(answer)}")
    return found[0]
