"""Small files in which the kernel counts, read again and again."""

from __future__ import annotations

import errno
import os
import threading
from typing import Final

_FILE_BYTES: Final = 64 * 1024
"""More than any of them has."""


class CounterFiles:
    """Opens each file when it is first asked for, and keeps it open: opening costs more than reading."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[str, int] | None = {}
        """None once it is closed."""

    def read(self, file: str) -> str:
        """What it says now.

        Raises:
            OSError: There is no such file, or what it counts is gone.
        """
        with self._lock:
            if self._opened is None:
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
            if file not in self._opened:
                self._opened[file] = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._opened[file], _FILE_BYTES, 0).decode("ascii")

    def load_fields(self, file: str) -> dict[str, int]:
        """Lines of a name and a number."""
        rows = (line.split() for line in self.read(file).splitlines())
        return {name: int(value) for name, value in rows}

    def close(self) -> None:
        """Let go of all; later readers are told that it is gone. Idempotent."""
        with self._lock:
            opened, self._opened = self._opened or {}, None
            for descriptor in opened.values():
                os.close(descriptor)
