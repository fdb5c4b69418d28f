"""Where runs execute: this machine's pool. What was conducted is kept; what was not can be resumed."""

from __future__ import annotations

from repotrial.fleet._plan import FleetPlan, RunConditions, plan_runs
from repotrial.fleet._pool import FleetEvent, RunPhase, RunSkipped, RunStarted, RunUndone, conduct_fleet

__all__ = [
    "FleetEvent",
    "FleetPlan",
    "RunConditions",
    "RunPhase",
    "RunSkipped",
    "RunStarted",
    "RunUndone",
    "conduct_fleet",
    "plan_runs",
]
