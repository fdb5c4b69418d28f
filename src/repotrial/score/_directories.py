"""Directories of runs that a user names: there, or a message that says what is."""

from __future__ import annotations

import os
from pathlib import Path

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import find_obstacle
from repotrial.trace import RunPaths

RUN_DIRECTORY_MISSING = ErrorCode(
    "run-directory-missing",
    UsageError,
    "The path does not name the directory of a run, so there is nothing to look at; nothing was written.",
    hint="name the directory that holds trace.jsonl and manifest.json",
)
NO_RUNS = ErrorCode(
    "no-runs",
    UsageError,
    "There are no runs in the directory, or none that is wanted.",
    hint="name the directory that `repotrial run start --runs` was given",
)


def build_run_paths(directory: Path) -> RunPaths:
    """The files of a run.

    Raises:
        RUN_DIRECTORY_MISSING: it is no directory, or one that no run was recorded in.
    """
    obstacle = find_obstacle(directory)
    if obstacle:
        raise RUN_DIRECTORY_MISSING.error(f"{directory}: expected a run directory, found {obstacle}")
    if not _is_run(directory):
        raise RUN_DIRECTORY_MISSING.error(
            f"{directory}: expected a run directory, found neither trace.jsonl nor spec.json in it",
            hint=_find_hint(directory),
        )
    return RunPaths(directory)


def find_run_directories(directory: Path) -> list[Path]:
    """Every run directory in a directory, by name; the directory itself, where it is one.

    Raises:
        RUN_DIRECTORY_MISSING: it is no directory.
        NO_RUNS: there are none in it.
    """
    obstacle = find_obstacle(directory)
    if not obstacle:
        found = [directory] if _is_run(directory) else _list_runs(directory)
        if not found:
            raise NO_RUNS.error(f"{directory}: expected a directory of runs, found no run in it")
        return found
    raise RUN_DIRECTORY_MISSING.error(
        f"{directory}: expected a directory of runs, found {obstacle}", hint=NO_RUNS.hint
    )


def _is_run(directory: Path) -> bool:
    paths = RunPaths(directory)
    return any(os.path.lexists(path) for path in (paths.trace, paths.spec, paths.seal))


def _list_runs(directory: Path) -> list[Path]:
    try:
        names = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir(follow_symlinks=True))
    except OSError as error:
        raise RUN_DIRECTORY_MISSING.error(f"{directory}: expected runs, found: {error.strerror}") from error
    # Hidden ones are runs in the making.
    return [directory / name for name in names if not name.startswith(".") and _is_run(directory / name)]


def _find_hint(directory: Path) -> str:
    """Of a directory of runs, name one of them."""
    try:
        runs = _list_runs(directory)
    except UsageError:  # `run-directory-missing`
        runs = []
    if not runs:
        return RUN_DIRECTORY_MISSING.hint
    return f"it holds {len(runs)} run(s): name one, as {runs[0]}; `repotrial run list {directory}` shows all"
