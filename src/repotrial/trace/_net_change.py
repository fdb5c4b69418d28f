"""The change as its mutation events tell it (P15): each path before the first and after the last."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.escaping import unescape_text
from repotrial.trace._payloads.actions import (
    DirectoryEntry,
    FileAdded,
    FileChange,
    FileDeleted,
    FileEntry,
    FileModified,
    ModeChanged,
    PathEntry,
    SpecialEntry,
    SymlinkEntry,
)
from repotrial.trace._payloads.checks import TestIds
from repotrial.trace._payloads.harness import ChangeTaken

_State: TypeAlias = PathEntry | int | None
"""What stands at a path; only its permission bits where no event tells more, None where nothing is."""


class NetChange:
    """Adds up mutations; a path that is again what it was has not changed."""

    def __init__(self) -> None:
        self._before: dict[str, _State] = {}
        self._after: dict[str, _State] = {}

    def take(self, change: FileChange) -> None:
        """One path of one mutation event."""
        before: _State
        after: _State
        match change:
            case FileAdded(after=after):
                before = None
            case FileModified(before=before, after=after):
                pass
            case FileDeleted(before=before):
                after = None
            case ModeChanged(before_mode=before, after_mode=after):
                known = self._after.get(change.path)
                if isinstance(known, FileEntry | DirectoryEntry) and isinstance(after, int):
                    after = msgspec.structs.replace(known, mode=after)
        self._before[change.path] = _complete(self._before.get(change.path, before), before)
        self._after[change.path] = after

    def iter_differences(self, taken: ChangeTaken) -> Iterator[str]:
        """What the change that was taken has otherwise than the events tell."""
        changed = {path for path in self._after if self._before[path] != self._after[path]}
        for entry in taken.entries:
            if entry.path not in changed:
                yield f"{entry.path}: expected a mutation event that explains its change, found none"
                continue
            for what, state, digest in (
                ("before", self._before[entry.path], entry.before),
                ("after", self._after[entry.path], entry.after),
            ):
                if not _agrees(state, digest):
                    yield f"{entry.path}: expected {digest or 'nothing'} {what}, found another in the events"
        if len(taken.entries) == taken.entry_count:
            others = TestIds.build(changed - {entry.path for entry in taken.entries})
            if others.digest != taken.left_out.digest:
                yield (
                    f"expected mutation events of {taken.left_out.count} path(s) that are no part of the "
                    f"change, found {others.count}"
                )


def _complete(first: _State, before: _State) -> _State:
    """Where the first event told only permission bits, a later one tells what else was there."""
    if isinstance(first, int) and isinstance(before, FileEntry | DirectoryEntry):
        return msgspec.structs.replace(before, mode=first)
    return first


def _agrees(state: _State, digest: Digest | None) -> bool:
    match state:
        case FileEntry(digest=found):
            return found == digest
        case SymlinkEntry(target=target):
            return digest_bytes(unescape_text(target)) == digest
        case int() | SpecialEntry():
            return True  # no event tells its content: it did not change, or is too large to be read
        case _:
            return digest is None  # to a patch there is nothing
