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

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OWNER_ALL = stat.S_IRWXU
_LEVELS = 32
"""So far down we go, with a handle open on each level; what is deeper is moved up."""
_PATIENCE = 1000
"""How often a directory may be found filled again; after that another process is filling it, an error."""
# Something else has that name: the agent chose it too.
_TAKEN = {errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR}


def remove_tree(root: Path) -> None:
    """Remove a directory of ours and everything in it; one that is not there is fine.

    Directories that are nested deep are first moved up to the root, so that neither the depth of a tree nor
    the length of its paths matters: programs inside a sandbox can make directories far deeper than any path
    can name.

    Raises:
        OSError: something in it belongs to another account, or is still written to.
    """
    name = os.fspath(root)
    with contextlib.suppress(OSError):
        os.rmdir(name)  # noqa: PTH106 - many for each run, and many of them are empty
        return
    try:
        handle = _open_to_clear(name)
    except FileNotFoundError:
        return
    try:
        removal = _Removal(handle)
        while not (removal.clear() and removal.is_removed(name)):
            pass
    finally:
        os.close(handle)


def clear_tree(root: Path) -> None:
    """Remove everything in a directory of ours, as `remove_tree` does, but keep the directory itself.

    Raises:
        OSError: something in it belongs to another account, or is still written to.
    """
    handle = _open_to_clear(os.fspath(root))
    try:
        removal = _Removal(handle)
        while not removal.clear():
            pass
    finally:
        os.close(handle)


class _Removal:
    """One tree on its way out, by a handle of its root."""

    def __init__(self, top: int) -> None:
        self._top = top
        self._numbers = itertools.count()
        self._patience = _PATIENCE
        self._has_more = False

    def clear(self) -> bool:
        """Remove what is there; false where there is more to remove now."""
        self._has_more = False
        self._remove_entries(self._top, _LEVELS)
        return not self._has_more

    def _remove_entries(self, directory: int, levels: int) -> None:
        for name, is_directory in _list(directory):
            try:
                if is_directory:
                    self._remove_directory(directory, name, levels - 1)
                else:
                    os.unlink(name, dir_fd=directory)
            except FileNotFoundError:  # another process was faster
                continue
            except (IsADirectoryError, NotADirectoryError):  # and has moved something else there
                self._tire()

    def _remove_directory(self, directory: int, name: str, levels: int) -> None:
        with contextlib.suppress(OSError):
            os.rmdir(name, dir_fd=directory)
            return
        if not levels:
            self._lift(directory, name)
            return
        handle = _open_to_clear(name, directory)
        try:
            self._remove_entries(handle, levels)
        finally:
            os.close(handle)
        self.is_removed(name, directory)

    def _lift(self, directory: int, name: str) -> None:
        """Give a nested directory a place of its own at the top."""
        _lend(name, directory)  # a directory that is moved is written to
        self._has_more = True
        for number in self._numbers:
            try:
                os.rename(name, f".lifted-{number}", src_dir_fd=directory, dst_dir_fd=self._top)
            except OSError as error:
                if error.errno not in _TAKEN:
                    raise
            else:
                return

    def is_removed(self, name: str, directory: int | None = None) -> bool:
        """Remove what was emptied; false where it is not empty any more, as long as we are patient.

        Another process that removes the same tree may have moved a directory up to here.
        """
        try:
            os.rmdir(name, dir_fd=directory)
        except FileNotFoundError:
            return True
        except OSError as error:
            if error.errno != errno.ENOTEMPTY:
                raise
            self._tire()
            return False
        return True

    def _tire(self) -> None:
        """There is more to remove than there was."""
        self._has_more = True
        self._patience -= 1
        if not self._patience:
            raise OSError(errno.ENOTEMPTY, "it is filled as fast as it is emptied")


def _open_to_clear(name: str, directory: int | None = None) -> int:
    """A handle of a directory whose entries we may list and remove."""
    try:
        handle = os.open(name, _DIRECTORY, dir_fd=directory)
    except PermissionError:
        _lend(name, directory)
        return os.open(name, _DIRECTORY, dir_fd=directory)
    try:
        if os.fstat(handle).st_mode & _OWNER_ALL != _OWNER_ALL:
            os.fchmod(handle, _OWNER_ALL)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _lend(name: str, directory: int | None) -> None:
    """Give ourselves every right on a directory, also where we may not even open it."""
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
    try:
        os.chmod(f"/proc/self/fd/{handle}", _OWNER_ALL)  # noqa: PTH101 - a handle, not a path
    finally:
        os.close(handle)


def _list(directory: int) -> list[tuple[str, bool]]:
    """Names, and whether each is a directory."""
    with os.scandir(directory) as entries:
        return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
