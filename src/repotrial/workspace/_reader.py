"""Reading a tree that someone hostile wrote, and may still be writing.

Every place is opened below the root without following a link (`_beneath`), first as a mere handle: what is no
regular file is then never opened at all, so no pipe can make us wait and no device notices. Sizes, counts and
depths are bounded. Files without permissions are readable to root anyway; an ordinary user, who owns them,
lends himself the permission and gives it back.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import TypeAlias

import msgspec

from repotrial._core.beneath import open_beneath, reopen
from repotrial._core.closing import Closing
from repotrial._core.digest import Digest
from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.escaping import escape_bytes
from repotrial.workspace._node import (
    HISTORY,
    Node,
    Omission,
    OmissionReason,
    ReadLimits,
    build_omission,
    join_path,
)

_CHUNK_BYTES = 1 << 20
_ATTEMPTS = 3
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY
# Nothing there any more, or something else. Whatever else goes wrong must not look like an absence.
_GONE = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP}
_OWNER_READ = stat.S_IRUSR
_OWNER_LIST = stat.S_IRUSR | stat.S_IXUSR


WORKSPACE_UNREADABLE = ErrorCode(
    "workspace-unreadable",
    MachineError,
    "A workspace could not be read: the disk failed, or it belongs to another account.",
    hint="run as root, or as the account that owns the workspace",
)


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """A regular file, read to its end."""

    node: Node
    digest: Digest
    size_bytes: int
    """How many bytes were read."""
    data: bytes | None
    """The bytes themselves; None where there were more than the caller wanted to keep."""


class NotRead(msgspec.Struct, frozen=True, kw_only=True):
    """Something that is not a regular file, or is too large to be read."""

    node: Node


Reading: TypeAlias = Contents | NotRead | None
"""None: there is nothing at that path (any more)."""


class TreeReader(Closing):
    """One look at one tree; the bounds hold for all that is read through it."""

    def __init__(self, root: Path, *, limits: ReadLimits, history_included: bool = False) -> None:
        self.limits = limits
        self._history_included = history_included
        self._left_bytes = limits.total_bytes
        self._left_entries = limits.entries
        self._omissions: set[Omission] = set()
        self._lent: dict[bytes, Node] = {}
        try:
            # A mere handle: the root itself may have lost its permissions.
            self._root = os.open(root, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise WORKSPACE_UNREADABLE.error(f"{root}: expected a directory, found: {error}") from error

    @property
    def omissions(self) -> tuple[Omission, ...]:
        """What was passed over so far."""
        return tuple(sorted(self._omissions))

    def list_directory(self, path: bytes) -> list[tuple[bytes, Node]]:
        """The children of a directory in byte order, `.git` left out; empty if it is none (any more)."""
        with self._opened(path, _DIRECTORY, lend=_OWNER_LIST) as handle:
            if handle is None:
                return []
            try:
                return sorted(self._list(handle, path))
            except PermissionError:  # it may be listed, but not entered
                self._lend(path, _OWNER_LIST)
                return sorted(self._list(handle, path))

    def walk(self, start: bytes = b"") -> Iterator[tuple[bytes, Node]]:
        """Everything below a directory, parents first; nothing else is promised about the order."""
        pending = [start]
        while pending:
            directory = pending.pop()
            for name, node in self.list_directory(directory):
                path = join_path(directory, name)
                yield path, node
                if node.is_directory:
                    pending.append(path)

    def look(self, path: bytes) -> Node | None:
        """What stands at a path; None: nothing."""
        with self._opened(path, os.O_PATH) as handle:
            return None if handle is None else self._node(handle, path)

    def has_attribute(self, path: bytes, name: str, value: bytes | None = None) -> bool:
        """Whether a file or directory has an extended attribute (with that value)."""
        with self._opened(path, os.O_PATH) as handle:
            if handle is None:
                return False
            try:
                found = os.getxattr(f"/proc/self/fd/{handle}", name)
            except OSError:  # no such attribute, or none at all on this file system
                return False
        return value is None or found == value

    def read_link(self, path: bytes) -> bytes | None:
        """Where a symbolic link points; None if it is no link (any more)."""
        with self._opened(path, os.O_PATH) as handle:
            if handle is None or not stat.S_ISLNK(os.fstat(handle).st_mode):
                return None
            return os.readlink(b"", dir_fd=handle)

    def read_file(self, path: bytes, *, kept_bytes: int) -> Reading:
        """Digest a regular file, and keep its bytes if they are not more than `kept_bytes`.

        A file that changes while it is read is read again; if it never holds still, the last reading counts:
        the program that writes it is still running, and the next look will see a newer change time.
        """
        reading: Reading = None
        for _ in range(_ATTEMPTS):
            with self._opened(path, os.O_PATH) as handle:
                if handle is None:
                    return None
                node = self._node(handle, path)
                if not node.is_file or node.size_bytes > min(self.limits.file_bytes, self._left_bytes):
                    return NotRead(node=node)
                try:
                    reading, is_stable = self._read(handle, path, kept_bytes)
                except OSError as error:
                    raise _build_error(path, error) from error
            if is_stable:
                break
        return reading

    def omit(self, path: bytes, reason: OmissionReason) -> None:
        """Note what is passed over."""
        self._omissions.add(build_omission(path, reason))

    def close(self) -> None:
        """Give back what was lent."""
        for path, node in reversed(self._lent.items()):
            with self._opened(path, os.O_PATH) as handle:
                # By inode: something else may have that name by now.
                if handle is not None and os.fstat(handle).st_ino == node.inode:
                    _change_mode(handle, node.permissions)
        self._lent.clear()
        os.close(self._root)

    # -- one place -------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _opened(self, path: bytes, flags: int, *, lend: int = 0) -> Iterator[int | None]:
        """A handle, or None where there is nothing that could be opened in this way."""
        try:
            handle = self._open(path, flags, lend=lend)
        except OSError as error:
            if error.errno not in _GONE:
                raise _build_error(path, error) from error
            yield None
            return
        try:
            yield handle
        finally:
            os.close(handle)

    def _open(self, path: bytes, flags: int, *, lend: int) -> int:
        try:
            return open_beneath(self._root, path, flags)
        except PermissionError:
            self._lend_on_the_way(path)
            if lend:
                self._lend(path, lend)
            return open_beneath(self._root, path, flags)

    def _lend_on_the_way(self, path: bytes) -> None:
        parts = path.split(b"/")
        for end in range(len(parts)):
            self._lend(b"/".join(parts[:end]), _OWNER_LIST)

    def _lend(self, path: bytes, bits: int) -> None:
        """Permissions that the owner took from himself, until this look is over."""
        handle = open_beneath(self._root, path, os.O_PATH)
        try:
            node = Node.from_status(os.fstat(handle))
            if node.is_link or node.mode & bits == bits:
                return
            _change_mode(handle, node.permissions | bits)
            self._lent.setdefault(path, node)
        finally:
            os.close(handle)

    def _node(self, handle: int, path: bytes) -> Node:
        return self._undo_lending(path, Node.from_status(os.fstat(handle)))

    def _undo_lending(self, path: bytes, node: Node) -> Node:
        lent = self._lent.get(path)
        if lent is None or lent.inode != node.inode:
            return node
        return msgspec.structs.replace(node, mode=lent.mode)

    # -- directories -----------------------------------------------------------------------------------------

    def _list(self, handle: int, directory: bytes) -> Iterator[tuple[bytes, Node]]:
        if directory.count(b"/") + 2 > self.limits.depth:
            self.omit(directory, "too-deep")
            return
        with os.scandir(handle) as entries:
            found = list(itertools.islice(entries, self._left_entries + 1))
        if len(found) > self._left_entries:
            self.omit(directory or b".", "too-many-entries")
            found.pop()
        self._left_entries -= len(found)
        for entry in found:
            name = os.fsencode(entry.name)
            path = join_path(directory, name)
            with contextlib.suppress(FileNotFoundError):
                node = Node.from_status(entry.stat(follow_symlinks=False))
                if self._is_shown(path, name):
                    yield name, self._undo_lending(path, node)

    def _is_shown(self, path: bytes, name: bytes) -> bool:
        if name == HISTORY and not self._history_included:
            if path != HISTORY:
                self.omit(path, "nested-repository")
            return False
        if len(path) > self.limits.path_bytes:
            self.omit(path[:200], "too-deep")
            return False
        return True

    # -- files -----------------------------------------------------------------------------------------------

    def _read(self, handle: int, path: bytes, kept_bytes: int) -> tuple[Reading, bool]:
        with self._readable(handle) as readable:
            before = Node.from_status(os.fstat(handle))
            state, size, chunks = hashlib.sha256(), 0, list[bytes]()
            bound = min(self.limits.file_bytes, self._left_bytes)
            while chunk := os.read(readable, _CHUNK_BYTES):
                size += len(chunk)
                if size > bound:
                    return NotRead(node=before), True
                state.update(chunk)
                if size <= kept_bytes:
                    chunks.append(chunk)
            is_stable = Node.from_status(os.fstat(handle)) == before
        self._left_bytes -= size
        contents = Contents(
            node=self._node(handle, path),
            digest="sha256:" + state.hexdigest(),
            size_bytes=size,
            data=b"".join(chunks) if size <= kept_bytes else None,
        )
        return contents, is_stable

    @contextlib.contextmanager
    def _readable(self, handle: int) -> Iterator[int]:
        permissions = stat.S_IMODE(os.fstat(handle).st_mode)
        try:
            readable = reopen(handle, os.O_RDONLY | os.O_NONBLOCK)
        except PermissionError:
            _change_mode(handle, permissions | _OWNER_READ)
            try:
                readable = reopen(handle, os.O_RDONLY | os.O_NONBLOCK)
            finally:
                _change_mode(handle, permissions)
        try:
            yield readable
        finally:
            os.close(readable)


def _build_error(path: bytes, error: OSError) -> MachineError:
    return WORKSPACE_UNREADABLE.error(
        f"{escape_bytes(path)}: expected to read the workspace, found: {error.strerror}"
    )


def _change_mode(handle: int, permissions: int) -> None:
    """The mode of the very file that a handle stands for; chmod of a handle made with O_PATH is refused."""
    try:
        os.chmod(f"/proc/self/fd/{handle}", permissions)  # noqa: PTH101 - a handle, not a path
    except OSError as error:
        raise WORKSPACE_UNREADABLE.error(
            f"expected to read a file of the workspace, found: {error.strerror}"
        ) from error
