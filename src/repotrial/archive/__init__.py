"""Runs for years: planned, approved and recorded moves to a smaller tier; originals on record (P26, P27)."""

from __future__ import annotations

from repotrial.archive._access_log import AccessReport
from repotrial.archive._apply import AppliedRun, apply_plan
from repotrial.archive._originals import OpenedOriginal, OriginalsRequest, read_access_log
from repotrial.archive._plan import (
    approve_plan,
    build_plan,
    load_approved_plan,
    write_plan,
)

__all__ = [
    "AccessReport",
    "AppliedRun",
    "OpenedOriginal",
    "OriginalsRequest",
    "apply_plan",
    "approve_plan",
    "build_plan",
    "load_approved_plan",
    "read_access_log",
    "write_plan",
]
