"""Verdicts: evidence → gates → dimensions → taxonomy → score card. Pure: nothing is executed (ADR 0004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.score._aggregate import AgentEffort, Aggregate, build_aggregate, build_effort
    from repotrial.score._assurance import AssuranceLevel
    from repotrial.score._card import AgentIdentity, Cost, ScoreCard, build_score_card
    from repotrial.score._cause_rules import LOSSES, REPEATED_AT_ONCE, Cause
    from repotrial.score._deviations import count_deviations, describe_deviations
    from repotrial.score._evidence import (
        EventPointer,
        Evidence,
        EvidencePointer,
        InvalidReason,
        StreamPointer,
        Verdict,
    )
    from repotrial.score._fragments import QuotedLines, read_lines
    from repotrial.score._gates import Fault, GateResult, Invalid, Scorable
    from repotrial.score._graded import Graded, WeightRange
    from repotrial.score._judged import (
        JudgedRun,
        RunEntry,
        RunFilter,
        RunStatusWord,
        find_status,
        find_stop,
        identify_agent,
        iter_judged_runs,
        judge_run,
        label_agents,
        label_versions,
        order_reasons,
    )
    from repotrial.score._metering import RunCost, price_run
    from repotrial.score._model_source import (
        describe_answered_by,
        describe_cost,
        describe_model_source,
        find_upstream,
        is_notional,
    )
    from repotrial.score._outcomes import CheckResult
    from repotrial.score._planned import (
        MOST_ATTEMPTS,
        PlannedOutcome,
        find_uncounted,
        group_attempts,
    )
    from repotrial.score._program_view import ProgramLine, ProgramsView, read_programs
    from repotrial.score._records import (
        NO_RUNS,
        RECORD_BROKEN,
        RUN_DIRECTORY_MISSING,
        build_run_paths,
        find_breach,
        find_run_directories,
        load_change,
        load_evidence,
        verify_record,
    )
    from repotrial.score._rejudged import RejudgedExecution, RejudgedVerdict, list_rejudged, write_rejudged
    from repotrial.score._report import RunReport, build_run_report, write_verdict
    from repotrial.score._schema import build_score_schemas
    from repotrial.score._taxonomy import load_artifact, load_taxonomy, load_weights
    from repotrial.score._worker_keys import WORKER_KEYS, iter_vouched, sign_worker_key
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "LOSSES",
    "MOST_ATTEMPTS",
    "NO_RUNS",
    "RECORD_BROKEN",
    "REPEATED_AT_ONCE",
    "RUN_DIRECTORY_MISSING",
    "WORKER_KEYS",
    "AgentEffort",
    "AgentIdentity",
    "Aggregate",
    "AssuranceLevel",
    "Cause",
    "CheckResult",
    "Cost",
    "EventPointer",
    "Evidence",
    "EvidencePointer",
    "Fault",
    "GateResult",
    "Graded",
    "Invalid",
    "InvalidReason",
    "JudgedRun",
    "PlannedOutcome",
    "ProgramLine",
    "ProgramsView",
    "QuotedLines",
    "RejudgedExecution",
    "RejudgedVerdict",
    "RunCost",
    "RunEntry",
    "RunFilter",
    "RunReport",
    "RunStatusWord",
    "Scorable",
    "ScoreCard",
    "StreamPointer",
    "Verdict",
    "WeightRange",
    "build_aggregate",
    "build_effort",
    "build_run_paths",
    "build_run_report",
    "build_score_card",
    "build_score_schemas",
    "count_deviations",
    "describe_answered_by",
    "describe_cost",
    "describe_deviations",
    "describe_model_source",
    "find_breach",
    "find_run_directories",
    "find_status",
    "find_stop",
    "find_uncounted",
    "find_upstream",
    "group_attempts",
    "identify_agent",
    "is_notional",
    "iter_judged_runs",
    "iter_vouched",
    "judge_run",
    "label_agents",
    "label_versions",
    "list_rejudged",
    "load_artifact",
    "load_change",
    "load_evidence",
    "load_taxonomy",
    "load_weights",
    "order_reasons",
    "price_run",
    "read_lines",
    "read_programs",
    "sign_worker_key",
    "verify_record",
    "write_rejudged",
    "write_verdict",
]
