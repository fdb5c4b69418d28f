"""What a command of a check changed in the tree (C5)."""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.escaping import escape_bytes, unescape_text
from repotrial.trace import ChangedEntry, ChangedPaths, FileEntry, PathEntry, SymlinkEntry
from repotrial.workspace import Mark, Workspace

_MOST_ENTRIES: Final = 200


class ChangeWatch:
    """Looks at a tree between the commands that run in it."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._mark: Mark = workspace.snapshot()

    def take(self) -> ChangedPaths:
        """What differs since the last look; a test suite may make thousands of files."""
        before, self._mark = self._mark, self._workspace.snapshot()
        entries = []
        for path, old, new in self._workspace.list_changed(before, self._mark):
            entry = ChangedEntry(path=escape_bytes(path), before=_digest(old), after=_digest(new))
            if entry.before != entry.after:
                entries.append(entry)
        return ChangedPaths(
            entries=tuple(entries[:_MOST_ENTRIES]),
            count=len(entries),
            digest=canonical_digest(["repotrial/changed-paths@1", msgspec.to_builtins(entries)]),
        )


def _digest(entry: PathEntry | None) -> Digest | None:
    """Of a file's content or a link's target; of anything else there is none."""
    match entry:
        case FileEntry(digest=digest):
            return digest
        case SymlinkEntry(target=target):
            return digest_bytes(unescape_text(target))
        case _:
            return None
