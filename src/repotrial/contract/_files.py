"""Files beside the contract: read with bounds, never through a link, never anything but plain files.

Symbolic links are refused even where they stay inside: what a path names must not depend on anything but the
path. The contract directory itself may be reached through one.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal, TypeAlias

from repotrial.contract._contract import FilePin
from repotrial.contract._problems import nearest, quote
from repotrial.contract._types import MEBIBYTE

MAX_CONTRACT_BYTES = MEBIBYTE
"""Largest `contract.toml` and `contract.lock.json` (the lock: sixteen times as much)."""
MAX_PINNED_BYTES = 512 * MEBIBYTE
"""Most bytes that all oracle files of a contract may have together."""
MAX_PINNED_ENTRIES = 20_000
"""Most files and directories that the overlays of a contract may have together."""

_OPEN_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FETCHED = "vendor"
"""By custom, what a contract uses and its repository does not keep."""
_MOST_NAMES_COMPARED = 1000
_KINDS = (
    (stat.S_ISREG, "a file"),
    (stat.S_ISDIR, "a directory"),
    (stat.S_ISLNK, "a symbolic link"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)

Entry: TypeAlias = Literal["file", "directory", "any"]


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """Why a path beside the contract cannot be used."""

    code: str
    path: str
    message: str
    hint: str = ""


@dataclass
class _Tally:
    entries: int = 0
    size_bytes: int = 0


@dataclass(frozen=True)
class ContractFiles:
    """The contract directory as the loader sees it."""

    directory: Path
    _tally: _Tally = field(default_factory=_Tally)

    def check_directory(self) -> Refusal | None:
        """Whether there is a directory to look into at all."""
        try:
            mode = self.directory.stat().st_mode
            if stat.S_ISDIR(mode):
                os.scandir(self.directory).close()
                return None
        except FileNotFoundError:
            return Refusal(
                code="file-missing",
                path=".",
                message="expected a contract directory, found nothing there",
                hint="`repotrial contract new` makes one",
            )
        except OSError as error:
            return _os_refusal(".", error)
        except ValueError as error:  # a NUL in the name
            return Refusal(code="file-unreadable", path=".", message=f"expected a directory, found: {error}")
        return Refusal(
            code="file-wrong-kind",
            path=".",
            message=f"expected a contract directory, found {_kind(mode)}",
            hint="give the directory that holds contract.toml",
        )

    def check_entry(self, path: str, entry: Entry) -> Refusal | None:
        """Whether a path names what it has to name."""
        found = self._status(path)
        if isinstance(found, Refusal):
            return found
        is_right = {
            "file": stat.S_ISREG(found.st_mode),
            "directory": stat.S_ISDIR(found.st_mode),
            "any": stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode),
        }[entry]
        if is_right:
            return None
        expected = {"file": "a file", "directory": "a directory", "any": "a file or a directory"}[entry]
        message = f"expected {expected}, found {_kind(found.st_mode)}"
        return Refusal(code="file-wrong-kind", path=path, message=message)

    def read(self, path: str, *, max_bytes: int) -> bytes | Refusal:
        """All bytes of a plain file, if there are not too many."""
        handle = self._open(path, max_bytes=max_bytes)
        if isinstance(handle, Refusal):
            return handle
        with os.fdopen(handle, "rb") as stream:
            try:
                data = stream.read(max_bytes + 1)
            except OSError as error:
                return _os_refusal(path, error)
        return _too_large(path, len(data), max_bytes) if len(data) > max_bytes else data

    def iter_pins(self, path: str, *, max_bytes: int) -> Iterator[FilePin | Refusal]:
        """Digests of a file, or of all files below a directory, sorted by path."""
        status = self._status(path)
        if isinstance(status, Refusal):
            yield status
        elif not stat.S_ISDIR(status.st_mode):
            yield self.pin(path, max_bytes=max_bytes)
        else:
            yield from self._iter_tree(path, max_bytes=max_bytes)

    def _iter_tree(self, path: str, *, max_bytes: int) -> Iterator[FilePin | Refusal]:
        pending = [path]
        found: list[FilePin | Refusal] = []
        while pending:
            folder = pending.pop()
            try:
                names = self._list_names(folder, most=MAX_PINNED_ENTRIES + 1)
            except OSError as error:
                found.append(_os_refusal(folder, error))
                continue
            for name in names:
                self._tally.entries += 1
                if self._tally.entries > MAX_PINNED_ENTRIES:
                    yield _too_many(path)
                    return
                inner = self._visit(f"{folder}/{name}", max_bytes=max_bytes)
                if isinstance(inner, str):
                    pending.append(inner)
                else:
                    found.append(inner)
        if not found:
            yield Refusal(code="file-empty", path=path, message="expected files in the directory, found none")
        yield from sorted(found, key=lambda item: item.path)

    def _visit(self, path: str, *, max_bytes: int) -> FilePin | Refusal | str:
        """A pin or a refusal; for a directory, its path."""
        name = PurePosixPath(path).name
        if not name.isprintable() or "\\" in name:
            return Refusal(
                code="file-name",
                path=path.encode(errors="backslashreplace").decode(),
                message="expected a file name of printable characters without backslash, found "
                + quote(name.encode(errors="backslashreplace").decode()),
            )
        status = self._step_status(path, PurePosixPath(path))  # the steps towards it were looked at before
        if isinstance(status, Refusal):
            return status
        return path if stat.S_ISDIR(status.st_mode) else self.pin(path, max_bytes=max_bytes)

    def pin(self, path: str, *, max_bytes: int) -> FilePin | Refusal:
        """Digest and executable bit of a plain file."""
        handle = self._open(path, max_bytes=max_bytes)
        if isinstance(handle, Refusal):
            return handle
        with os.fdopen(handle, "rb") as stream:
            status = os.fstat(stream.fileno())
            if max_bytes <= MAX_PINNED_BYTES:  # images have a bound of their own
                self._tally.size_bytes += status.st_size
                if self._tally.size_bytes > MAX_PINNED_BYTES:
                    return _too_many(path)
            try:
                digest = "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
            except OSError as error:
                return _os_refusal(path, error)
        return FilePin(path=path, digest=digest, is_executable=bool(status.st_mode & stat.S_IXUSR))

    def _status(self, path: str) -> os.stat_result | Refusal:
        """What a path names, after a look at every step towards it."""
        steps = PurePosixPath(path)
        if not steps.parts:
            message = "expected a file below the contract directory, found the directory itself"
            return Refusal(code="file-wrong-kind", path=path, message=message)
        for step in reversed(steps.parents[:-1]):
            above = self._step_status(path, step)
            if isinstance(above, Refusal):
                return above
        return self._step_status(path, steps)

    def _step_status(self, path: str, step: PurePosixPath) -> os.stat_result | Refusal:
        try:
            status = os.lstat(self.directory / step)
        except OSError as error:
            return self._missing(path, step, error)
        if stat.S_ISLNK(status.st_mode):
            return Refusal(
                code="file-symlink",
                path=path,
                message=f"expected a file or directory itself, found a symbolic link: {quote(str(step))}",
                hint="put a copy of the file where the link is",
            )
        return status

    def _missing(self, path: str, step: PurePosixPath, error: OSError) -> Refusal:
        if not isinstance(error, FileNotFoundError):
            return _os_refusal(path, error)
        try:
            names = self._list_names(str(step.parent), most=_MOST_NAMES_COMPARED)
        except OSError:
            names = []
        near = nearest(step.name, names)
        if step.parts[:1] == (_FETCHED,):
            hint = "fetch it (for the examples: tools/fetch_examples.sh), or correct the path"
        elif near:
            hint = f"did you mean {quote(str(step.parent / near))}?"
        else:
            hint = "make the file, or correct the path"
        return Refusal(
            code="file-missing", path=path, message=f"expected {quote(path)}, found nothing there", hint=hint
        )

    def _list_names(self, folder: str, *, most: int) -> list[str]:
        with os.scandir(self.directory / folder) as entries:
            return sorted(entry.name for entry in islice(entries, most))

    def _open(self, path: str, *, max_bytes: int) -> int | Refusal:
        refusal = self.check_entry(path, "file")
        if refusal is not None:
            return refusal
        try:
            # Without O_NONBLOCK a pipe that was put here a moment ago would hold us for ever.
            handle = os.open(self.directory / path, _OPEN_FLAGS)
        except OSError as error:
            return _os_refusal(path, error)
        status = os.fstat(handle)
        if stat.S_ISREG(status.st_mode) and status.st_size <= max_bytes:
            return handle
        os.close(handle)
        if stat.S_ISREG(status.st_mode):
            return _too_large(path, status.st_size, max_bytes)
        message = f"expected a file, found {_kind(status.st_mode)}"
        return Refusal(code="file-wrong-kind", path=path, message=message)


def normalize(path: str) -> str:
    """One spelling for a path: `./checks//unit/` is `checks/unit`."""
    return str(PurePosixPath(path))


def _kind(mode: int) -> str:
    return next((words for is_kind, words in _KINDS if is_kind(mode)), "a device")


def _os_refusal(path: str, error: OSError) -> Refusal:
    if isinstance(error, FileNotFoundError):
        return Refusal(code="file-missing", path=path, message="expected a file, found nothing there")
    if isinstance(error, PermissionError):
        message, hint = "expected a file that can be read, found no permission", "allow reading with chmod"
        return Refusal(code="file-unreadable", path=path, message=message, hint=hint)
    reason = error.strerror or type(error).__name__
    message = f"expected a file that can be read, found: {reason[:1].lower()}{reason[1:]}"
    return Refusal(code="file-unreadable", path=path, message=message)


def _too_large(path: str, size: int, max_bytes: int) -> Refusal:
    message = f"expected at most {_size(max_bytes)}, found {_size(size)}"
    return Refusal(code="file-too-large", path=path, message=message)


def _too_many(path: str) -> Refusal:
    return Refusal(
        code="oracle-too-large",
        path=path,
        message=f"expected at most {MAX_PINNED_ENTRIES} entries and {_size(MAX_PINNED_BYTES)} in all files "
        "beside the contract together, found more",
        hint="put large data into [[environment.artifacts]], pinned by digest",
    )


def _size(size: int) -> str:
    return f"{size / MEBIBYTE:.4g} MiB" if size >= MEBIBYTE // 4 else f"{size} bytes"
