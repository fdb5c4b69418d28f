"""Verdicts: evidence → gates → dimensions → taxonomy → score card. Pure: nothing is executed (ADR 0004)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.score._aggregate import (
        Aggregate,
        AggregateRow,
        MixedVersionsError,
        Rate,
        build_aggregate,
        shorten_version,
    )
    from repotrial.score._answerer import (
        describe_answered_by,
        describe_answerer,
        describe_cost,
        find_upstream,
        is_notional,
    )
    from repotrial.score._attempts import find_repeated
    from repotrial.score._attribution import AttributionSummary, FailingTests, RecentEdit
    from repotrial.score._card import (
        SCORE_SCHEMA,
        AgentIdentity,
        GeneralScore,
        Remark,
        RunIdentity,
        ScoreCard,
        build_score_card,
    )
    from repotrial.score._cost import Cost
    from repotrial.score._delta import BrokenRule
    from repotrial.score._directories import (
        NoRunsError,
        RunDirectoryMissingError,
        build_run_paths,
        find_run_directories,
    )
    from repotrial.score._document import (
        GATES,
        ChangePointer,
        EventPointer,
        EvidencePointer,
        GateId,
        Verdict,
        render_document,
    )
    from repotrial.score._effort import AgentEffort, EffortFigure, EffortTotal, build_effort, describe_effort
    from repotrial.score._entry import (
        RunEntry,
        RunFilter,
        RunStatusWord,
        identify_agent,
        label_agents,
        label_versions,
        shorten_contract,
    )
    from repotrial.score._evidence import Evidence, InvalidReason, SealState, Trigger
    from repotrial.score._gates import GateResult
    from repotrial.score._graded import Dimension, Graded, Sensitivity, WeightRange
    from repotrial.score._judged import JudgedRun, find_status, iter_judged_runs, judge_run
    from repotrial.score._load import NoRunDirectoryError, load_evidence
    from repotrial.score._metering import RunCost, price_run
    from repotrial.score._outcomes import Attribution, CheckResult, TwinResult
    from repotrial.score._reasons import find_stop, order_reasons
    from repotrial.score._records import (
        ChangeLostError,
        RecordBrokenError,
        find_breach,
        load_change,
        verify_record,
    )
    from repotrial.score._rejudged import (
        REJUDGED_SCHEMA,
        RejudgedExecution,
        RejudgedVerdict,
        list_rejudged,
        write_rejudged,
    )
    from repotrial.score._report import (
        REPORT_SCHEMA,
        CheckSummary,
        Durations,
        InterventionSummary,
        RunReport,
        TerminationSummary,
        TraceIdentity,
        TreeIdentity,
        build_run_report,
    )
    from repotrial.score._review import ReviewNote
    from repotrial.score._schema import build_score_schemas
    from repotrial.score._status import Fault, Invalid, RunStatus, Scorable
    from repotrial.score._taxonomy import (
        ARTIFACTS,
        FailureMode,
        FailureTag,
        Signature,
        TagRefusedError,
        Weights,
        build_tag,
        load_artifact,
        load_taxonomy,
        load_weights,
    )
    from repotrial.score._write import ScoreWriteError, write_score, write_verdict
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "ARTIFACTS",
    "GATES",
    "REJUDGED_SCHEMA",
    "REPORT_SCHEMA",
    "SCORE_SCHEMA",
    "AgentEffort",
    "AgentIdentity",
    "Aggregate",
    "AggregateRow",
    "Attribution",
    "AttributionSummary",
    "BrokenRule",
    "ChangeLostError",
    "ChangePointer",
    "CheckResult",
    "CheckSummary",
    "Cost",
    "Dimension",
    "Durations",
    "EffortFigure",
    "EffortTotal",
    "EventPointer",
    "Evidence",
    "EvidencePointer",
    "FailingTests",
    "FailureMode",
    "FailureTag",
    "Fault",
    "GateId",
    "GateResult",
    "GeneralScore",
    "Graded",
    "InterventionSummary",
    "Invalid",
    "InvalidReason",
    "JudgedRun",
    "MixedVersionsError",
    "NoRunDirectoryError",
    "NoRunsError",
    "Rate",
    "RecentEdit",
    "RecordBrokenError",
    "RejudgedExecution",
    "RejudgedVerdict",
    "Remark",
    "ReviewNote",
    "RunCost",
    "RunDirectoryMissingError",
    "RunEntry",
    "RunFilter",
    "RunIdentity",
    "RunReport",
    "RunStatus",
    "RunStatusWord",
    "Scorable",
    "ScoreCard",
    "ScoreWriteError",
    "SealState",
    "Sensitivity",
    "Signature",
    "TagRefusedError",
    "TerminationSummary",
    "TraceIdentity",
    "TreeIdentity",
    "Trigger",
    "TwinResult",
    "Verdict",
    "WeightRange",
    "Weights",
    "build_aggregate",
    "build_effort",
    "build_run_paths",
    "build_run_report",
    "build_score_card",
    "build_score_schemas",
    "build_tag",
    "describe_answered_by",
    "describe_answerer",
    "describe_cost",
    "describe_effort",
    "find_breach",
    "find_repeated",
    "find_run_directories",
    "find_status",
    "find_stop",
    "find_upstream",
    "identify_agent",
    "is_notional",
    "iter_judged_runs",
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
    "render_document",
    "shorten_contract",
    "shorten_version",
    "verify_record",
    "write_rejudged",
    "write_score",
    "write_verdict",
]
