"""Trees on disk: reading them without following a link, writing them without trusting one."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
from collections.abc import Generator, Iterable, Iterator
from pathlib import Path

from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode, MachineError, UsageError
from repotrial.source._tree import (
    DEFAULT_OPTIONS,
    TREE_LIMIT,
    UNSAFE_PATH,
    FileMode,
    Member,
    SnapshotLimits,
    SourceOptions,
    collect_tree,
    render_path,
)

_CHUNK_BYTES = 1 << 20
_PLAIN = 0o644
_EXECUTABLE = 0o755
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# O_NONBLOCK: a fifo that takes a file's place between listing and opening must not hang us.
_OPEN_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


UNSUPPORTED_ENTRY = ErrorCode(
    "unsupported-entry",
    ContractError,
    "A repository holds something that git could not: a device, a pipe, a hard link, a set-uid file.",
    hint="remove it from the archive or directory, or replace it by a plain file",
)
TREE_UNREADABLE = ErrorCode(
    "tree-unreadable",
    MachineError,
    "A directory of files could not be read: it is missing, unreadable, or changed while it was read.",
    hint="check that the directory exists, that you may read it, and that nothing writes to it",
)
SNAPSHOT_WRITE_FAILED = ErrorCode(
    "snapshot-write-failed",
    MachineError,
    "A snapshot could not be written: the disk is full, or this file system cannot hold one of its names.",
    hint="use a case-sensitive file system with enough room",
)
TARGET_NOT_EMPTY = ErrorCode(
    "target-not-empty",
    UsageError,
    "The place for a snapshot is in use already; a snapshot is the committed files and nothing else.",
    hint="name a directory that does not exist yet",
)


def compute_tree_digest(
    root: Path, *, history_ignored: bool = False, options: SourceOptions = DEFAULT_OPTIONS
) -> Digest:
    """The tree digest of a directory on disk, streamed.

    Args:
        root: The directory.
        history_ignored: Leave out `.git` at the top, as in a workspace; it is refused otherwise.
        options: Limits.

    Raises:
        UNSAFE_PATH: a name is not acceptable, such as `.git`.
        UNSUPPORTED_ENTRY: there is a device, socket or pipe.
        TREE_LIMIT: the tree is too large.
        TREE_UNREADABLE: the machine cannot read it.
    """
    members = iter_directory(root, limits=options.limits, history_ignored=history_ignored)
    with contextlib.closing(members):
        return collect_tree(members, sink=DiscardingSink(), limits=options.limits).tree_digest


def iter_directory(root: Path, *, limits: SnapshotLimits, history_ignored: bool = False) -> Generator[Member]:
    """Every file and link below `root`; each directory is opened from its parent, so no link is followed."""
    with _readable(os.fsencode(root)):
        handle = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            yield from _Walk(limits, history_ignored=history_ignored).iter_members(handle, b"")
        finally:
            os.close(handle)


class _Walk:
    def __init__(self, limits: SnapshotLimits, *, history_ignored: bool) -> None:
        self._limits = limits
        self._history_ignored = history_ignored
        self._seen = 0

    def iter_members(self, directory: int, prefix: bytes) -> Iterator[Member]:
        with os.scandir(directory) as entries:
            listing = sorted(
                (os.fsencode(entry.name), entry.stat(follow_symlinks=False)) for entry in entries
            )
        for name, status in listing:
            path = prefix + name
            self._count(path)
            if path == b".git" and self._history_ignored:
                continue
            if stat.S_ISDIR(status.st_mode):
                yield from self._descend(directory, name, path)
            else:
                yield _read_member(directory, name, path=path, status=status)

    def _descend(self, directory: int, name: bytes, path: bytes) -> Iterator[Member]:
        if name.lower() == b".git":
            raise UNSAFE_PATH.error(f"expected files without history, found {render_path(path)}")
        handle = os.open(name, _OPEN_DIRECTORY, dir_fd=directory)
        try:
            yield from self.iter_members(handle, path + b"/")
        finally:
            os.close(handle)

    def _count(self, path: bytes) -> None:
        self._seen += 1
        if self._seen > self._limits.entries or path.count(b"/") >= self._limits.depth:
            raise TREE_LIMIT.error(
                f"expected at most {self._limits.entries} entries and {self._limits.depth} levels, found more"
            )


def _read_member(directory: int, name: bytes, *, path: bytes, status: os.stat_result) -> Member:
    if stat.S_ISLNK(status.st_mode):
        return Member(path=path, mode=FileMode.SYMLINK, chunks=[os.readlink(name, dir_fd=directory)])
    if not stat.S_ISREG(status.st_mode):
        raise UNSUPPORTED_ENTRY.error(
            f"expected a file, directory or link, found a special file at {render_path(path)}"
        )
    # Git looks at the owner's bit alone.
    mode = FileMode.EXECUTABLE if status.st_mode & stat.S_IXUSR else FileMode.REGULAR
    return Member(path=path, mode=mode, chunks=_iter_file(directory, name, path))


def _iter_file(directory: int, name: bytes, path: bytes) -> Iterator[bytes]:
    with _readable(path), os.fdopen(os.open(name, _OPEN_FILE, dir_fd=directory), "rb", buffering=0) as stream:
        if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
            raise TREE_UNREADABLE.error(
                f"expected a file, found that {render_path(path)} changed while it was read"
            )
        while chunk := stream.read(_CHUNK_BYTES):
            yield chunk


@contextlib.contextmanager
def _readable(path: bytes) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise TREE_UNREADABLE.error(
            f"expected to read {render_path(path)}, found: {error.strerror}"
        ) from error


class DiscardingSink:
    """Reads everything, keeps nothing."""

    def write_file(self, path: bytes, chunks: Iterable[bytes], *, is_executable: bool) -> None:
        del path, is_executable
        for _ in chunks:
            pass

    def write_link(self, path: bytes, target: bytes) -> None:
        """Nothing to keep."""


class _DirectorySink:
    """Writes files with exactly the modes 0644 and 0755, whatever the umask.

    Links are written last and nothing is ever overwritten: while files are placed there is no link in the
    tree that a path could lead through, even where the file system takes two names for one.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._made: set[Path] = {root}
        self._links: list[tuple[bytes, bytes]] = []

    def write_file(self, path: bytes, chunks: Iterable[bytes], *, is_executable: bool) -> None:
        with _reported(path):
            place = self._prepare(path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            handle = os.open(place, flags, 0o600)
        with os.fdopen(handle, "wb", buffering=0) as stream:
            for chunk in chunks:
                with _reported(path):
                    _write_whole(stream.fileno(), chunk)
            os.fchmod(stream.fileno(), _EXECUTABLE if is_executable else _PLAIN)

    def write_link(self, path: bytes, target: bytes) -> None:
        self._links.append((path, target))

    def finish(self) -> None:
        """Place the links."""
        for path, target in self._links:
            with _reported(path):
                self._prepare(path).symlink_to(os.fsdecode(target))

    def _prepare(self, path: bytes) -> Path:
        place = self._root / os.fsdecode(path)
        self._make_directory(place.parent)
        return place

    def _make_directory(self, directory: Path) -> None:
        if directory in self._made:
            return
        self._make_directory(directory.parent)
        directory.mkdir(exist_ok=True)
        if directory.is_symlink():
            raise FileExistsError(errno.EEXIST, "a link is in the way")
        directory.chmod(_EXECUTABLE)
        self._made.add(directory)


@contextlib.contextmanager
def open_target(into: Path) -> Iterator[_DirectorySink]:
    """An empty directory to write a snapshot into; emptied again if anything goes wrong.

    Raises:
        TARGET_NOT_EMPTY: there is something already.
        SNAPSHOT_WRITE_FAILED: the directory cannot be made.
    """
    was_there = os.path.lexists(into)
    if was_there and (into.is_symlink() or not into.is_dir() or any(into.iterdir())):
        raise TARGET_NOT_EMPTY.error(f"expected no file or an empty directory, found something at {into}")
    with _reported(os.fsencode(into)):
        into.mkdir(parents=True, exist_ok=True)
        into.chmod(_EXECUTABLE)
    sink = _DirectorySink(into)
    try:
        yield sink
        sink.finish()
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        if was_there:
            into.mkdir(exist_ok=True)
        raise


@contextlib.contextmanager
def _reported(path: bytes) -> Iterator[None]:
    try:
        yield
    except FileExistsError as error:
        raise SNAPSHOT_WRITE_FAILED.error(
            f"expected room for {render_path(path)}, found a file that has the same name here"
        ) from error
    except OSError as error:
        raise SNAPSHOT_WRITE_FAILED.error(
            f"expected to write {render_path(path)}, found: {error.strerror}"
        ) from error


def _write_whole(handle: int, chunk: bytes) -> None:
    view = memoryview(chunk)
    while view:
        view = view[os.write(handle, view) :]
