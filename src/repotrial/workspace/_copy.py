"""A workspace as a copy of the base, where overlays cannot be had: slower to make, the same to look at."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from repotrial._core.beneath import open_beneath
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.isolation import Account
from repotrial.workspace._base import Base
from repotrial.workspace._mark import is_settled
from repotrial.workspace._node import Node, Omission, ReadLimits, Touched
from repotrial.workspace._place import WorkspacePlace
from repotrial.workspace._reader import TreeReader
from repotrial.workspace._workspace import Workspace

_FICLONE = 0x40049409
_CHUNK_BYTES = 1 << 24
_LIMITS = ReadLimits(entries=10_000_000, depth=4000)
# The file system, the kernel or a filter does not have the call; the slow way works everywhere.
_NO_SHORT_CUT = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.ENOTTY}


WORKSPACE_COPY_FAILED = ErrorCode(
    "workspace-copy-failed",
    MachineError,
    "A tree could not be copied: no room, or no permission.",
    hint="make room in the directory for workspaces, or name another one",
)


def copy_tree(source: Path, target: Path, *, owner: Account | None) -> None:
    """Copy files, links and directories with permissions and times into a directory that does not exist.

    Raises:
        WORKSPACE_COPY_FAILED: the machine does not let us.
    """
    try:
        target.mkdir(0o700)
        with TreeReader(source, limits=_LIMITS, history_included=True) as reader:
            found = sorted(reader.walk())
            root = reader.look(b"")
        origin = os.open(source, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        place = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            for path, node in found:
                _copy_entry(origin, place, path, node)
            # Children first: a directory's time and permissions are set when nothing more is put into it.
            for path, node in reversed(found):
                _settle(place, path, node, owner)
            if root is not None:
                _settle(place, b"", root, owner)
        finally:
            os.close(origin)
            os.close(place)
    except OSError as error:
        raise WORKSPACE_COPY_FAILED.error(f"{target}: expected to copy {source}, found: {error}") from error


def give_tree(root: Path, owner: Account | None) -> None:
    """Give a tree to another account; nothing to do if the harness itself is that account."""
    if owner is None or (owner.uid, owner.gid) == (os.geteuid(), os.getegid()):
        return
    place = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with TreeReader(root, limits=_LIMITS, history_included=True) as reader:
            for path, _ in reader.walk():
                os.chown(path, owner.uid, owner.gid, dir_fd=place, follow_symlinks=False)
        os.fchown(place, owner.uid, owner.gid)
    except OSError as error:
        raise WORKSPACE_COPY_FAILED.error(
            f"{root}: expected to give it to the account {owner.uid}, found: {error}",
            hint="only root can give files to another account",
        ) from error
    finally:
        os.close(place)


def _copy_entry(origin: int, place: int, path: bytes, node: Node) -> None:
    if node.is_directory:
        os.mkdir(path, 0o700, dir_fd=place)
    elif node.is_link:
        handle = open_beneath(origin, path, os.O_PATH)
        try:
            os.symlink(os.readlink(b"", dir_fd=handle), path, dir_fd=place)
        finally:
            os.close(handle)
    elif node.is_file:
        source = open_beneath(origin, path, os.O_RDONLY)
        try:
            _copy_file(source, place, path)
        finally:
            os.close(source)


def _copy_file(source: int, place: int, path: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(path, flags, 0o600, dir_fd=place)
    try:
        with contextlib.suppress(OSError):  # shares the blocks where the file system can
            fcntl.ioctl(target, _FICLONE, source)
            return
        _copy_bytes(source, target)
    finally:
        os.close(target)


def _copy_bytes(source: int, target: int) -> None:
    try:
        while os.copy_file_range(source, target, _CHUNK_BYTES):
            pass
    except OSError as error:
        if error.errno not in _NO_SHORT_CUT:
            raise
        while chunk := os.read(source, _CHUNK_BYTES):
            view = memoryview(chunk)
            while view:
                view = view[os.write(target, view) :]


def _settle(place: int, path: bytes, node: Node, owner: Account | None) -> None:
    name = path or b"."
    if not (node.is_directory or node.is_file or node.is_link):
        return
    if owner is not None and (owner.uid, owner.gid) != (os.geteuid(), os.getegid()):
        os.chown(name, owner.uid, owner.gid, dir_fd=place, follow_symlinks=False)
    if not node.is_link:
        os.chmod(name, node.permissions, dir_fd=place)
    times = (node.modified_ns, node.modified_ns)
    os.utime(name, ns=times, dir_fd=place, follow_symlinks=False)


class CopyWorkspace(Workspace):
    """A copy of a base, and what `lstat` said of it when it was new."""

    def __init__(
        self, base: Base, parent: Path | WorkspacePlace, *, limits: ReadLimits | None = None
    ) -> None:
        super().__init__(base, parent, limits=limits)
        try:
            copy_tree(base.path, self.path, owner=base.owner)
            taken_ns = time.time_ns()
            with TreeReader(self.path, limits=self._limits) as reader:
                self._fresh = dict(reader.walk())
        except BaseException:
            self._place.remove()
            raise
        # Files whose times are too young to tell a change from the copying are read at the first look.
        self._settled = {path: node for path, node in self._fresh.items() if is_settled(node, taken_ns)}

    @property
    def path(self) -> Path:
        """The copy."""
        return self._place.path / "tree"

    @contextlib.contextmanager
    def look(self) -> Iterator[_CopyLook]:
        """Compare the whole copy with what it was, by what `lstat` says."""
        with TreeReader(self.path, limits=self._limits) as reader:
            yield _CopyLook(reader, paths=self._fresh, settled=self._settled)


class _CopyLook:
    def __init__(
        self, reader: TreeReader, *, paths: Mapping[bytes, Node], settled: Mapping[bytes, Node]
    ) -> None:
        self.reader = reader
        found = dict(reader.walk())
        self.touched: Touched = {path: node for path, node in found.items() if settled.get(path) != node}
        # Looked at once more: the walk may have ended at one of its bounds.
        self.touched.update((path, reader.look(path)) for path in paths.keys() - found.keys())

    @property
    def omissions(self) -> tuple[Omission, ...]:
        return self.reader.omissions
