"""The one door to a sandbox."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import TypeVar, assert_never

from repotrial._core.errors import MachineError, UsageError
from repotrial.sandbox._calls._supervisor import Sink
from repotrial.sandbox._levels._container import ContainerSandbox
from repotrial.sandbox._levels._fit import check_fit
from repotrial.sandbox._levels._landlock_sandbox import LandlockSandbox
from repotrial.sandbox._levels._launcher import Launcher, open_default_launcher
from repotrial.sandbox._levels._plain import PLAIN_CAPABILITIES, PlainSandbox, UnsandboxedWarning
from repotrial.sandbox._levels._session import BubblewrapSandbox
from repotrial.sandbox._machine._finding import Missing
from repotrial.sandbox._machine._probe import find_container_engine, find_engine, find_landlock, load_site
from repotrial.sandbox._model import Capabilities, HostRoot, Level, Sandbox, SandboxSpec

__all__ = ["LevelMissingError", "UnsandboxedError", "open_sandbox"]

Found = TypeVar("Found")


class LevelMissingError(MachineError):
    """This machine does not reach the isolation level that was asked for, or not with what is wanted."""

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
    engine_socket: Path | None = None,
) -> Sandbox:
    """Open a sandbox of exactly this level; never of a weaker one.

    Args:
        spec: What is wanted.
        level: How strong.
        sink: Takes what the syscall supervisor sees, in a thread of its own.
        launcher: Who starts it, where bubblewrap does; by default the one that this process shares.
        allow_unsandboxed: For level L0, which is none.
        engine_socket: Where the container engine listens, for level L3c; by default in the usual places.

    Raises:
        LevelMissingError: This machine does not reach the level, or the level cannot give what is wanted.
        UnsandboxedError: Level L0, and it was not allowed.
        SandboxStartError: It could not be started.
    """
    match level:
        case Level.L3 | Level.L2:
            engine = _require(find_engine(level))
            _verify_fit(spec, engine.capabilities)
            return BubblewrapSandbox(spec, engine, launcher=launcher or open_default_launcher(), sink=sink)
        case Level.L3C:
            containers = _require(find_container_engine(engine_socket))
            _verify_fit(spec, containers.capabilities)
            return ContainerSandbox(spec, containers)
        case Level.L1:
            _verify_fit(spec, _require(find_landlock()))
            return LandlockSandbox(spec, site=load_site())
        case Level.L0:
            if not allow_unsandboxed:
                raise UnsandboxedError("level L0 runs programs without any isolation")
            _verify_fit(spec, PLAIN_CAPABILITIES)
            warnings.warn(
                f"programs run on {spec.workspace} without any isolation (L0); results are not comparable",
                UnsandboxedWarning,
                stacklevel=2,
            )
            return PlainSandbox(spec)
        case _:
            assert_never(level)


def _require(found: Found | Missing) -> Found:
    if isinstance(found, Missing):
        raise LevelMissingError(f"{found.level.value}: {found.reason}", hint=found.remedy)
    return found


def _verify_fit(spec: SandboxSpec, capabilities: Capabilities) -> None:
    problems = check_fit(spec, capabilities)
    if problems:
        needs_image = capabilities.level is Level.L3C and isinstance(spec.root, HostRoot)
        hint = "Pin an image by its digest in the contract (`environment.image`)." if needs_image else None
        raise LevelMissingError(f"{capabilities.level.value}: {'; '.join(problems)}", hint=hint)
