"""What `run show` says of programs: what they printed, and which tests spoke."""

from __future__ import annotations

import base64
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from repotrial.api import CheckTests, KeptStream, ProgramOutput
    from repotrial.cli._output import Screen

_TEST_STYLES = {"failed": "bold red", "missing": "bold magenta", "skipped": "yellow", "passed": "green"}
"""What one looks for comes first."""


def show_outputs(screen: Screen, directory: Path, names: Sequence[str], *, json: bool) -> bool:
    """Print every execution of that name as it is read; whether all streams are as recorded."""
    from repotrial import api
    from repotrial.cli._output import print_json_line

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
    from repotrial import api
    from repotrial.cli._output import print_json_line

    is_complete = True
    for found in api.iter_run_tests(directory, names):
        is_complete &= not found.tests.is_lost
        if json:
            print_json_line(_build_tests_entry(found))
        else:
            _print_tests(screen, found)
    return is_complete


def _print_output(screen: Screen, found: ProgramOutput) -> None:
    program = found.program
    screen.line(
        (program.name, "bold"), f": {program.label} (event {program.seq}): ", (program.ending, "bold")
    )
    if program.command is not None:
        screen.line((f"  $ {shlex.join(program.command.argv)}", "dim"))
    for name, stream in found.streams.items():
        _print_stream(screen, name, stream)


def _print_stream(screen: Screen, name: str, stream: KeptStream) -> None:
    from repotrial.cli._output import counted

    if not stream.length_bytes:
        screen.line((f"  {name}: empty", "dim"))
        return
    screen.line((f"  {name}, {counted(stream.length_bytes, 'byte')}:", "cyan"))
    # Marked, so that no line of a program can look like one of ours.
    for line in stream.data.removesuffix(b"\n").split(b"\n") if stream.data else ():
        screen.line(("  | ", "dim"), line.decode("utf-8", "backslashreplace").expandtabs())
    if stream.lost is not None:
        screen.line(("  not as it was recorded", "bold red"), f": {stream.lost}")
    if not stream.is_whole:
        screen.line((f"  {_describe_cut(stream)}", "yellow"))


def _describe_cut(stream: KeptStream) -> str:
    if stream.data:
        return f"cut here: {len(stream.data)} of {stream.length_bytes} bytes are left"
    if stream.lost is not None:
        return f"nothing of its {stream.length_bytes} bytes is left"
    return f"none of its {stream.length_bytes} bytes were kept: the run's byte budget was spent"


def _build_output_entry(found: ProgramOutput) -> dict[str, Any]:
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
        **{name: _build_stream_entry(stream) for name, stream in found.streams.items()},
    }


def _build_stream_entry(stream: KeptStream) -> dict[str, Any]:
    """Text where it is some, else base64; what is lost is null, never empty."""
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


def _print_tests(screen: Screen, found: CheckTests) -> None:
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


def _build_tests_entry(found: CheckTests) -> dict[str, Any]:
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
