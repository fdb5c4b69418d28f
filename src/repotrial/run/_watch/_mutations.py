"""What changed in the workspace, as events, each after what caused it (P14, P15)."""

from __future__ import annotations

import threading
from types import MappingProxyType
from typing import Final

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.escaping import escape_bytes
from repotrial.trace import FileChange, MutationCause, Observed, TraceWriter, WorkspaceMutation
from repotrial.workspace import Mark, Restoration, Workspace

_CHANGES_PER_EVENT: Final = 200
_MARKS_KEPT: Final = 500
_ENTRIES_KEPT: Final = 500_000
"""Of all marks together: an agent that makes many files must not fill the harness's memory with them."""


class MutationLog:
    """Looks at a workspace now and then, and records what differs since the last look."""

    def __init__(self, writer: TraceWriter, workspace: Workspace) -> None:
        self._writer = writer
        self._workspace = workspace
        self._lock = threading.Lock()
        self._first = self._mark = workspace.snapshot()
        self._since = writer.last_seq
        self._marks: dict[int, Mark] = {}
        self._entries = 0

    def record(self, cause: MutationCause | None = None) -> tuple[FileChange, ...]:
        """Everything that differs now, in events of bounded size.

        Args:
            cause: What explains the change; left out: only that it was found.
        """
        with self._lock:
            since, self._since = self._since, self._writer.last_seq
            mark = self._workspace.snapshot()
            changes = self._workspace.delta(self._mark, mark, sink=self._writer)
            self._mark = mark
            for start in range(0, len(changes), _CHANGES_PER_EVENT):
                part = changes[start : start + _CHANGES_PER_EVENT]
                event = WorkspaceMutation(cause=cause or Observed(since=since), changes=part)
                self._keep(self._writer.append(event, actor="harness").seq, mark)
        return changes

    def describe(self) -> Digest:
        """The workspace as it was at the last look: a digest over all that differs from the base."""
        with self._lock:
            entries = self._mark.entries
        found = {escape_bytes(path): msgspec.to_builtins(entry) for path, entry in entries.items()}
        return canonical_digest(["repotrial/workspace@1", found])

    def build_restoration(self, event: int | None) -> Restoration | None:
        """The way back to how the workspace was after a change; None if that is not known any more.

        Args:
            event: The change's event; None: how the agent found it.
        """
        with self._lock:
            then = self._first if event is None else self._marks.get(event)
            return None if then is None else self._workspace.build_restoration(self._mark, then)

    def _keep(self, seq: int, mark: Mark) -> None:
        # The way back needs no more than the entries.
        self._marks[seq] = msgspec.structs.replace(mark, seen=MappingProxyType({}))
        self._entries += len(mark.entries)
        while len(self._marks) > _MARKS_KEPT or self._entries > _ENTRIES_KEPT:
            oldest = self._marks.pop(next(iter(self._marks)))
            self._entries -= len(oldest.entries)
