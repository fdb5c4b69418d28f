"""One harness for one run: the same command, started twice, must not pay twice."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from repotrial._core.errors import UsageError
from repotrial._core.files import make_apart
from repotrial.run import RunDirectoryError

__all__ = ["RunUnderWayError", "claim_run", "tidy_claims"]

_FILE: Final = ".claims"
"""One for all runs, always empty. A file for each run, removed at its end, costs more: a file system without
a journal does not use an inode again for minutes, and walks over all of those whenever a file is made."""
_LOCK: Final = struct.Struct("@hhqqi4x")  # struct flock: type, whence, start, length, nobody
_OFFSET_BYTES: Final = 7
_TO_THE_END: Final = 0
_TAKEN: Final = frozenset({errno.EAGAIN, errno.EACCES})


class RunUnderWayError(UsageError):
    """Another harness conducts this run at this moment."""

    code = "run-under-way"
    default_hint = "wait for the other `run start` on this directory of runs, or name another one with --runs"


@contextmanager
def claim_run(runs: Path, run_id: str) -> Iterator[None]:
    """While this lasts, no other harness conducts the run; the kernel gives it free if this one is killed.

    Each run has a byte of its own to lock, far behind the end of an empty file.

    Raises:
        RunUnderWayError: another one does.
        RunDirectoryError: the machine does not let us ask.
    """
    try:
        handle = _lock(runs / _FILE, run_id)
    except OSError as error:
        raise RunDirectoryError(f"{runs}: expected to make files there, found: {error}") from error
    try:
        yield
    finally:
        os.close(handle)


@contextmanager
def tidy_claims(runs: Path) -> Iterator[None]:
    """Afterwards, leave no trace of claims, unless another harness has some."""
    try:
        yield
    finally:
        # Whoever opens it before it is gone, and locks it afterwards, finds that others find another one.
        with suppress(OSError):
            handle = os.open(runs / _FILE, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _take(handle, start=0, length=_TO_THE_END)
                (runs / _FILE).unlink()
            finally:
                os.close(handle)


def _lock(path: Path, run_id: str) -> int:
    while True:
        handle = _open(path)
        try:
            if _try_lock(path, handle, run_id):
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags, 0o600)
    except FileNotFoundError:
        make_apart(path.parent)
        return os.open(path, flags, 0o600)


def _try_lock(path: Path, handle: int, run_id: str) -> bool:
    """Whether it is ours; not, where somebody has removed the file meanwhile, and others find another one."""
    offset = int.from_bytes(hashlib.sha256(run_id.encode()).digest()[:_OFFSET_BYTES])
    try:
        _take(handle, start=offset, length=1)
    except OSError as error:
        if error.errno in _TAKEN:
            raise RunUnderWayError(f"{run_id}: expected to conduct it, found that another does") from None
        raise
    try:
        return os.path.samestat(path.stat(), os.fstat(handle))
    except FileNotFoundError:
        return False


def _take(handle: int, *, start: int, length: int) -> None:
    # Of this open file, not of this process: two threads of one harness must not share a run either.
    fcntl.fcntl(handle, fcntl.F_OFD_SETLK, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, start, length, 0))
