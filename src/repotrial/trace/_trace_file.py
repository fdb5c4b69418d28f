"""The file of a trace while it is written: locked, append-only, batched, and chained line by line."""

from __future__ import annotations

import fcntl
import os
from typing import Self

import msgspec

from repotrial._core.errors import ErrorCode, MachineError, UsageError
from repotrial._core.files import sync_directory
from repotrial.trace._chain import LINE_FRONTS, genesis_hash, link_hash
from repotrial.trace._event import Actor, EventRef
from repotrial.trace._files import TRACE_WRITE
from repotrial.trace._payloads.course import TRACE_VERSION
from repotrial.trace._rundir import RunPaths

TRACE_LOCKED = ErrorCode(
    "trace-locked",
    MachineError,
    "Another process is writing this trace.",
    hint="wait for the other run to end, or start this one in a new run directory",
)
TRACE_EXISTS = ErrorCode(
    "trace-exists",
    UsageError,
    "The run directory holds a trace already; traces are never continued.",
    hint="start a retry in a new run directory",
)


class _Tip(msgspec.Struct, frozen=True, gc=False):
    """Where a trace ends. One value, so that an interrupt cannot leave half of it changed."""

    count: int
    """How many events."""
    hash: bytes
    """Of the last one; 32 raw bytes."""
    end_bytes: int
    """Length of all lines, written or not."""


class TraceFile:
    """Takes the bodies of events and brings them to disk as lines."""

    def __init__(self, paths: RunPaths, run_id: str, *, lock: int, handle: int) -> None:
        """Use `create`."""
        self._paths = paths
        self._lock = lock
        self._handle = handle
        self._buffer = bytearray()
        self._is_writing = False
        self.tip = _Tip(0, genesis_hash(run_id), 0)

    @classmethod
    def create(cls, paths: RunPaths, run_id: str, *, is_durable: bool = True) -> Self:
        """Take the lock and create the file; `is_durable` waits until the disk has its name.

        Raises:
            TRACE_LOCKED: another writer holds the lock.
            TRACE_EXISTS: there is a trace already.
            TRACE_WRITE: the machine does not let us write.
        """
        lock = lock_trace(paths)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC
            handle = os.open(paths.trace, flags, 0o644)
            if is_durable:
                sync_directory(paths.root)
        except OSError as error:
            os.close(lock)
            if isinstance(error, FileExistsError):
                raise TRACE_EXISTS.error(f"{paths.trace}: expected no trace, found one") from error
            raise build_write_error(paths, error) from error
        return cls(paths, run_id, lock=lock, handle=handle)

    @property
    def waiting_bytes(self) -> int:
        """How much is accepted and not yet handed to the operating system."""
        return len(self._buffer)

    def add(self, body: bytes, form: bytes, actor: Actor, t: int) -> EventRef:
        """Chain one event to the tip by its form (see `build_form`); its line waits for `flush`."""
        tip = self.tip
        link = link_hash(tip.hash, tip.count, form, version=TRACE_VERSION)
        hash_hex = link.hex()
        front, cut = LINE_FRONTS[actor]
        line = b"".join((front, hash_hex.encode(), b'",', body[cut:], b"\n"))
        before = len(self._buffer)
        try:
            self._buffer += line
            self.tip = _Tip(tip.count + 1, link, tip.end_bytes + len(line))
        except BaseException:
            if self.tip is tip:  # an interrupt fell between the two: the line must not be there either
                del self._buffer[before:]
            raise
        return EventRef(tip.count, t, hash_hex)

    def flush(self, *, durable: bool) -> None:
        """Hand what waits to the operating system; with `durable`, wait until it is on the disk.

        Raises:
            TRACE_WRITE: the machine does not take it; nothing is lost, the next flush tries again.
        """
        try:
            if self._is_writing:  # the last time was interrupted
                self._forget_written()
            while self._buffer:
                self._is_writing = True
                os.write(self._handle, self._buffer)
                self._forget_written()
            self._is_writing = False
            if durable:
                os.fdatasync(self._handle)
        except OSError as error:
            raise build_write_error(self._paths, error) from error

    def release(self) -> None:
        """Let others at the file; what waits is lost."""
        try:
            os.close(self._handle)
        finally:
            os.close(self._lock)

    def _forget_written(self) -> None:
        """Take out of the buffer what the file holds; the file itself says how much that is.

        The result of the write does not: an interrupt may fall between writing and taking note of it.
        """
        size = os.fstat(self._handle).st_size
        known = self.tip.end_bytes - len(self._buffer)
        if not known <= size <= (self.tip.end_bytes if self._is_writing else known):
            raise TRACE_WRITE.error(
                f"{self._paths.trace}: expected the {known} bytes that were written, found {size}",
                hint="another program changes the file, so this run is lost: start it in a new run directory",
            )
        del self._buffer[: size - known]


def lock_trace(paths: RunPaths) -> int:
    """Keep every writer out until the returned handle is closed.

    Raises:
        TRACE_LOCKED: a writer is at work.
        TRACE_WRITE: the machine does not let us write.
    """
    try:
        paths.root.mkdir(parents=True, exist_ok=True)
        lock = os.open(paths.trace_lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise build_write_error(paths, error) from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(lock)
        if isinstance(error, BlockingIOError):
            raise TRACE_LOCKED.error(f"{paths.trace}: expected no other writer, found one") from error
        raise build_write_error(paths, error) from error
    return lock


def build_write_error(paths: RunPaths, error: OSError) -> MachineError:
    """What the machine said, as an error of ours."""
    return TRACE_WRITE.error(f"{paths.root}: expected a directory that can be written, found: {error}")
