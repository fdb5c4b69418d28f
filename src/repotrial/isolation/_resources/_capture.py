"""What a program prints: the beginning is kept, all of it is digested, none of it is interpreted."""

from __future__ import annotations

import hashlib
import os
from typing import Final

from repotrial.isolation._model import StreamCapture

_CHUNK_BYTES: Final = 1 << 16


class OutputBudget:
    """How much a command may still print, on both streams together."""

    def __init__(self, limit_bytes: int) -> None:
        self._left = limit_bytes
        self.is_exceeded = False

    def take(self, wanted_bytes: int) -> int:
        """How much of this may still be counted."""
        granted = min(wanted_bytes, self._left)
        self._left -= granted
        self.is_exceeded = self.is_exceeded or granted < wanted_bytes
        return granted


class StreamRecord:
    """What is kept of one stream.

    Args:
        prefix_bytes: How much to keep in full.
        budget: Shared with the other stream.
    """

    def __init__(self, *, prefix_bytes: int, budget: OutputBudget) -> None:
        self._prefix = bytearray()
        self._prefix_bytes = prefix_bytes
        self._digest = hashlib.sha256()
        self._length = 0
        self._budget = budget

    def take(self, chunk: bytes) -> None:
        """Count a piece, as far as the budget goes."""
        granted = chunk[: self._budget.take(len(chunk))]
        self._digest.update(granted)
        self._length += len(granted)
        room = self._prefix_bytes - len(self._prefix)
        if room > 0:
            self._prefix += granted[:room]

    def build_capture(self) -> StreamCapture:
        return StreamCapture(
            prefix=bytes(self._prefix),
            digest="sha256:" + self._digest.hexdigest(),
            length_bytes=self._length,
        )


class StreamReader:
    """Reads one pipe without ever waiting for it.

    Args:
        pipe: The end to read from; owned from here on.
        prefix_bytes: How much to keep.
        budget: Shared with the other stream.
    """

    def __init__(self, pipe: int, *, prefix_bytes: int, budget: OutputBudget) -> None:
        self._pipe = pipe
        os.set_blocking(pipe, False)
        self._record = StreamRecord(prefix_bytes=prefix_bytes, budget=budget)
        self._budget = budget

    def fileno(self) -> int:
        return self._pipe

    def read(self) -> bool:
        """Take one piece, if there is one; false at the end of the stream, or when the budget is spent."""
        chunk = self._take()
        return chunk is None or self._has_more(chunk)

    def drain(self) -> bool:
        """Take all that is there now; false at the end of the stream, or when the budget is spent."""
        while (chunk := self._take()) is not None:
            if not self._has_more(chunk):
                return False
        return True

    def _take(self) -> bytes | None:
        """One piece; None where nothing is there now."""
        try:
            chunk = os.read(self._pipe, _CHUNK_BYTES)
        except BlockingIOError:
            return None
        self._record.take(chunk)
        return chunk

    def _has_more(self, chunk: bytes) -> bool:
        return bool(chunk) and not self._budget.is_exceeded

    def close(self) -> StreamCapture:
        """Stop reading; what is written to the other end later is lost. Idempotent."""
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
        return self._record.build_capture()
