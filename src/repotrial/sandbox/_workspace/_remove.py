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
from pathlib import Path

__all__ = ["remove_tree"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ALL = stat.S_IRWXU
_PATIENCE = 1000
"""How often a directory may have been filled again before that is somebody else's doing, and an error."""
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
        _Removal(handle).clear(name)
    finally:
        os.close(handle)


class _Removal:
    """One tree on its way out, by a handle of its root."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._numbers = itertools.count()
        self._patience = _PATIENCE

    def clear(self, root: str) -> None:
        """Remove everything, and the root itself."""
        while True:
            while names := _list(self._top):
                for name in names:
                    self._remove_entry(self._top, name)
            if self._is_removed(root):
                return

    def _remove_entry(self, directory: int, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._remove_present(directory, name)

    def _remove_present(self, directory: int, name: str) -> None:
        with contextlib.suppress(IsADirectoryError, PermissionError):
            os.unlink(name, dir_fd=directory)
            return
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=directory)
            return
        _lend_beneath(directory, name)
        if directory != self._top:
            self._lift(directory, name)
            return
        handle = os.open(name, _DIRECTORY, dir_fd=directory)
        try:
            for child in _list(handle):
                self._remove_entry(handle, child)
        finally:
            os.close(handle)
        self._is_removed(name, directory)

    def _lift(self, directory: int, name: str) -> None:
        """Give a nested directory a place of its own at the top."""
        for number in self._numbers:
            try:
                os.rename(name, f".lifted-{number}", src_dir_fd=directory, dst_dir_fd=self._top)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                return

    def _is_removed(self, name: str, directory: int | None = None) -> bool:
        """Remove what was emptied; false where it is not empty any more, as long as we are patient.

        Somebody else who removes the same tree has moved a directory up to here.
        """
        try:
            os.rmdir(name, dir_fd=directory)
        except FileNotFoundError:
            return True
        except OSError as error:
            self._patience -= 1
            if error.errno != errno.ENOTEMPTY or not self._patience:
                raise
            return False
        return True


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
