"""Where runs are to be recorded: looked at before anything is prepared, which may take minutes."""

from __future__ import annotations

import os
from pathlib import Path

from repotrial._core.errors import ErrorCode, MachineError, UsageError

RUNS_DIRECTORY = ErrorCode(
    "runs-directory",
    MachineError,
    "The directory for runs cannot be made or written to, so that nothing could be recorded.",
    hint="name another directory with --runs, make room or fix the permissions",
)
NOT_A_RUNS_DIRECTORY = ErrorCode(
    "not-a-runs-directory",
    UsageError,
    "The path that was named for runs is no directory, or lies below something that is none.",
    hint="name another directory with --runs",
)


def make_runs_directory(runs: Path) -> None:
    """Make it, if it is not there; one in which nothing can be made is no use.

    Raises:
        NOT_A_RUNS_DIRECTORY: something else is in its place.
        RUNS_DIRECTORY: the machine does not let us.
    """
    verify_runs_directory(runs)
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RUNS_DIRECTORY.error(
            f"{runs}: expected a directory for runs, found: {error.strerror}"
        ) from error
    if not os.access(runs, os.W_OK | os.X_OK):
        raise RUNS_DIRECTORY.error(
            f"{runs}: expected a directory that can be written to, found one that cannot"
        )


def verify_runs_directory(runs: Path) -> None:
    """That it is a directory or may become one; none is made.

    Raises:
        NOT_A_RUNS_DIRECTORY: something else is in its place.
    """
    nearest = next((path for path in (runs, *runs.parents) if os.path.lexists(path)), None)
    if nearest is not None and nearest.exists() and not nearest.is_dir():
        raise NOT_A_RUNS_DIRECTORY.error(
            f"{runs}: expected a directory for runs, found that {nearest} is not a directory"
        )
