"""`repotrial run show`: the verdict and what led to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from repotrial._core.errors import USAGE, ExitCode

if TYPE_CHECKING:
    from repotrial.api import TimelineRow
    from repotrial.cli._output import Screen

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
_DIFF_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _complete_type(incomplete: str) -> list[str]:
    from repotrial import api

    return [name for name in api.list_event_types() if name.startswith(incomplete)]


def show(  # noqa: PLR0913 - one option for each part of a run
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DIR...", readable=False, help="The run directory (it holds trace.jsonl), or several."
        ),
    ],
    *,
    verdict: Annotated[bool, typer.Option("--verdict", help="Only the verdict: gates, why, tags.")] = False,
    timeline: Annotated[bool, typer.Option("--timeline", help="Only the events.")] = False,
    diff: Annotated[bool, typer.Option("--diff", help="Only the change that was judged.")] = False,
    types: Annotated[
        list[str] | None,
        typer.Option(
            "--type",
            metavar="TYPE",
            help="Only events of this type (repeatable).",
            autocompletion=_complete_type,
        ),
    ] = None,
    outputs: Annotated[
        list[str] | None,
        typer.Option(
            "--output",
            metavar="NAME",
            help="What a check printed, or `agent` (its program), `patch` (applying it), `all` (repeatable).",
        ),
    ] = None,
    tests: Annotated[
        list[str] | None,
        typer.Option(
            "--tests",
            metavar="CHECK",
            help="Every test that a check reported, with its outcome; `all` for all checks (repeatable).",
        ),
    ] = None,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object per event (output, list of tests), one per line."),
    ] = False,
) -> None:
    """Show the verdict on a run and what happened in it, event by event.

    Without an option: verdict and events. Nothing is verified against a key: see `run verify`.
    """
    from repotrial.cli._batch import skip_files
    from repotrial.cli._output import Screen

    wanted = _Wanted(
        verdict=verdict,
        change=diff,
        tests=tuple(tests or ()),
        outputs=tuple(outputs or ()),
        events=bool(timeline or types),
        types=frozenset(types or ()),
    )
    if not any(wanted):
        wanted = wanted._replace(verdict=not json, events=True)
    chosen = skip_files(directories)
    if json:
        _verify_one_kind(wanted, chosen)
    screen = Screen()
    is_complete = True
    for directory in chosen:
        if len(chosen) > 1:
            screen.line((f"{directory}:", "bold"))
        is_complete &= _show_run(screen, directory, wanted, json=json)
    if not is_complete:
        raise typer.Exit(ExitCode.DOES_NOT_HOLD)


class _Wanted(NamedTuple):
    verdict: bool
    change: bool
    tests: tuple[str, ...]
    outputs: tuple[str, ...]
    events: bool
    types: frozenset[str]


def _verify_one_kind(wanted: _Wanted, chosen: list[Path]) -> None:
    """JSON lines name neither their run nor what they are."""
    if wanted.verdict or wanted.change:
        raise USAGE.error(
            "expected --json alone, for events, or with --output or --tests, found --verdict or --diff",
            hint="`repotrial run score --json` prints the verdict; the change is in change.patch",
        )
    if sum(map(bool, (wanted.events, wanted.tests, wanted.outputs))) > 1:
        raise USAGE.error(
            "expected --json with one of events, --output and --tests, found several",
            hint="give one command for each",
        )
    if len(chosen) > 1:
        raise USAGE.error(
            f"expected one run with --json, found {len(chosen)}: events do not name their run",
            hint="give one command for each run, or `repotrial run score --json` for all verdicts",
        )


def _show_run(screen: Screen, directory: Path, wanted: _Wanted, *, json: bool) -> bool:
    """Whether all that was asked for is as it was recorded."""
    from repotrial import api
    from repotrial.cli._output import print_json_line
    from repotrial.cli._run_output import show_outputs, show_tests
    from repotrial.cli._run_verdict import print_verdict

    rows = api.iter_run_timeline(directory)  # refuses what is no run directory
    is_complete = True
    if wanted.verdict:
        print_verdict(screen, api.judge_run(directory))
        for name in api.list_rejudged(directory):
            screen.line(("  rejudged: ", "yellow"), f"another verdict is beside this one, in rejudged/{name}")
    if wanted.change:
        _show_change(screen, directory)
    if wanted.tests:
        is_complete &= show_tests(screen, directory, wanted.tests, json=json)
    if wanted.outputs:
        is_complete &= show_outputs(screen, directory, wanted.outputs, json=json)
    if wanted.events:
        for row in _select(rows, wanted.types):
            if json:
                print_json_line(row)
            else:
                _show_row(screen, row)
    return is_complete


def _show_change(screen: Screen, directory: Path) -> None:
    from repotrial import api
    from repotrial.cli._output import Screen

    change = api.load_change(directory)
    if not change:
        Screen(to_stderr=True).line("no change: the run left the files as they were, or ended before")
    # As bytes: what ends a line elsewhere is part of one in a patch.
    for line in change.removesuffix(b"\n").split(b"\n") if change else ():
        text = line.decode("utf-8", "backslashreplace")
        screen.line((text, _DIFF_STYLES.get(text[:1], "")))


def _select(rows: Iterator[TimelineRow], wanted: frozenset[str]) -> Iterator[TimelineRow]:
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
