"""Files of a run directory: opened as regular files only, never waiting on one, and written once."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from repotrial._core.errors import ErrorCode, EvidenceError, MachineError
from repotrial._core.files import describe_refusal, write_atomic

MAX_LINE_BYTES = 16 * 1024 * 1024
"""No event line is longer; the writer refuses longer ones, so a reader's memory is bounded."""

_CHUNK_BYTES = 256 * 1024


TRACE_UNREADABLE = ErrorCode(
    "trace-unreadable",
    EvidenceError,
    "A file of a run directory cannot be read: it is missing, not a regular file, or access is denied.",
    hint="check the path and its permissions; a run directory holds trace.jsonl and blobs/",
)
TRACE_LINE_TOO_LONG = ErrorCode(
    "trace-line-too-long",
    EvidenceError,
    "A trace has a line longer than any event can be, so it is not a trace of ours.",
    hint="check that the file is a trace; large bodies belong into blobs",
)
TRACE_WRITE = ErrorCode(
    "trace-write",
    MachineError,
    "The run directory cannot be written: no space, no permission, or not a directory.",
    hint="make room or fix the permissions; what was written so far is intact",
)


def write_once(path: Path, data: bytes, *, is_durable: bool = True) -> None:
    """Write a file of a run directory that is never written again, whole or not at all.

    Args:
        path: The file.
        data: All of it.
        is_durable: Whether it survives a power cut as soon as this returns.

    Raises:
        FileExistsError: it is there already.
        TRACE_WRITE: the machine does not let us write.
    """
    try:
        write_atomic(path, data, may_replace=False, is_durable=is_durable)
    except FileExistsError:
        raise
    except OSError as error:
        raise TRACE_WRITE.error(f"{path}: expected a file that can be written, found: {error}") from error


def open_regular(path: Path) -> BinaryIO:
    """Open a regular file for reading, unbuffered; a symlink, a FIFO or a device is refused, not followed.

    Raises:
        TRACE_UNREADABLE: there is no such file, or it is of another kind.
    """
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the path
        raise TRACE_UNREADABLE.error(
            f"{path}: expected a readable file, found: {describe_refusal(error)}"
        ) from error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise TRACE_UNREADABLE.error(f"{path}: expected a regular file, found something else")
    return os.fdopen(handle, "rb", buffering=0)


class LineReader:
    """The complete lines of a stream, without their newline; what stands after the last newline is `torn`."""

    def __init__(self, stream: BinaryIO, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._stream = stream
        self._max_line_bytes = max_line_bytes
        self.torn = b""

    def __iter__(self) -> Iterator[bytes]:
        tail = b""
        while chunk := self._read():
            lines = (tail + chunk).split(b"\n")
            tail = lines.pop()
            # Only the line that began before this chunk, and the one that goes on after it, can be too long.
            if (lines and len(lines[0]) > self._max_line_bytes) or len(tail) > self._max_line_bytes:
                raise TRACE_LINE_TOO_LONG.error(
                    f"expected lines of at most {self._max_line_bytes} bytes, found a longer one"
                )
            yield from lines
        self.torn = tail

    def _read(self) -> bytes:
        try:
            return self._stream.read(_CHUNK_BYTES)
        except OSError as error:
            raise TRACE_UNREADABLE.error(f"expected readable bytes, found: {error}") from error
