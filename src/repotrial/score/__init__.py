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
    from repotrial.score._document import (
        GATES,
        ChangePointer,
        EventPointer,
        EvidencePointer,
        GateId,
        Verdict,
        render_document,
    )
    from repotrial.score._evidence import Evidence, InvalidReason, SealState, Trigger
    from repotrial.score._gates import GateResult
    from repotrial.score._graded import Dimension, Graded, Sensitivity, WeightRange
    from repotrial.score._load import NoRunDirectoryError, load_evidence
    from repotrial.score._outcomes import Attribution, CheckResult, TwinResult
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
    "AgentIdentity",
    "Aggregate",
    "AggregateRow",
    "Attribution",
    "AttributionSummary",
    "BrokenRule",
    "ChangePointer",
    "CheckResult",
    "CheckSummary",
    "Cost",
    "Dimension",
    "Durations",
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
    "MixedVersionsError",
    "NoRunDirectoryError",
    "Rate",
    "RecentEdit",
    "RejudgedExecution",
    "RejudgedVerdict",
    "Remark",
    "ReviewNote",
    "RunIdentity",
    "RunReport",
    "RunStatus",
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
    "build_run_report",
    "build_score_card",
    "build_score_schemas",
    "build_tag",
    "list_rejudged",
    "load_artifact",
    "load_evidence",
    "load_taxonomy",
    "load_weights",
    "render_document",
    "shorten_version",
    "write_rejudged",
    "write_score",
    "write_verdict",
]
