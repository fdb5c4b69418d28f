"""The workspace while an agent works: its changes as events (P14, P15), and control over it (P19)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import MappingProxyType
from typing import Final

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.errors import RepoTrialError
from repotrial._core.escaping import escape_bytes
from repotrial.environment import ScratchPlace
from repotrial.isolation import CommandSpec, Sandbox
from repotrial.run._watch._stages import StageController
from repotrial.trace import (
    ByIntervention,
    Exited,
    FileChange,
    MutationCause,
    Observed,
    TraceWriter,
    WorkspaceMutation,
)
from repotrial.workspace import Mark, Restoration, Workspace

_CHANGES_PER_EVENT: Final = 200
_MARKS_KEPT: Final = 500
_ENTRIES_KEPT: Final = 500_000
"""Of all marks together: an agent that makes many files must not fill the harness's memory with them."""


ROOM: Final = "/opt/repotrial/harness"
"""Where the harness's own scratch appears inside, read-only."""
_RESTORE_SECONDS: Final = 120


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


class LiveSandboxControls:
    """Implements the breakers' `SandboxControls` for one sandbox."""

    def __init__(
        self, sandbox: Sandbox, *, stages: StageController, mutations: MutationLog, room: ScratchPlace
    ) -> None:
        self._sandbox = sandbox
        self._stages = stages
        self._mutations = mutations
        self._room = room
        self._number = 0

    def freeze(self) -> bool:
        """Pause everything inside."""
        return _try(self._sandbox.freeze)

    def resume(self) -> bool:
        """Let it go on."""
        return _try(self._sandbox.resume)

    def suspend_writes(self, alert: int) -> bool:
        """Take writing away, for good."""
        return self._stages.suspend(evidence=(alert,))

    def roll_back(self, restore: int | None) -> str | None:
        """Set the workspace back to how it was after an event, from inside, as any program there would."""
        self._mutations.record()
        way = self._mutations.build_restoration(restore)
        if way is None or not way.is_complete:
            return None
        self._number += 1
        self._room.write(f"{self._number}.tar", way.archive)
        self._room.write(f"{self._number}.removed", b"".join(path + b"\0" for path in way.removed))
        script = f"xargs -0r rm -rf -- < {ROOM}/{self._number}.removed && tar -xpf {ROOM}/{self._number}.tar"
        try:
            result = self._sandbox.run(
                CommandSpec(argv=("/bin/sh", "-c", script), timeout_seconds=_RESTORE_SECONDS)
            )
        except RepoTrialError:
            return None
        if result.exit != Exited(code=0):
            return None
        return self._mutations.describe()

    def note_restored(self, intervention: int) -> None:
        """Put on record what the roll-back changed."""
        self._mutations.record(ByIntervention(intervention=intervention))

    def set_aside(self) -> str | None:
        """Put all that the workspace holds on record; the run's change keeps it as evidence."""
        self._mutations.record()
        return self._mutations.describe()


def _try(act: Callable[[], None]) -> bool:
    try:
        act()
    except RepoTrialError:
        return False
    return True
