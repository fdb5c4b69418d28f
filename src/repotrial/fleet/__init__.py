"""Where runs execute: this machine's pool. What was conducted is kept; what was not can be resumed."""

from __future__ import annotations

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

__all__ = [
    "FleetEvent",
    "FleetPlan",
    "RunConditions",
    "RunNotConducted",
    "RunPhase",
    "RunRepeated",
    "RunSkipped",
    "RunStarted",
    "build_roster",
    "conduct_fleet",
    "plan_runs",
]
