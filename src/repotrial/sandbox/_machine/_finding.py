"""What can be found out about a level."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from repotrial.sandbox._model import Capabilities, Level

__all__ = ["Finding", "Missing"]


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """A level that this machine does not reach."""

    level: Level
    reason: str
    """What was tried and what came of it."""
    remedy: str
    """The exact way to get it."""


Finding: TypeAlias = Capabilities | Missing
