"""Where runs execute: this machine's pool. What was conducted is kept; what was not can be resumed."""

from __future__ import annotations

from repotrial.fleet._plan import FleetPlan, RunConditions, plan_runs
from repotrial.fleet._pool import FleetEvent, RunNotConducted, RunPhase, RunSkipped, RunStarted, conduct_fleet

__all__ = [
    "FleetEvent",
    "FleetPlan",
    "RunConditions",
    "RunNotConducted",
    "RunPhase",
    "RunSkipped",
    "RunStarted",
    "conduct_fleet",
    "plan_runs",
]
