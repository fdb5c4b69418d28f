"""Where runs are to be recorded: looked at before anything is prepared, which may take minutes."""

from __future__ import annotations

import os
from pathlib import Path

from repotrial._core.errors import MachineError, UsageError


class RunsDirectoryError(MachineError):
    """The directory for runs cannot be made or written to, so that nothing could be recorded."""

    code = "runs-directory"
    default_hint = "name another directory with --runs, make room or fix the permissions"


class NotARunsDirectoryError(UsageError):
    """The path that was named for runs is no directory, or lies below something that is none."""

    code = "not-a-runs-directory"
    default_hint = "name another directory with --runs"


def make_runs_directory(runs: Path) -> None:
    """Make it, if it is not there; one in which nothing can be made is no use.

    Raises:
        NotARunsDirectoryError: something else is in its place.
        RunsDirectoryError: the machine does not let us.
    """
    verify_runs_directory(runs)
    try:
        runs.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunsDirectoryError(f"{runs}: expected a directory for runs, found: {error.strerror}") from error
    if not os.access(runs, os.W_OK | os.X_OK):
        raise RunsDirectoryError(
            f"{runs}: expected a directory that can be written to, found one that cannot"
        )


def verify_runs_directory(runs: Path) -> None:
    """That it is a directory or may become one; none is made.

    Raises:
        NotARunsDirectoryError: something else is in its place.
    """
    nearest = next((path for path in (runs, *runs.parents) if os.path.lexists(path)), None)
    if nearest is not None and nearest.exists() and not nearest.is_dir():
        raise NotARunsDirectoryError(
            f"{runs}: expected a directory for runs, found that {nearest} is not a directory"
        )
