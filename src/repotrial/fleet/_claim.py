"""One harness for one run: the same command, started twice, must not pay twice."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from repotrial._core.errors import ErrorCode, UsageError
from repotrial.run import RUN_DIRECTORY

_FOLDER: Final = ".under-way"
"""One file for each run, until all runs are over. To remove each at its end would cost more: a file system
without a journal does not use an inode again for minutes, and walks over all of those to make the next."""
_TIDYING_SECONDS: Final = 0.05
"""A claim held for less than that was held only to tidy up."""
_PAUSE_SECONDS: Final = 0.005


RUN_UNDER_WAY = ErrorCode(
    "run-under-way",
    UsageError,
    "Another harness conducts this run at this moment.",
    hint="wait for the other `run start` on this directory of runs, or name another one with --runs",
)


@contextmanager
def claim_run(runs: Path, run_id: str) -> Iterator[None]:
    """While this lasts, no other harness conducts the run; the kernel gives it free if this one is killed.

    Raises:
        RUN_UNDER_WAY: another one does.
        RUN_DIRECTORY: the machine does not let us ask.
    """
    path = runs / _FOLDER / run_id
    try:
        handle = _lock(path)
    except OSError as error:
        raise RUN_DIRECTORY.error(f"{runs}: expected to make files there, found: {error}") from error
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def tidy_claims(runs: Path) -> Iterator[None]:
    """Afterwards, remove the files of claims that no process holds, of any harness."""
    try:
        yield
    finally:
        with suppress(OSError):  # there are none, or it is not ours to tidy
            for path in [*(runs / _FOLDER).iterdir()]:
                _try_remove(path)
            (runs / _FOLDER).rmdir()


def _try_remove(path: Path) -> None:
    with suppress(OSError, UsageError):
        handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            # Before unlocking: a process that then locks this file finds that it was removed.
            if _try_lock(path, handle):
                path.unlink()
        finally:
            os.close(handle)


def _lock(path: Path) -> int:
    deadline = time.monotonic() + _TIDYING_SECONDS
    while True:
        try:
            handle = _lock_once(path)
        except UsageError as error:
            if error.code != RUN_UNDER_WAY or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_SECONDS)
            continue
        if handle is not None:
            return handle


def _lock_once(path: Path) -> int | None:
    """The lock; None if it was removed meanwhile, or its empty folder was."""
    try:
        handle = _open(path)
    except FileNotFoundError:
        return None
    try:
        is_ours = _try_lock(path, handle)
    except BaseException:
        os.close(handle)
        raise
    if not is_ours:
        os.close(handle)
        return None
    return handle


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        path.parent.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            path.parent.mkdir()
        return os.open(path, flags, 0o600)


def _try_lock(path: Path, handle: int) -> bool:
    """Whether it is ours; not, where what was opened is not what others find there."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
    except BlockingIOError:
        raise RUN_UNDER_WAY.error(f"{path.name}: expected to conduct it, found that another does") from None
