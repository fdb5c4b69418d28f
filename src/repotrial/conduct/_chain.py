"""A file of chained lines: one process appends, and an edited, removed or added line is seen."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from repotrial._core.canonical import canonical_bytes
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError


class _Chained(Protocol):
    @property
    def seq(self) -> int: ...
    @property
    def previous(self) -> str: ...


Entry = TypeVar("Entry", bound=_Chained)


class ChainKind(NamedTuple, Generic[Entry]):
    """What is chained, and how errors about it are called."""

    model: type[Entry]
    schema: str
    """The digest over it stands before the first line."""
    broken: ErrorCode[EvidenceError]
    busy: ErrorCode[UsageError]

    @property
    def start(self) -> Digest:
        """What the first line follows."""
        return digest_bytes(self.schema.encode())


class ChainedFile(Generic[Entry]):
    """Lines on disk, each with the digest of the one before."""

    def __init__(self, path: Path, kind: ChainKind[Entry], *, is_writable: bool) -> None:
        """Read and verify all of it.

        Raises:
            ErrorCode `broken` of the kind: it does not hold.
            ErrorCode `busy` of the kind: another process writes it.
        """
        self._path = path
        self._handle = _open_locked(path, kind) if is_writable else None
        try:
            self.entries = read_chain(path, kind)
        except BaseException:
            self.close()
            raise
        self.head: Digest = _digest(self.entries[-1]) if self.entries else kind.start

    def append(self, entry: Entry) -> None:
        """Write one line, and see that it is on the disk; it must follow the last one."""
        assert self._handle is not None
        assert (entry.seq, entry.previous) == (len(self.entries), self.head)
        line = _render(entry)
        os.write(self._handle, line + b"\n")
        os.fsync(self._handle)
        self.entries.append(entry)
        self.head = digest_bytes(line)

    @property
    def digests(self) -> list[Digest]:
        """Of the lines, in order."""
        return [*(entry.previous for entry in self.entries[1:]), self.head][: len(self.entries)]

    def close(self) -> None:
        """Let others write; idempotent."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None


def read_chain(path: Path, kind: ChainKind[Entry]) -> list[Entry]:
    """All whole lines; half a line at the end, which a killed process leaves, says nothing.

    Raises:
        ErrorCode `broken` of the kind: a line does not follow the one before.
    """
    if not path.is_file():
        return []
    entries: list[Entry] = []
    head = kind.start
    data = path.read_bytes()
    for line in data[: data.rfind(b"\n") + 1].split(b"\n")[:-1]:
        try:
            entry = msgspec.json.decode(line, type=kind.model)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise kind.broken.error(f"{path}:{len(entries) + 1}: {error}") from error
        if entry.previous != head or entry.seq != len(entries) or _render(entry) != line:
            raise kind.broken.error(
                f"{path}:{len(entries) + 1}: expected the line that follows the one before, found another"
            )
        entries.append(entry)
        head = digest_bytes(line)
    return entries


def _render(entry: object) -> bytes:
    return canonical_bytes(msgspec.to_builtins(entry))


def _digest(entry: object) -> Digest:
    return digest_bytes(_render(entry))


def _open_locked(path: Path, kind: ChainKind[Entry]) -> int:
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise kind.busy.error(f"{path}: expected to write it, found another command") from None
    _drop_torn_tail(handle)
    return handle


def _drop_torn_tail(handle: int) -> None:
    size = os.fstat(handle).st_size
    data = os.pread(handle, size, 0)
    whole = data.rfind(b"\n") + 1
    if whole != size:
        os.ftruncate(handle, whole)
