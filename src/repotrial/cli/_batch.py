"""One command on several directories: what goes wrong with one does not keep the others from their turn."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import typer

from repotrial import api
from repotrial._core.errors import ExitCode, RepoTrialError, UsageError
from repotrial.cli._output import Screen, counted, print_error, print_json

_BESIDE_RUNS = frozenset({"retrieval_events_aggregate"})
"""Directories that commands put beside runs, so that `runs/*` names them too."""

T = TypeVar("T")


class BatchVerdict(NamedTuple):
    """What the summary counts, and whether it is well."""

    word: str
    holds: bool


def expand_runs(directories: Sequence[Path]) -> list[Path]:
    """The runs in directories that hold some; what is no run is kept, for its error to stand in its place."""
    found: list[Path] = []
    for directory in skip_files(directories):
        try:
            found += api.find_run_directories(directory)
        except UsageError:  # `run-directory-missing`, `no-runs`
            found.append(directory)
    return found


def skip_files(directories: Sequence[Path]) -> list[Path]:
    """Without what lies beside runs, so that `runs/*` may be given; all, where nothing else is left."""
    return [path for path in directories if not _lies_beside_runs(path)] or list(directories)


def _lies_beside_runs(path: Path) -> bool:
    try:
        return path.name in _BESIDE_RUNS or path.is_file()
    except (OSError, ValueError):  # ValueError: a NUL; reading it says so
        return False


def work_through(
    directories: Sequence[Path],
    action: Callable[[Path], T],
    *,
    judge: Callable[[T], BatchVerdict],
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
