"""Level L0: programs as plain subprocesses, with nothing between them and the machine.

For authors who look at their own contract on their own machine, and for machines where nothing else works.
Nobody gets here by accident, and nothing measured here can be compared with anything.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Any, Final, Self

from repotrial.sandbox._identity import find_identity
from repotrial.sandbox._levels._keeping import KeptPrograms
from repotrial.sandbox._model import (
    WORKSPACE,
    Capabilities,
    CommandResult,
    CommandSpec,
    Level,
    SandboxSpec,
    Stage,
)
from repotrial.sandbox._resources._freezer import freeze_or_resume
from repotrial.sandbox._resources._limits import DiskWatch

__all__ = ["PLAIN_CAPABILITIES", "PlainSandbox", "UnsandboxedWarning"]

_MEGABYTE: Final = 1024**2

PLAIN_CAPABILITIES: Final = Capabilities(
    level=Level.L0,
    network="open",
    has_overlay=False,
    has_stages=False,
    syscall_audit="none",
    memory_limit="none",
    cpu_meter="none",
    disk_limit="none",
    freezer="none",
    has_images=False,
)
"""Ceilings are watched, but not promised: a program that wants to get away from its keeper can."""


class UnsandboxedWarning(UserWarning):
    """Programs run without any isolation."""


class PlainSandbox:
    """No sandbox: the workspace is a directory, and programs may do what the user may do.

    The workspace keeps its own path; `/workspace` is understood only as the directory where a command runs.
    A root harness still gives programs the account that sandboxes have. Everything ends with the sandbox, as
    long as nothing works against it.
    """

    def __init__(self, spec: SandboxSpec) -> None:
        self._spec = spec
        self._identity = find_identity()
        space = spec.limits.disk_mb
        disk = None if space is None else DiskWatch(spec.workspace, limit_bytes=space * _MEGABYTE)
        self._programs = KeptPrograms(spec.limits, disk=disk)

    @property
    def capabilities(self) -> Capabilities:
        return PLAIN_CAPABILITIES

    def run(self, command: CommandSpec) -> CommandResult:
        """Run one program to its end.

        Raises:
            SandboxLostError: The sandbox is closed, or was lost.
        """
        is_root = not os.geteuid()
        order: dict[str, Any] = {
            "argv": command.argv,
            "variables": {**self._spec.variables, **command.variables},
            "cwd": str(self._locate(command.cwd)),
            "uid": self._identity.uid if is_root else None,
            "gid": self._identity.gid if is_root else None,
            "limits": [],
            "landlock": None,
            "filter": None,
        }
        return self._programs.execute(order, command)

    def enter_stage(self, stage: Stage) -> None:
        """Nothing is enforced at this level, as `capabilities.has_stages` says."""

    def freeze(self) -> None:
        """Pause everything that runs."""
        freeze_or_resume(self._programs.build_freezer())

    def resume(self) -> None:
        self._programs.build_freezer().resume()

    def close(self) -> None:
        """End everything that runs. Twice is once.

        Raises:
            SandboxEndError: Nobody can confirm that they are gone.
        """
        self._programs.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _locate(self, cwd: str) -> Path:
        inside = PurePosixPath(cwd)
        if inside.is_relative_to(WORKSPACE):
            return self._spec.workspace / inside.relative_to(WORKSPACE)
        return Path(cwd)
