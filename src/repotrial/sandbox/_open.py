"""The one door to a sandbox."""

from __future__ import annotations

import warnings
from typing import assert_never

from repotrial._core.errors import MachineError, UsageError
from repotrial.sandbox._launcher import Launcher, open_default_launcher
from repotrial.sandbox._model import Level, Sandbox, SandboxSpec
from repotrial.sandbox._plain import PlainSandbox, UnsandboxedWarning
from repotrial.sandbox._probe import Missing, find_engine
from repotrial.sandbox._session import BubblewrapSandbox
from repotrial.sandbox._supervisor import Sink

__all__ = ["LevelMissingError", "UnsandboxedError", "open_sandbox"]


class LevelMissingError(MachineError):
    """This machine does not reach the isolation level that was asked for."""

    code = "isolation-level"
    default_hint = "`repotrial doctor` shows which levels this machine reaches, and how to get the others."


class UnsandboxedError(UsageError):
    """Level L0 runs programs without any isolation, and nobody said that this is wanted."""

    code = "unsandboxed"
    default_hint = "Ask for a level with isolation, or say explicitly that none is wanted."


def open_sandbox(
    spec: SandboxSpec,
    *,
    level: Level,
    sink: Sink | None = None,
    launcher: Launcher | None = None,
    allow_unsandboxed: bool = False,
) -> Sandbox:
    """Open a sandbox of exactly this level; never of a weaker one.

    Args:
        spec: What is wanted.
        level: How strong.
        sink: Takes what the syscall supervisor sees, in a thread of its own.
        launcher: Who starts it; by default the one that this process shares.
        allow_unsandboxed: For level L0, which is none.

    Raises:
        LevelMissingError: This machine does not reach the level.
        UnsandboxedError: Level L0, and it was not allowed.
        SandboxStartError: It could not be started.
    """
    match level:
        case Level.L3 | Level.L2:
            engine = find_engine(level)
            if isinstance(engine, Missing):
                raise LevelMissingError(f"{level.value}: {engine.reason}", hint=engine.remedy)
            if spec.overlay is not None and not engine.capabilities.has_overlay:
                raise LevelMissingError(f"{level.value}: expected a copied workspace, found an overlay")
            return BubblewrapSandbox(spec, engine, launcher=launcher or open_default_launcher(), sink=sink)
        case Level.L0:
            if not allow_unsandboxed:
                raise UnsandboxedError("level L0 runs programs without any isolation")
            warnings.warn(
                f"programs run on {spec.workspace} without any isolation (L0); results are not comparable",
                UnsandboxedWarning,
                stacklevel=2,
            )
            return PlainSandbox(spec)
        case Level.L3C | Level.L1:
            raise LevelMissingError(f"{level.value}: this back end opens no sandboxes of that level")
        case _:
            assert_never(level)
