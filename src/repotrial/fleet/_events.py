"""What a fleet tells while it works: for progress displays, never evidence."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from repotrial._core.words import LifecyclePhase
from repotrial.run import RunEnded


class _Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    run_id: str
    """Of the specification; attempts share it."""


class RunStarted(_Event, frozen=True, kw_only=True, tag="started"):
    """A run began."""

    contract: str
    """The contract's id."""
    agent: str
    """Who works."""
    replicate: int
    """Counted from 0."""


class RunPhase(_Event, frozen=True, kw_only=True, tag="phase"):
    """A run went on."""

    phase: LifecyclePhase
    """Where it is now."""
    checks: dict[str, str] = {}
    """Outcomes so far: pass, fail or error, by check."""


class RunSkipped(_Event, frozen=True, kw_only=True, tag="skipped"):
    """A run was conducted before."""

    directory: str
    """Where."""


class RunUndone(_Event, frozen=True, kw_only=True, tag="undone"):
    """A run was not conducted, and has no sealed record."""

    fault: str | None
    """Why; null where it had not begun when the fleet was stopped."""
    hint: str = ""
    """What to do about it; empty where nobody knows."""


FleetEvent: TypeAlias = RunStarted | RunPhase | RunEnded | RunSkipped | RunUndone
