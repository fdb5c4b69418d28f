"""One command on several directories: what goes wrong with one does not keep the others from their turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import typer

from repotrial._core.errors import ExitCode, RepoTrialError
from repotrial.cli._output import Screen, counted, print_error, print_json

__all__ = ["Verdict", "expand_runs", "work_through"]

_BESIDE_RUNS = frozenset({"ledger.jsonl", "retrieval_events_aggregate"})
"""What the commands themselves put beside runs, so that `runs/*` names it too."""

T = TypeVar("T")


class Verdict(NamedTuple):
    """What the summary counts, and whether it is well."""

    word: str
    holds: bool


def expand_runs(directories: Sequence[Path]) -> list[Path]:
    """The runs in directories that hold some; what is no run is kept, for its error to stand in its place."""
    from repotrial import api

    found: list[Path] = []
    for directory in directories:
        if len(directories) > 1 and directory.name in _BESIDE_RUNS:
            continue
        try:
            found += api.find_run_directories(directory) or [directory]
        except api.RunDirectoryMissingError:
            found.append(directory)
    return found


def work_through(
    directories: Sequence[Path],
    action: Callable[[Path], T],
    *,
    judge: Callable[[T], Verdict],
    show: Callable[[Screen, T], None],
    noun: str | None,
    json: bool,
) -> None:
    """Do `action` on every directory, print each result as it comes, and end with the worst exit code.

    Args:
        directories: In the order of the command line.
        action: May raise an error of ours; it is printed in the place of the result.
        judge: The verdict on a result.
        show: Prints a result for people.
        noun: What the summary counts; None leaves the summary out, as does a single directory.
        json: Print one list, with an entry for every directory, instead.
    """
    screen = Screen()
    entries: list[Any] = []
    words: Counter[str] = Counter()
    worst = ExitCode.DONE
    for directory in directories:
        try:
            result = action(directory)
        except RepoTrialError as error:
            entries.append({"directory": str(directory), "error": error.to_dict()})
            words["could not be looked at"] += 1
            worst = max(worst, error.exit_code)
            if not json:
                print_error(error, where=str(directory))
            continue
        entries.append(result)
        verdict = judge(result)
        words[verdict.word] += 1
        worst = worst if verdict.holds else max(worst, ExitCode.DOES_NOT_HOLD)
        if not json:
            show(screen, result)
    if json:
        print_json(entries)
    elif noun is not None and len(directories) > 1:
        listed = ", ".join(f"{number} {word}" for word, number in words.items())
        screen.line((f"{counted(len(directories), noun)}: {listed}", "bold"))
    if worst is not ExitCode.DONE:
        raise typer.Exit(worst)
