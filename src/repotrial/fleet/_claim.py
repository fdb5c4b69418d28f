"""One harness for one run: the same command, started twice, must not pay twice."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from repotrial._core.errors import UsageError
from repotrial.run import RunDirectoryError

__all__ = ["RunUnderWayError", "claim_run"]

_FOLDER: Final = ".under-way"


class RunUnderWayError(UsageError):
    """Another harness conducts this run at this moment."""

    code = "run-under-way"
    default_hint = "wait for the other `run start` on this directory of runs, or name another one with --runs"


@contextmanager
def claim_run(runs: Path, run_id: str) -> Iterator[None]:
    """While this lasts, no other harness conducts the run; the kernel gives it free if this one is killed.

    Raises:
        RunUnderWayError: another one does.
        RunDirectoryError: the machine does not let us ask.
    """
    path = runs / _FOLDER / run_id
    try:
        handle = _lock(path)
    except OSError as error:
        raise RunDirectoryError(f"{runs}: expected to make files there, found: {error}") from error
    try:
        yield
    finally:
        # Before it is free: whoever gets this file then finds that it is not there any more.
        with suppress(OSError):
            path.unlink()
            path.parent.rmdir()
        os.close(handle)


def _lock(path: Path) -> int:
    path.parent.parent.mkdir(parents=True, exist_ok=True)
    while True:
        with suppress(FileExistsError):
            path.parent.mkdir()
        with suppress(FileNotFoundError):  # another harness has just removed the folder, which was empty
            handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            if _try_lock(path, handle):
                return handle
            os.close(handle)


def _try_lock(path: Path, handle: int) -> bool:
    """Whether it is ours; not, where what was opened is not what others find there."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False
    except BlockingIOError:
        os.close(handle)
        raise RunUnderWayError(f"{path.name}: expected to conduct it, found that another does") from None
