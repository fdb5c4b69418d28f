"""A root file system that untrusted layers are written into, one entry at a time, without ever leaving it.

No path of an image reaches the kernel as a whole: each directory on the way is opened from the one above it
and never through a symbolic link, so that nothing an earlier member planted leads out. Files are always new
(`O_EXCL`), never overwritten in place, so that a hard link cannot carry a write elsewhere either.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path

from repotrial._core.errors import ContractError, ErrorCode

_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_DIRECTORY_MODE = 0o755

Components = tuple[bytes, ...]


IMAGE_UNSAFE_MEMBER = ErrorCode(
    "image-unsafe-member",
    ContractError,
    "A layer holds a member that leads out of the image: `..`, an absolute name, a path through a link.",
    hint="do not use this image; one that was built by a common tool has no such members",
)


def render_name(components: Components) -> str:
    """A member's name as it is shown."""
    text = b"/".join(components).decode("utf-8", errors="backslashreplace")
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)


class RootFs:
    """A directory that becomes a root file system."""

    def __init__(self, path: Path) -> None:
        self._root = os.open(path, _OPEN_DIRECTORY)
        self._written: set[Components] = set()
        """What the current layer wrote, and all directories above it: its own whiteouts spare these."""

    def close(self) -> None:
        os.close(self._root)

    def begin_layer(self) -> None:
        self._written = set()

    def add_directory(self, path: Components) -> None:
        """Make a directory, or keep the one that is there; a file or link in its place gives way."""
        if path:
            with self._parent(path) as parent:
                self._enter(parent, path, replaces_others=True)
        self._note(path)

    def add_file(
        self, path: Components, chunks: Iterable[bytes], *, is_executable: bool, modified_at: int = 0
    ) -> None:
        """A plain file; its time counts in seconds, since byte code is held against that of its source."""
        with self._place(path) as parent:
            handle = os.open(path[-1], _CREATE, 0o755 if is_executable else 0o644, dir_fd=parent)
            with os.fdopen(handle, "wb") as stream:
                # Whatever umask the harness has.
                os.fchmod(handle, 0o755 if is_executable else 0o644)
                for chunk in chunks:
                    stream.write(chunk)
                stream.flush()
                os.utime(handle, (modified_at, modified_at))

    def add_symlink(self, path: Components, target: bytes) -> None:
        """Any text is a target: it means something only inside the sandbox, and we never follow it."""
        with self._place(path) as parent:
            os.symlink(target, path[-1], dir_fd=parent)

    def add_hard_link(self, path: Components, target: Components) -> None:
        """Another name for a file that is already there."""
        if not target or target == path:
            raise IMAGE_UNSAFE_MEMBER.error(
                f"expected a hard link to another file, found {render_name(path)}"
            )
        try:
            with self._parent(target, is_new=False) as source:
                self._verify_file(source, target)
                with self._place(path) as parent:
                    os.link(target[-1], path[-1], src_dir_fd=source, dst_dir_fd=parent, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError) as error:
            # Never there, or removed to make room for the new name.
            raise IMAGE_UNSAFE_MEMBER.error(
                f"expected a hard link to a file of the image, "
                f"found {render_name(path)} to {render_name(target)}"
            ) from error

    def hide(self, path: Components) -> None:
        """A whiteout: remove what lower layers had at a path."""
        missing = contextlib.suppress(FileNotFoundError, NotADirectoryError)
        with missing, self._parent(path, is_new=False) as parent:
            self._hide(parent, path)

    def hide_children(self, path: Components) -> None:
        """An opaque directory: remove what lower layers had in it."""
        self.add_directory(path)
        with self._directory(path) as directory:
            for name in _names(directory):
                self._hide(directory, (*path, name))

    def ensure_file(self, path: Components) -> None:
        """See that a plain file is there, empty if it has to be made."""
        with self._parent(path) as parent:
            status = self._status(parent, path)
        if status is None or not stat.S_ISREG(status.st_mode):
            self.add_file(path, (), is_executable=False)

    # -- the ways of the kernel --------------------------------------------------------------------------

    @contextlib.contextmanager
    def _place(self, path: Components) -> Iterator[int]:
        """The directory that a new entry goes to, after what stood in the entry's place is gone."""
        if not path:
            raise IMAGE_UNSAFE_MEMBER.error("expected a directory as root, found a member that replaces it")
        with self._parent(path) as parent:
            _remove(parent, path[-1])
            self._note(path)
            yield parent

    def _note(self, path: Components) -> None:
        for length in range(len(path), 0, -1):
            if path[:length] in self._written:
                return
            self._written.add(path[:length])

    @contextlib.contextmanager
    def _parent(self, path: Components, *, is_new: bool = True) -> Iterator[int]:
        with self._directory(path[:-1], is_new=is_new) as directory:
            yield directory

    @contextlib.contextmanager
    def _directory(self, path: Components, *, is_new: bool = True) -> Iterator[int]:
        handle = os.dup(self._root)
        try:
            for length in range(1, len(path) + 1):
                prefix = path[:length]
                if is_new:
                    self._enter(handle, prefix, replaces_others=False)
                inner = self._open(handle, prefix)
                os.close(handle)
                handle = inner
            yield handle
        finally:
            os.close(handle)

    def _enter(self, parent: int, path: Components, *, replaces_others: bool) -> None:
        """See that a directory is there."""
        status = self._status(parent, path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            return
        if status is not None and replaces_others:
            _remove(parent, path[-1])
        elif status is not None:
            raise IMAGE_UNSAFE_MEMBER.error(
                f"expected a directory on the way, found another kind: {render_name(path)}"
            )
        os.mkdir(path[-1], _DIRECTORY_MODE, dir_fd=parent)

    def _open(self, parent: int, path: Components) -> int:
        status = self._status(parent, path)
        if status is not None and stat.S_ISLNK(status.st_mode):
            raise IMAGE_UNSAFE_MEMBER.error(
                f"expected a directory on the way, found a link: {render_name(path)}"
            )
        return os.open(path[-1], _OPEN_DIRECTORY, dir_fd=parent)

    def _status(self, parent: int, path: Components) -> os.stat_result | None:
        with contextlib.suppress(FileNotFoundError):
            return os.lstat(path[-1], dir_fd=parent)
        return None

    def _verify_file(self, parent: int, path: Components) -> None:
        status = self._status(parent, path)
        if status is None or not stat.S_ISREG(status.st_mode):
            raise IMAGE_UNSAFE_MEMBER.error(
                f"expected a hard link to a file of the image, found {render_name(path)}"
            )

    def _hide(self, parent: int, path: Components) -> None:
        if path not in self._written:
            _remove(parent, path[-1])
            return
        status = self._status(parent, path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            with _opened(parent, path[-1]) as directory:
                for name in _names(directory):
                    self._hide(directory, (*path, name))


def _remove(parent: int, name: bytes) -> None:
    """Remove an entry and everything below it; links are removed, never followed."""
    try:
        status = os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return
    if stat.S_ISDIR(status.st_mode):
        with _opened(parent, name) as directory:
            for child in _names(directory):
                _remove(directory, child)
        os.rmdir(name, dir_fd=parent)
    else:
        os.unlink(name, dir_fd=parent)


@contextlib.contextmanager
def _opened(parent: int, name: bytes) -> Iterator[int]:
    handle = os.open(name, _OPEN_DIRECTORY, dir_fd=parent)
    try:
        yield handle
    finally:
        os.close(handle)


def _names(directory: int) -> list[bytes]:
    with os.scandir(directory) as found:
        return [os.fsencode(entry.name) for entry in found]
