"""Files with keys and secrets: plain files of their owner, closed to all other users."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from repotrial._core.errors import ErrorCode, MachineError

PRIVATE_FILE = ErrorCode(
    "private-file",
    MachineError,
    "A file with a key or with secrets cannot be read, is not a plain file, or is open to other users.",
    hint="run `chmod 600` on the file, and see that it belongs to you",
)


def read_private_file(path: Path, *, max_bytes: int) -> bytes:
    """Read a plain file of the current user (or of root) with mode 0600 or stricter.

    The checks are made on the open file, so that it cannot be exchanged between the check and the reading.

    Raises:
        PRIVATE_FILE: the file is missing, a link, too large, of another user, or open to others.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise PRIVATE_FILE.error(
            f"{path}: expected a readable plain file, found: {error.strerror}"
        ) from error
    try:
        _check_private(path, os.fstat(handle))
        with os.fdopen(handle, "rb", closefd=False) as stream:
            data = stream.read(max_bytes + 1)
    finally:
        os.close(handle)
    if len(data) > max_bytes:
        raise PRIVATE_FILE.error(
            f"{path}: expected at most {max_bytes} bytes, found more", hint="is it the right file?"
        )
    return data


def _check_private(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode):
        raise PRIVATE_FILE.error(
            f"{path}: expected a plain file, found something else", hint="name a plain file"
        )
    mode = stat.S_IMODE(status.st_mode)
    if mode & 0o077:
        raise PRIVATE_FILE.error(
            f"{path}: expected mode 0600 or stricter, found {mode:04o}: other users can read it",
            hint=f"chmod 600 {path}; if others may have read it, make a new one",
        )
    if os.geteuid() not in {status.st_uid, 0} and status.st_uid != 0:
        raise PRIVATE_FILE.error(
            f"{path}: expected a file of the current user, found one of user id {status.st_uid}",
            hint=f"chown it to yourself, or copy it: install -m 600 {path} <yours>",
        )
