"""From judged runs to comparisons: summaries, pairs, comparability. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.analysis._adjudication import (
        Adjudicated,
        AdjudicationEnd,
        adjudicate,
        is_adjudicated,
    )
    from repotrial.analysis._agents import AgentSummary, PairedSummary, compare_agents
    from repotrial.analysis._analyze_pilot import analyze_pilot
    from repotrial.analysis._analyze_table import analyze_trials
    from repotrial.analysis._comparison import RunComparison, RunSide, compare_runs
    from repotrial.analysis._figures import IntervalFigure
    from repotrial.analysis._left_out import find_left_out
    from repotrial.analysis._pilot_results import LabeledShare, PilotFigures
    from repotrial.analysis._pilot_runs import ConductedPilot, CountedTrial, judge_planned
    from repotrial.analysis._plan_blinded import BlindedVariance, RepeatsDecision
    from repotrial.analysis._plan_build import TaskFacts, build_plan
    from repotrial.analysis._plan_cost import CostModel
    from repotrial.analysis._plan_document import Adjudication, Pilot, PilotArm, PilotContrast
    from repotrial.analysis._plan_review import ReviewLabel
    from repotrial.analysis._plan_rows import (
        LoadedPlan,
        PlannedRow,
        Registration,
    )
    from repotrial.analysis._plan_rules import check_pilot
    from repotrial.analysis._power_table import PowerAnalysis
    from repotrial.analysis._results import Analysis, ArmFigures, ContrastFigures
    from repotrial.analysis._review_case import ReviewCase
    from repotrial.analysis._review_queue import ReviewedRun, ReviewSampling
    from repotrial.analysis._run_rows import RunRow, build_run_row
    from repotrial.analysis._summary import CollectedSummary, RunsSummary, summarize_runs
    from repotrial.analysis._trials import Trial, TrialTable, read_trials
    from repotrial.analysis._why import explain_run
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "Adjudicated",
    "Adjudication",
    "AdjudicationEnd",
    "AgentSummary",
    "Analysis",
    "ArmFigures",
    "BlindedVariance",
    "CollectedSummary",
    "ConductedPilot",
    "ContrastFigures",
    "CostModel",
    "CountedTrial",
    "IntervalFigure",
    "LabeledShare",
    "LoadedPlan",
    "PairedSummary",
    "Pilot",
    "PilotArm",
    "PilotContrast",
    "PilotFigures",
    "PlannedRow",
    "PowerAnalysis",
    "Registration",
    "RepeatsDecision",
    "ReviewCase",
    "ReviewLabel",
    "ReviewSampling",
    "ReviewedRun",
    "RunComparison",
    "RunRow",
    "RunSide",
    "RunsSummary",
    "TaskFacts",
    "Trial",
    "TrialTable",
    "adjudicate",
    "analyze_pilot",
    "analyze_trials",
    "build_plan",
    "build_run_row",
    "check_pilot",
    "compare_agents",
    "compare_runs",
    "explain_run",
    "find_left_out",
    "is_adjudicated",
    "judge_planned",
    "read_trials",
    "summarize_runs",
]
