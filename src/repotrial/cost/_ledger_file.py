r"""The file of a ledger: lines that are chained, locked while they are read and written, synced one by one.

    line_n = {"entry":BODY_n,"hash":"HASH_n"}
    hash_n = sha256("repotrial/ledger@1\0" hash_(n-1) n BODY_n)

`hash_(n-1)` are 32 raw bytes (zeros before the first), `n` 8 bytes big-endian, `BODY_n` the exact bytes.
Processes share the file: the one that holds its lock first reads what the others have appended. State comes
from the file alone, also of one's own entries, so that an interrupt between writing and taking note of it
changes nothing.

A holder, one open ledger of one process, keeps a lock on a file of its own beside the ledger. The kernel
releases it when the process ends, however it ends, so no process number is mistaken for another's.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import uuid
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Protocol

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, MachineError
from repotrial._core.files import sync_directory


class LedgerHolder:
    """One open ledger of one process."""

    def __init__(self, ledger: Path) -> None:
        self.id = uuid.uuid4().hex
        self._ledger = ledger
        self._handle: int | None = None

    def appear(self) -> None:
        """Be alive for others, from before the first hold on.

        Raises:
            OSError: the machine does not let us.
        """
        if self._handle is not None:
            return
        handle = self._create()
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.write(handle, f"{os.getpid()}\n".encode())  # for people; nothing is decided by it
        except BaseException:
            os.close(handle)
            raise
        self._handle = handle

    def _create(self) -> int:
        path = _find_file(self._ledger, self.id)
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        while True:
            path.parent.mkdir(exist_ok=True)
            # The last holder to leave removes the directory, perhaps just now.
            with contextlib.suppress(FileNotFoundError):
                return os.open(path, flags, 0o644)

    def leave(self) -> None:
        """Release the lock; what is still held has no holder."""
        if self._handle is not None:
            forget_holder(self._ledger, self.id)
            os.close(self._handle)
            self._handle = None


def is_holder_alive(ledger: Path, holder: str) -> bool:
    """Whether a holder's process still has the ledger open.

    Raises:
        OSError: the machine does not let us look.
    """
    try:
        handle = os.open(_find_file(ledger, holder), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def forget_holder(ledger: Path, holder: str) -> None:
    """Remove the file of one that is gone."""
    path = _find_file(ledger, holder)
    with contextlib.suppress(OSError):
        path.unlink()
        path.parent.rmdir()  # where it was the last one


def _find_file(ledger: Path, holder: str) -> Path:
    return ledger.with_name(f"{ledger.name}.holders") / holder


_TAG = b"repotrial/ledger@1\0"
_FRONT = b'{"entry":'
_HASH_KEY = b',"hash":"'
_BACK_BYTES = len(_HASH_KEY) + 64 + len(b'"}')
_PIECE_BYTES = 1024 * 1024


LEDGER_BROKEN = ErrorCode(
    "ledger-broken",
    EvidenceError,
    "A ledger of budgets does not hold: a line was changed, removed, reordered, or is none of ours.",
    hint="restore the ledger from a copy, or account for its runs by hand and start a new one",
)
LEDGER_UNUSABLE = ErrorCode(
    "ledger-unusable",
    MachineError,
    "The machine does not let us read, lock or write a ledger of budgets.",
    hint="check the disk's space and the permissions of the ledger and its directory",
)


class LedgerHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a ledger ends; kept elsewhere, it shows later that nothing before it was removed."""

    count: Count
    """How many entries."""
    hash: str
    """Of the last one, 64 hex digits; zeros where there is none."""


