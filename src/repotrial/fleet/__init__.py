"""Where runs execute: this machine's pool, and workers on any machine that share a store.

What was conducted is kept; what was not can be resumed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.fleet._attempts import open_conductor
    from repotrial.fleet._control import FleetStatus
    from repotrial.fleet._engine_order import EngineName, EngineOrder, EngineSettings, EngineStarted
    from repotrial.fleet._engines import start_workers
    from repotrial.fleet._handed_in import Pulled
    from repotrial.fleet._plan import FleetPlan, RunConditions, plan_runs
    from repotrial.fleet._pool import (
        FleetEvent,
        RunNotConducted,
        RunPhase,
        RunRepeated,
        RunSkipped,
        RunStarted,
        conduct_fleet,
    )
    from repotrial.fleet._roster import build_roster
    from repotrial.fleet._shared_plan import SharedEnvelopes, SharedPlan, SharedRun
    from repotrial.fleet._site import FleetSite
    from repotrial.fleet._worker import Conducted, NotConducted, Worker, WorkerEvent, WorkerSettings
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "Conducted",
    "EngineName",
    "EngineOrder",
    "EngineSettings",
    "EngineStarted",
    "FleetEvent",
    "FleetPlan",
    "FleetSite",
    "FleetStatus",
    "NotConducted",
    "Pulled",
    "RunConditions",
    "RunNotConducted",
    "RunPhase",
    "RunRepeated",
    "RunSkipped",
    "RunStarted",
    "SharedEnvelopes",
    "SharedPlan",
    "SharedRun",
    "Worker",
    "WorkerEvent",
    "WorkerSettings",
    "build_roster",
    "conduct_fleet",
    "open_conductor",
    "plan_runs",
    "start_workers",
]
