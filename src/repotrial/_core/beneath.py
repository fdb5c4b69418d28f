"""Opening what lies below a directory, and nothing else: no link is followed, no mount is crossed."""

from __future__ import annotations

import ctypes
import errno
import os
from functools import cache

_SYS_OPENAT2 = 437  # the same on every architecture: newer than the unified table
_RESOLVE_NO_XDEV = 0x01
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE = _RESOLVE_NO_XDEV | _RESOLVE_NO_MAGICLINKS | _RESOLVE_NO_SYMLINKS | _RESOLVE_BENEATH
_ATTEMPTS = 16


_OpenHow = ctypes.c_uint64 * 3
"""Flags, mode, resolve: `struct open_how`."""


def open_beneath(root: int, path: bytes, flags: int) -> int:
    """Open `path` below the directory `root`; a link on the way or at the end is an error (ELOOP).

    With `O_PATH` a link at the end is opened as itself.

    Raises:
        OSError: it is not there, is a link, or may not be opened.
    """
    if not path:
        return reopen(root, flags)
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    if has_openat2():
        return _openat2(root, path, flags)
    return _open_stepwise(root, path, flags)


def reopen(handle: int, flags: int) -> int:
    """Open the very file that an `O_PATH` handle stands for: its name no longer matters."""
    return os.open(f"/proc/self/fd/{handle}", flags | os.O_CLOEXEC | os.O_NOCTTY)


@cache
def has_openat2() -> bool:
    """Whether the kernel (5.6 or later) and its filters let us."""
    try:
        os.close(_openat2_once(-100, b".", os.O_PATH | os.O_CLOEXEC))  # AT_FDCWD
    except OSError:
        return False
    return True


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _openat2(root: int, path: bytes, flags: int) -> int:
    for _ in range(_ATTEMPTS):
        try:
            return _openat2_once(root, path, flags)
        except OSError as error:
            # The kernel asks to try again when something was renamed while it looked.
            if error.errno not in {errno.EAGAIN, errno.EINTR}:
                raise
    raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN), path)


def _openat2_once(root: int, path: bytes, flags: int) -> int:
    how = _OpenHow(flags, 0, _RESOLVE)
    handle: int = _libc().syscall(
        ctypes.c_long(_SYS_OPENAT2),
        ctypes.c_int(root),
        ctypes.c_char_p(path),
        ctypes.byref(how),
        ctypes.c_size_t(ctypes.sizeof(how)),
    )
    if handle < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return handle


def _open_stepwise(root: int, path: bytes, flags: int) -> int:
    *parents, name = path.split(b"/")
    directory = os.dup(root)
    try:
        for parent in parents:
            step = os.open(
                parent, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory
            )
            os.close(directory)
            directory = step
        return os.open(name, flags, dir_fd=directory)
    finally:
        os.close(directory)