class TornTail(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rest of a line that was never finished, and never acknowledged."""

    length_bytes: Count
    """How long."""
    digest: str
    """Of its bytes."""


class EntryReader(Protocol):
    """Makes a state of entries."""

    def reset(self) -> None:
        """Begin anew."""
        ...

    def apply(self, number: int, body: bytes) -> None:
        """Take the next entry."""
        ...


class LedgerFile:
    """One open ledger; any thread may call."""

    def __init__(self, path: Path, reader: EntryReader, *, is_writable: bool = True) -> None:
        """Open the file; create it where it may be written.

        Args:
            path: The file.
            reader: Takes each entry as soon as it is seen.
            is_writable: Whether entries will be appended.

        Raises:
            LEDGER_UNUSABLE: the machine does not let us.
        """
        self._path = path
        self._reader = reader
        self._mutex = threading.Lock()
        self._begin()
        with self.explaining():
            flags = os.O_NOFOLLOW | os.O_CLOEXEC
            if is_writable:
                path.parent.mkdir(parents=True, exist_ok=True)
                self._handle = os.open(path, flags | os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
                sync_directory(path.parent)
            else:
                self._handle = os.open(path, flags | os.O_RDONLY)
        self.torn: TornTail | None = None

    @property
    def head(self) -> LedgerHead:
        """The end, as far as it has been read."""
        return LedgerHead(count=self._count, hash=self._hash.hex())

    def close(self) -> None:
        """Let go of the file."""
        with self._mutex:
            os.close(self._handle)

    @contextlib.contextmanager
    def open_transaction(self) -> Iterator[None]:
        """Keep all others out; everything that they appended has been applied when the body starts.

        Raises:
            LEDGER_BROKEN: the file is no longer what was appended to it.
            LEDGER_UNUSABLE: the machine does not let us.
        """
        with self._mutex:
            with self.explaining():
                fcntl.flock(self._handle, fcntl.LOCK_EX)
            try:
                self._catch_up()
                yield
            finally:
                fcntl.flock(self._handle, fcntl.LOCK_UN)

    def append(self, body: bytes) -> int:
        """Bring one entry to the disk and apply it; within a transaction only.

        Returns:
            The entry's number.

        Raises:
            LEDGER_UNUSABLE: the machine does not take it; the ledger is as it was.
        """
        number = self._count
        link = _link(self._hash, number, body).hex().encode()
        line = b"".join((_FRONT, body, _HASH_KEY, link, b'"}\n'))
        try:
            with self.explaining():
                os.ftruncate(self._handle, self._end)  # a torn tail was never acknowledged
                written = 0
                while written < len(line):
                    written += os.write(self._handle, line[written:])
                os.fdatasync(self._handle)
        except MachineError:  # `ledger-unusable`
            with contextlib.suppress(OSError):
                os.ftruncate(self._handle, self._end)
            raise
        self._catch_up()
        return number

    def verify_head(self, head: LedgerHead) -> None:
        """Read all of the file again, and see that it goes on from `head`.

        Raises:
            LEDGER_BROKEN: it does not, or a line does not hold.
        """
        data = self._read_from(0)[: self._end]
        lines = data.split(b"\n")[:-1]
        previous = bytes(32)
        found = previous.hex() if head.count == 0 else None
        for number, line in enumerate(lines):
            _, previous = self._check_line(line, number, previous)
            if number + 1 == head.count:
                found = previous.hex()
        if found != head.hash or previous != self._hash:
            raise self._broken(head.count, f"expected entry {head.count} to end in {head.hash[:12]}…")

    def _begin(self) -> None:
        self._reader.reset()
        self._count, self._hash, self._end = 0, bytes(32), 0
        self._is_half_read = False

    def _catch_up(self) -> None:
        with self.explaining():
            here, there = os.fstat(self._handle), self._path.stat()
        if (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            raise self._broken(self._count, "expected the file that was opened, found another in its place")
        if here.st_size < self._end:
            raise self._broken(self._count, f"expected {self._end} bytes or more, found {here.st_size}")
        if self._is_half_read:  # an interrupt may have fallen between applying an entry and counting it
            self._begin()
        *lines, rest = self._read_from(self._end).split(b"\n")
        self._is_half_read = True
        for line in lines:
            body, link = self._check_line(line, self._count, self._hash)
            self._reader.apply(self._count, body)
            self._count, self._hash, self._end = self._count + 1, link, self._end + len(line) + 1
        self._is_half_read = False
        self.torn = TornTail(length_bytes=len(rest), digest=digest_bytes(rest)) if rest else None

    def _read_from(self, offset: int) -> bytes:
        pieces = []
        with self.explaining():
            while piece := os.pread(self._handle, _PIECE_BYTES, offset):
                pieces.append(piece)
                offset += len(piece)
        return b"".join(pieces)

    def _check_line(self, line: bytes, number: int, previous: bytes) -> tuple[bytes, bytes]:
        body = line[len(_FRONT) : -_BACK_BYTES]
        link = _link(previous, number, body)
        if line != b"".join((_FRONT, body, _HASH_KEY, link.hex().encode(), b'"}')):
            raise self._broken(number, "expected an entry that is chained to the one before it")
        return body, link

    def _broken(self, number: int, message: str) -> EvidenceError:
        return LEDGER_BROKEN.error(f"{self._path}: entry {number}: {message}")

    @contextlib.contextmanager
    def explaining(self) -> Iterator[None]:
        """Say of which ledger it is that the machine does not let us."""
        try:
            yield
        except OSError as error:
            raise LEDGER_UNUSABLE.error(
                f"{self._path}: expected a file that can be read, locked and written, found: {error}"
            ) from error


def _link(previous: bytes, number: int, body: bytes) -> bytes:
    return sha256(b"".join((_TAG, previous, number.to_bytes(8, "big"), body))).digest()
