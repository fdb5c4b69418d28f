"""Removing trees that an agent filled: any depth, any permissions, no link followed.

What is gone is fine at every step: another harness may be removing the same leftovers, and the kernel makes
the inner directory of an overlay anew while it mounts.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

__all__ = ["remove_tree"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ALL = stat.S_IRWXU
# Something else has that name: the agent chose it too.
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


def remove_tree(root: Path) -> None:
    """Remove a directory of ours and everything in it; one that is not there is fine.

    Nested directories are first moved up to the root, so that neither the depth of a tree nor the length of
    its paths matters: programs inside a sandbox can make directories far deeper than any path can name.

    Raises:
        OSError: something in it belongs to another account, or is still written to.
    """
    name = os.fspath(root)
    with contextlib.suppress(OSError):
        os.rmdir(name)  # noqa: PTH106 - many for each run, and many of them are empty
        return
    try:
        _lend(root)
        handle = os.open(name, _DIRECTORY)
    except FileNotFoundError:
        return
    try:
        numbers = itertools.count()
        while names := _list(handle):
            for entry in names:
                _remove_entry(handle, entry, top=handle, numbers=numbers)
    finally:
        os.close(handle)
    with contextlib.suppress(FileNotFoundError):
        os.rmdir(name)  # noqa: PTH106


def _remove_entry(directory: int, name: str, *, top: int, numbers: Iterator[int]) -> None:
    with contextlib.suppress(FileNotFoundError):
        _remove_present(directory, name, top=top, numbers=numbers)


def _remove_present(directory: int, name: str, *, top: int, numbers: Iterator[int]) -> None:
    with contextlib.suppress(IsADirectoryError, PermissionError):
        os.unlink(name, dir_fd=directory)
        return
    with contextlib.suppress(OSError):
        os.rmdir(name, dir_fd=directory)
        return
    _lend_beneath(directory, name)
    if directory != top:
        _lift(directory, name, top=top, numbers=numbers)
        return
    handle = os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        for child in _list(handle):
            _remove_entry(handle, child, top=top, numbers=numbers)
    finally:
        os.close(handle)
    os.rmdir(name, dir_fd=directory)


def _lift(directory: int, name: str, *, top: int, numbers: Iterator[int]) -> None:
    """Give a nested directory a place of its own at the top."""
    for number in numbers:
        try:
            os.rename(name, f".lifted-{number}", src_dir_fd=directory, dst_dir_fd=top)
        except OSError as error:
            if error.errno not in _TAKEN:
                raise
        else:
            return


def _lend(root: Path) -> None:
    if not stat.S_ISDIR(root.lstat().st_mode):
        raise NotADirectoryError(f"expected a directory at {root}")
    root.chmod(_OWNER_ALL)


def _lend_beneath(directory: int, name: str) -> None:
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{handle}", _OWNER_ALL)  # noqa: PTH101 - a handle, not a path
    finally:
        os.close(handle)


def _list(directory: int) -> list[str]:
    with os.scandir(directory) as entries:
        return [entry.name for entry in entries]
