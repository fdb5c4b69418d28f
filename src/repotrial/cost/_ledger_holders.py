"""Who holds something in a ledger, and whether it still lives.

A holder keeps a lock on a file of its own beside the ledger. The kernel lets go of it when the process ends,
however it ends, so nobody has to be asked, and no process number is taken for another's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import uuid
from pathlib import Path


class Holder:
    """One open ledger of one process."""

    def __init__(self, ledger: Path) -> None:
        self.id = uuid.uuid4().hex
        self._ledger = ledger
        self._handle: int | None = None

    def appear(self) -> None:
        """Be alive for others, from before the first hold on.

        Raises:
            OSError: the machine does not let us.
        """
        if self._handle is not None:
            return
        handle = self._create()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(handle, f"{os.getpid()}\n".encode())  # for people; nothing is decided by it
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def _create(self) -> int:
        path = _find_file(self._ledger, self.id)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            path.parent.mkdir(exist_ok=True)
            # Whoever leaves last removes the directory, perhaps just now.
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, flags, 0o644)

    def leave(self) -> None:
        """Be gone; what is still held is held by nobody."""
        if self._handle is not None:
            forget_holder(self._ledger, self.id)
            os.close(self._handle)
            self._handle = None


def is_holder_alive(ledger: Path, holder: str) -> bool:
    """Whether a holder's process still has the ledger open.

    Raises:
        OSError: the machine does not let us look.
    """
    try:
        handle = os.open(_find_file(ledger, holder), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def forget_holder(ledger: Path, holder: str) -> None:
    """Remove the file of one that is gone."""
    path = _find_file(ledger, holder)
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()  # where it was the last one


def _find_file(ledger: Path, holder: str) -> Path:
    return ledger.with_name(f"{ledger.name}.holders") / holder
