"""Where runs execute: this machine's pool. What was conducted is kept; what was not can be resumed."""

from repotrial.fleet._claim import RunUnderWayError
from repotrial.fleet._descriptors import OpenFilesError
from repotrial.fleet._events import FleetEvent, RunEnded, RunPhase, RunSkipped, RunStarted, RunUndone
from repotrial.fleet._plan import FleetPlan, PlannedRun, RunConditions, plan_runs
from repotrial.fleet._pool import FleetSettings, conduct_fleet

__all__ = [
    "FleetEvent",
    "FleetPlan",
    "FleetSettings",
    "OpenFilesError",
    "PlannedRun",
    "RunConditions",
    "RunEnded",
    "RunPhase",
    "RunSkipped",
    "RunStarted",
    "RunUnderWayError",
    "RunUndone",
    "conduct_fleet",
    "plan_runs",
]
