"""What the command line reads from its surroundings: cache, home, secrets, and the directory for runs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from repotrial import api
from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial.cli._output import Screen

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


SECRET_UNSET = ErrorCode(
    "secret-unset",
    UsageError,
    "A secret was named whose environment variable is not set.",
    hint="set the variable for this one command, or leave the secret out",
)


CacheOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        readable=False,
        help="Where prepared trees and environments are kept (for root /var/cache/repotrial, "
        "else $XDG_CACHE_HOME/repotrial).",
    ),
]


SkipFlag: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--skip-unavailable",
        help="Leave out contracts for which this machine lacks a tool or an isolation level, and say so.",
    ),
]


def tell_left_out(left_out: Sequence[api.LeftOut]) -> None:
    """A line for each contract that this machine cannot run: what it lacks, and how to get it."""
    for item in left_out:
        Screen(to_stderr=True).line(
            ("left out", "yellow"), f": {item.contract}: {item.lacks}; fix: {item.hint}"
        )


def default_cache() -> Path:
    """A place that the sandbox's user can reach: root's own home is closed to it."""
    if os.geteuid() == 0:
        return Path("/var/cache/repotrial")
    chosen = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (chosen if chosen.is_absolute() else _home() / ".cache") / "repotrial"


def find_cache(chosen: Path | None) -> Path:
    """Where the cache is, whatever directory a program that uses it is started in."""
    return (chosen or default_cache()).absolute()


CustodyOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--custody",
        metavar="TOML",
        readable=False,
        help="Keep the originals of redacted texts, encrypted to the recipients that this file names.",
    ),
]


def build_settings(
    cache: Path | None, *, secrets: Sequence[str] = (), custody: Path | None = None
) -> api.MachineSettings:
    """What the verbs may know; values of secrets come from the variables of their names."""
    unset = [name for name in secrets if not os.environ.get(name)]
    if unset:
        raise SECRET_UNSET.error(f"expected a value in the environment, found none: {', '.join(unset)}")
    return api.MachineSettings(
        cache=find_cache(cache),
        home=_home(),
        variables=dict(os.environ),
        secrets={name: os.environ[name] for name in secrets},
        custody_file=custody,
    )


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # neither HOME nor an entry in the user database
        return Path("/nonexistent")
