"""What an isolation back end offers: one description for each level, registered by its module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.words import Level
from repotrial.isolation._calls._supervisor import Sink
from repotrial.isolation._model import Capabilities, Sandbox, SandboxSpec

Layer: TypeAlias = Literal[
    "mounts", "processes", "network", "privileges", "descriptors", "workspace", "system-calls"
]
"""What has to stop an attempt to get out of a sandbox."""
EVERY_LAYER: Final[frozenset[Layer]] = frozenset(
    {"mounts", "processes", "network", "privileges", "descriptors", "workspace", "system-calls"}
)


ISOLATION_LEVEL = ErrorCode(
    "isolation-level",
    MachineError,
    "This machine does not reach the isolation level that was asked for, or not with what is wanted.",
    hint="`repotrial doctor` shows which levels this machine reaches, and how to get the others.",
)


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A level that this machine does not reach."""

    level: Level
    reason: str
    """What was tried and what came of it."""
    remedy: str
    """The exact way to get it."""


Finding: TypeAlias = Capabilities | Missing


class BackEnd(NamedTuple):
    """One isolation level."""

    level: Level
    probe: Callable[[], Finding]
    """Find out by doing what it offers on this machine; cached, since it takes a moment."""
    open: Callable[[SandboxSpec, Sink | None], Sandbox]
    """Open a sandbox, after `probe` has found it to work."""
    promises: frozenset[Layer]
    """The layers that hold."""
    caution: str = ""
    """What it does not promise although it works."""
