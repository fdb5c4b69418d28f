"""From judged runs to comparisons: summaries, pairs, comparability. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.analysis._comparison import RunComparison, RunSide, compare_runs
    from repotrial.analysis._left_out import find_left_out
    from repotrial.analysis._summary import (
        AgentSummary,
        CollectedSummary,
        PairedSummary,
        RunsSummary,
        describe_difference,
        describe_notional,
        summarize_runs,
    )
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "AgentSummary",
    "CollectedSummary",
    "PairedSummary",
    "RunComparison",
    "RunSide",
    "RunsSummary",
    "compare_runs",
    "describe_difference",
    "describe_notional",
    "find_left_out",
    "summarize_runs",
]
