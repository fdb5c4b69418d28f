"""`repotrial run show`: the verdict, the events, and what programs printed."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from repotrial import api
from repotrial._core.display import mark_cap
from repotrial._core.errors import USAGE, ExitCode
from repotrial.cli._batch import skip_files
from repotrial.cli._output import Screen, counted, print_json_line
from repotrial.cli._run_lines import show_lines
from repotrial.cli._run_programs import show_programs
from repotrial.cli._run_verdict import print_verdict
from repotrial.cli._trace import load_trust

_TEST_STYLES = {"failed": "bold red", "missing": "bold magenta", "skipped": "yellow", "passed": "green"}
"""What one looks for comes first."""


def show_outputs(screen: Screen, directory: Path, names: Sequence[str], *, json: bool) -> bool:
    """Print every execution of that name as it is read; whether all streams are as recorded."""
    is_complete = True
    for found in api.iter_run_outputs(directory, names):
        is_complete &= all(stream.lost is None for stream in found.streams.values())
        if json:
            print_json_line(_build_output_entry(found))
        else:
            _print_output(screen, found)
    return is_complete


def show_tests(screen: Screen, directory: Path, names: Sequence[str], *, json: bool) -> bool:
    """Print the tests of every execution without twins; whether all results are as recorded."""
    is_complete = True
    for found in api.iter_run_tests(directory, names):
        is_complete &= not found.tests.is_lost
        if json:
            print_json_line(_build_tests_entry(found))
        else:
            _print_tests(screen, found)
    return is_complete


def _print_output(screen: Screen, found: api.ProgramOutput) -> None:
    program = found.program
    screen.line(
        (program.name, "bold"), f": {program.label} (event {program.seq}): ", (program.ending, "bold")
    )
    if program.command is not None:
        screen.line((f"  $ {shlex.join(program.command.argv)}", "dim"))
    for name in found.streams:
        _print_stream(screen, found, name)


def _print_stream(screen: Screen, found: api.ProgramOutput, name: str) -> None:
    stream = found.streams[name]
    if not stream.length_bytes:
        screen.line((f"  {name}: empty", "dim"))
        return
    screen.line((f"  {name}, {counted(stream.length_bytes, 'byte')}:", "cyan"))
    # Marked, so that no line of a program can look like one of ours.
    for line in stream.data.removesuffix(b"\n").split(b"\n") if stream.data else ():
        screen.line(("  | ", "dim"), line.decode("utf-8", "backslashreplace").expandtabs())
    if stream.lost is not None:
        screen.line(("  not as it was recorded", "bold red"), f": {stream.lost}")
    if stream.is_whole:
        return
    if stream.data:
        left = f"cut here: {len(stream.data)} of {stream.length_bytes} bytes are left"
    elif stream.lost is not None:
        left = f"nothing of its {stream.length_bytes} bytes is left"
    else:
        left = f"none of its {stream.length_bytes} bytes were kept: the run's byte budget was spent"
    screen.line((f"  {left}", "yellow"))


def _build_output_entry(found: api.ProgramOutput) -> dict[str, Any]:
    program = found.program
    return {
        "seq": program.seq,
        "name": program.name,
        "kind": program.kind,
        "subject": program.subject,
        "variant": program.variant,
        "attempt": program.attempt,
        "is_moot": program.is_moot,
        "command": program.command,
        "exit": program.exit,
        "outcome": program.outcome,
        **{name: _build_stream_entry(found, name) for name in found.streams},
    }


def _build_stream_entry(found: api.ProgramOutput, name: str) -> dict[str, Any]:
    """Text if it is UTF-8, else base64; what is lost is null, never empty."""
    stream = found.streams[name]
    entry: dict[str, Any] = {
        "length_bytes": stream.length_bytes,
        "is_whole": stream.is_whole,
        "lost": stream.lost,
        "text": None,
    }
    if not stream.data and not stream.is_whole:
        return entry
    try:
        return {**entry, "text": stream.data.decode("utf-8")}
    except UnicodeDecodeError:
        return {**entry, "base64": base64.b64encode(stream.data).decode("ascii")}


def _print_tests(screen: Screen, found: api.CheckTests) -> None:
    program, tests = found.program, found.tests
    by_word = {word: getattr(tests, word) for word in _TEST_STYLES}
    counts = ", ".join(f"{len(ids)} {word}" for word, ids in by_word.items() if ids) or "no test"
    screen.line((program.name, "bold"), f": {program.label} (event {program.seq}): {counts}")
    for word, ids in by_word.items():
        for test in ids:
            screen.line((f"  {word:<8}", _TEST_STYLES[word]), test)
    if tests.remark is not None:
        screen.line(("  not all are known", "bold red" if tests.is_lost else "yellow"), f": {tests.remark}")
        screen.line((f"  `--output {program.name}` shows what it printed", "dim"))


def _build_tests_entry(found: api.CheckTests) -> dict[str, Any]:
    program, tests = found.program, found.tests
    return {
        "seq": program.seq,
        "check": program.name,
        "subject": program.subject,
        "attempt": program.attempt,
        **{word: getattr(tests, word) for word in _TEST_STYLES},
        "remark": tests.remark,
        "is_lost": tests.is_lost,
    }


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
    programs: Annotated[
        bool,
        typer.Option(
            "--programs", help="What ran: every tool call with its exit status, time and programs, as a tree."
        ),
    ] = False,
    lines: Annotated[
        bool,
        typer.Option(
            "--lines", help="The very lines of outputs that the gates and tags point at, with their places."
        ),
    ] = False,
    json: Annotated[
        bool,
        typer.Option("--json", help="Print one JSON object per event (output, list of tests), one per line."),
    ] = False,
) -> None:
    """Show the verdict on a run and what happened in it, event by event.

    Without an option: verdict and events. Nothing is verified against a key: see `run verify`.
    """
    wanted = _Wanted(
        verdict=verdict,
        change=diff,
        tests=tuple(tests or ()),
        outputs=tuple(outputs or ()),
        events=bool(timeline or types),
        types=frozenset(types or ()),
        programs=programs,
        lines=lines,
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
    programs: bool
    lines: bool


def _verify_one_kind(wanted: _Wanted, chosen: list[Path]) -> None:
    """JSON lines name neither their run nor what they are."""
    if wanted.verdict or wanted.change:
        raise USAGE.error(
            "expected --json alone, for events, or with what it can print, found --verdict or --diff",
            hint="`repotrial run score --json` prints the verdict; the change is in change.patch",
        )
    kinds = (wanted.events, wanted.tests, wanted.outputs, wanted.programs, wanted.lines)
    if sum(map(bool, kinds)) > 1:
        raise USAGE.error(
            "expected --json with one of events, --output, --tests, --programs and --lines, found several",
            hint="give one command for each",
        )
    if len(chosen) > 1:
        raise USAGE.error(
            f"expected one run with --json, found {len(chosen)}: events do not name their run",
            hint="give one command for each run, or `repotrial run score --json` for all verdicts",
        )


def _show_run(screen: Screen, directory: Path, wanted: _Wanted, *, json: bool) -> bool:
    """Whether all that was asked for is as it was recorded."""
    rows = api.iter_run_timeline(directory)  # refuses what is no run directory
    is_complete = True
    if wanted.verdict:
        print_verdict(screen, api.judge_run(directory, load_trust()))
        for name in api.list_rejudged(directory):
            screen.line(("  rejudged: ", "yellow"), f"another verdict is beside this one, in rejudged/{name}")
    if wanted.change:
        _show_change(screen, directory)
    if wanted.tests:
        is_complete &= show_tests(screen, directory, wanted.tests, json=json)
    if wanted.outputs:
        is_complete &= show_outputs(screen, directory, wanted.outputs, json=json)
    if wanted.programs:
        show_programs(screen, directory, json=json)
    if wanted.lines:
        is_complete &= show_lines(screen, api.judge_run(directory, load_trust()), json=json)
    if wanted.events:
        _show_events(screen, _select(rows, wanted.types), json=json)
    return is_complete


def _show_events(screen: Screen, rows: Iterator[api.TimelineRow], *, json: bool) -> None:
    for row in rows:
        if json:
            print_json_line(row)
        else:
            _show_row(screen, row)


def _show_change(screen: Screen, directory: Path) -> None:
    change = api.load_change(directory)
    if not change:
        Screen(to_stderr=True).line("no change: the run left the files as they were, or ended before")
    # As bytes: what ends a line elsewhere is part of one in a patch.
    for line in change.removesuffix(b"\n").split(b"\n") if change else ():
        text = line.decode("utf-8", "backslashreplace")
        screen.line((text, _DIFF_STYLES.get(text[:1], "")))


def _select(rows: Iterator[api.TimelineRow], wanted: frozenset[str]) -> Iterator[api.TimelineRow]:
    """The rows of the wanted types, all if none is named; says so where there are none."""
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


def _show_row(screen: Screen, row: api.TimelineRow) -> None:
    screen.line(
        (f"{row.seq:>6} {row.elapsed_us / 1_000_000:>10.3f}s ", "dim"),
        (f"{row.actor:<9}{row.type:<22} ", _STYLES.get(row.marker.value, "")),
        mark_cap(row.summary),
    )
