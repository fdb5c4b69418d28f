"""Files that programs left in a directory of the harness: read without following or waiting for anything."""

from __future__ import annotations

from pathlib import Path

from repotrial._core.escaping import escape_bytes
from repotrial.workspace import Contents, ReadLimits, TreeReader

_LIMITS = ReadLimits(entries=10_000, total_bytes=256 * 2**20, file_bytes=64 * 2**20, depth=20)


def read_leftovers(directory: Path) -> dict[str, bytes]:
    """Every regular file that lies there now, by its name; links, pipes and giants are passed over."""
    found = {}
    with TreeReader(directory, limits=_LIMITS) as reader:
        for path, node in sorted(reader.walk()):
            reading = reader.read_file(path, kept_bytes=_LIMITS.file_bytes) if node.is_file else None
            if isinstance(reading, Contents) and reading.data is not None:
                found[escape_bytes(path)] = reading.data
    return found
