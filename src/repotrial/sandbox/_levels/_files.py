"""The host's files, as far as a recipe has to know them."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from repotrial.sandbox._levels._bubblewrap import Entry

__all__ = ["HostFiles"]

_SHOWN: Final = ("/", "/etc")
"""Where everything stands that each sandbox shows of the host."""


def _find_changes() -> tuple[int, ...]:
    return tuple(os.stat(place).st_mtime_ns for place in _SHOWN)  # noqa: PTH116 - for each sandbox


class HostFiles(msgspec.Struct, frozen=True):
    """Looks at the file system; no link is followed at the end of a path."""

    changed_ns: tuple[int, ...] = msgspec.field(default_factory=_find_changes)
    """When names appeared, vanished or became something else where each sandbox looks."""

    def describe(self, path: Path) -> Entry | None:
        try:
            mode = path.lstat().st_mode
        except OSError:
            return None
        if stat.S_ISLNK(mode):
            return Entry(name=path.name, kind="link", target=str(path.readlink()))
        if stat.S_ISDIR(mode):
            return Entry(name=path.name, kind="directory")
        # Sockets, pipes and devices of the host stay where they are.
        return Entry(name=path.name, kind="file") if stat.S_ISREG(mode) else None

    def list_directory(self, path: Path) -> Sequence[Entry]:
        found = (self.describe(path / name) for name in sorted(os.listdir(path)))  # noqa: PTH208 - names
        return [entry for entry in found if entry is not None]

    def is_directory(self, path: Path) -> bool:
        return path.is_dir()

    def exists(self, path: Path) -> bool:
        entry = self.describe(path)
        return entry is not None and entry.kind != "link"
