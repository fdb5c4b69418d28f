"""Where and how a fleet works."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from repotrial.run import Handover, ModelAccess, Stopper, refuse_handover
from repotrial.sandbox import InstallationSettings, Level
from repotrial.trace import SigningKey

__all__ = ["FleetSettings"]


@dataclass(frozen=True, kw_only=True)
class FleetSettings:
    """Where and how a fleet works."""

    runs: Path
    """Run directories are made here."""
    installation: InstallationSettings
    level: Level
    key: SigningKey
    jobs: int = 1
    """Runs at a time."""
    models: ModelAccess | None = None
    """For agents that ask a model."""
    handover: Handover = refuse_handover
    stopper: Stopper = field(default_factory=Stopper)
