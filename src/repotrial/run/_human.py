"""A person at work: shown a directory, by the clock, until somebody says that it is done (B8)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from repotrial._core.errors import ErrorCode, UsageError

Handover: TypeAlias = Callable[[Path, str, int], bool]
"""Takes the workspace, the briefing and the seconds that there are; true when the person is done in time."""


HUMAN_UNAVAILABLE = ErrorCode(
    "human-unavailable",
    UsageError,
    "A run was to be done by a person, and nobody is there to be asked.",
    hint="start it from a terminal, one run at a time",
)


def refuse_handover(_workspace: Path, _briefing: str, _seconds: int) -> bool:
    """For harnesses without a person."""
    raise HUMAN_UNAVAILABLE.error("expected a person at a terminal, found none")
