"""What the harness can do to a sandbox while an agent works in it (P19)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from repotrial._core.errors import RepoTrialError
from repotrial.environment import ScratchPlace
from repotrial.isolation import CommandSpec, Sandbox
from repotrial.run._watch._mutations import MutationLog
from repotrial.run._watch._stages import StageController
from repotrial.trace import ByIntervention, Exited

ROOM: Final = "/opt/repotrial/harness"
"""Where the harness's own scratch appears inside, read-only."""
_RESTORE_SECONDS: Final = 120


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
