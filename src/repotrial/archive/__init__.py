"""Runs for years: planned, approved and recorded moves to a smaller tier (P26)."""

from __future__ import annotations

from repotrial.archive._apply import AppliedRun, apply_plan
from repotrial.archive._plan import (
    approve_plan,
    build_plan,
    load_approved_plan,
    write_plan,
)

__all__ = [
    "AppliedRun",
    "apply_plan",
    "approve_plan",
    "build_plan",
    "load_approved_plan",
    "write_plan",
]
