"""What the phases of one run share, once it is bound."""

from __future__ import annotations

from dataclasses import dataclass

from repotrial.environment import Installation
from repotrial.run._lifecycle import Lifecycle
from repotrial.run._progress import RunListener
from repotrial.run._request import PlannedRun, RunSettings
from repotrial.trace import Manifest, RunPaths, TraceWriter


@dataclass(frozen=True, kw_only=True)
class BoundRun:
    """A run with its record open and its environment ready."""

    plan: PlannedRun
    settings: RunSettings
    paths: RunPaths
    manifest: Manifest
    writer: TraceWriter
    lifecycle: Lifecycle
    listener: RunListener
    installation: Installation
