"""Small files in which the kernel counts, read again and again."""

from __future__ import annotations

import os
from typing import Final

__all__ = ["CounterFiles"]

_FILE_BYTES: Final = 64 * 1024
"""More than any of them has."""


class CounterFiles:
    """Opens each file when it is first asked for, and keeps it open: opening costs more than reading."""

    def __init__(self) -> None:
        self._opened: dict[str, int] = {}

    def read(self, file: str) -> str:
        """What it says now.

        Raises:
            OSError: There is no such file, or what it counts is gone.
        """
        descriptor = self._opened.get(file)
        if descriptor is None:
            opened = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
            descriptor = self._opened.setdefault(file, opened)
            if descriptor != opened:  # another thread was as fast
                os.close(opened)
        return os.pread(descriptor, _FILE_BYTES, 0).decode("ascii")

    def load_fields(self, file: str) -> dict[str, int]:
        """Lines of a name and a number."""
        rows = (line.split() for line in self.read(file).splitlines())
        return {name: int(value) for name, value in rows}

    def close(self) -> None:
        """Let go of all; nobody may be reading. Twice is once."""
        while self._opened:
            os.close(self._opened.popitem()[1])
