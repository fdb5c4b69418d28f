"""From judged runs to comparisons: summaries, pairs, comparability. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.analysis._comparison import RunComparison, RunSide, compare_runs
    from repotrial.analysis._left_out import find_left_out
    from repotrial.analysis._summary import AgentSummary, CollectedSummary, RunsSummary, summarize_runs
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "AgentSummary",
    "CollectedSummary",
    "RunComparison",
    "RunSide",
    "RunsSummary",
    "compare_runs",
    "find_left_out",
    "summarize_runs",
]
