"""Where workspaces live while their runs do: labelled and locked, so that the next start can tidy up.

    <place>/label      says that it is ours
    <place>/contents   what marks keep; the harness's alone
    <place>/…          the workspace itself

The place is locked by the process that uses it; a labelled place without a lock was left by a dead process.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import os
import tempfile
import threading
import time
from pathlib import Path

from repotrial._core.remove_tree import clear_tree, remove_tree
from repotrial.isolation import Account
from repotrial.workspace._mark import WORKSPACE_UNUSABLE, ContentStore

_PREFIX = "repotrial-workspace-"
_LABEL = b"RepoTrial workspace, format 1\n"
_BIRTH_SECONDS = 3600
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class WorkspacePlace:
    """A new directory below `parent`, ours until it is removed.

    Args:
        parent: A directory; or a place of ours, which has to stay as long, and whose label and lock then
            speak for all that is in it.
        owner: The account that works in it, where it is not ours.
    """

    def __init__(self, parent: Path | WorkspacePlace, *, owner: Account | None) -> None:
        self._owner = owner
        self._numbers = itertools.count()
        self._spare: list[Path] = []
        self._host = parent if isinstance(parent, WorkspacePlace) else None
        self._lock: int | None = None
        self._is_there = True
        self._removing = threading.Lock()
        try:
            if isinstance(parent, WorkspacePlace):
                self.path: Path = parent.take_part()
            else:
                self.path = Path(os.path.realpath(_make_below(parent)))
                self._lock = _claim(self.path)
            if owner is not None:
                self.path.chmod(0o711)  # the other account may enter, not list
        except OSError as error:
            raise WORKSPACE_UNUSABLE.error(
                f"{parent}: expected room for a workspace, found: {error}"
            ) from error
        self.contents = ContentStore(self.path / "contents")

    def take_part(self) -> Path:
        """An empty directory in this place, for one user at a time.

        Where others have given theirs back, it is one of those: to make and to remove a directory costs more
        than all that is done in most of them.
        """
        with contextlib.suppress(IndexError):
            return self._spare.pop()
        path = self.path / f"part-{next(self._numbers)}"
        os.mkdir(path, 0o700)  # noqa: PTH102 - see `make_directory`
        return path

    def give_back(self, part: Path) -> None:
        """Empty a part, whatever is in it, for the next who wants one."""
        with contextlib.suppress(FileNotFoundError):  # this place itself is gone, with all its parts
            clear_tree(part)
            self._spare.append(part)

    def make_directory(self, path: Path, *, mode: int) -> None:
        """A directory in this place for the account that works in it.

        Raises:
            WORKSPACE_UNUSABLE: the machine does not let us.
        """
        try:
            name = os.fspath(path)
            os.mkdir(name)  # noqa: PTH102 - many for each run: a path object costs more than the kernel does
            os.chmod(name, mode)  # noqa: PTH101
            if self._owner is not None:
                os.chown(name, self._owner.uid, self._owner.gid)
        except OSError as error:
            raise WORKSPACE_UNUSABLE.error(f"{path}: expected to make a directory, found: {error}") from error

    def remove(self) -> None:
        """Remove everything, whatever the agent did to permissions. Idempotent."""
        with self._removing:
            if not self._is_there:
                return
            if self._host is not None:
                self._host.give_back(self.path)
            elif self._lock is not None:
                _dismantle(self.path)
                os.close(self._lock)
            self._lock = None
            self._is_there = False


def _claim(place: Path) -> int:
    """Lock and label it; the lock."""
    lock = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    fcntl.flock(lock, fcntl.LOCK_EX)
    label = os.open("label", _CREATE, 0o666, dir_fd=lock)
    os.write(label, _LABEL)
    os.close(label)
    return lock


def _make_below(parent: Path) -> str:
    try:
        return tempfile.mkdtemp(dir=parent, prefix=_PREFIX)
    except FileNotFoundError:
        parent.mkdir(parents=True, exist_ok=True)
        return tempfile.mkdtemp(dir=parent, prefix=_PREFIX)


def reap_workspaces(parent: Path) -> list[Path]:
    """Remove workspaces that dead processes left below `parent`; nothing else is touched.

    Returns:
        What was removed.
    """
    removed = []
    for path in sorted(parent.glob(f"{_PREFIX}*")):
        # Another harness may be removing the same, or it is another account's: a start must not fail for it.
        with contextlib.suppress(OSError):
            if _is_ours(path) and _dismantle_if_free(path):
                removed.append(path)
    return removed


def _is_ours(path: Path) -> bool:
    label = path / "label"
    if path.is_symlink() or label.is_symlink() or not path.is_dir():
        return False
    return _is_stillborn(path) or (label.is_file() and label.read_bytes() == _LABEL)


def _is_stillborn(path: Path) -> bool:
    """Whether its maker died before it could be labeled: empty, and for longer than that ever takes."""
    names = [entry.name for entry in path.iterdir()]
    is_empty = not names or (names == ["label"] and (path / "label").stat().st_size == 0)
    return is_empty and time.time() - path.stat().st_mtime > _BIRTH_SECONDS


def _dismantle_if_free(path: Path) -> bool:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _dismantle(path)
    except BlockingIOError:  # in use
        return False
    finally:
        os.close(handle)
    return True


def _dismantle(place: Path) -> None:
    """The label goes last: what is half removed is still ours to remove."""
    with os.scandir(place) as listing:
        entries = [*listing]
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            remove_tree(place / entry.name)
        elif entry.name != "label":
            (place / entry.name).unlink(missing_ok=True)
    (place / "label").unlink(missing_ok=True)
    place.rmdir()
