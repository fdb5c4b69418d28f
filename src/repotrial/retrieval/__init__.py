"""Did the agent find the right files, use them, and did it matter? (R1-R19)."""

from __future__ import annotations

from repotrial.retrieval._documents import (
    Category,
    Chunk,
    Coverage,
    EventsDocument,
    EventsSummary,
    GroundTruth,
    LineRange,
    Provenance,
    RetrievalEvent,
    Symbol,
)
from repotrial.retrieval._evaluate import (
    Evaluation,
    EvaluationOptions,
    OutputExistsError,
    evaluate,
    find_event_files,
)
from repotrial.retrieval._measures import CUTOFFS, MEASURES, Measure, Ranking, rank
from repotrial.retrieval._metrics import TaskMetrics
from repotrial.retrieval._paths import normalize_as_reference, normalize_path
from repotrial.retrieval._reading import (
    DocumentUnreadableError,
    DocumentVersionError,
    RankingRule,
    ReadDocument,
    read_document,
)
from repotrial.retrieval._stages import measure_task
from repotrial.retrieval._summary import RunSummary, build_summary

__all__ = [
    "CUTOFFS",
    "MEASURES",
    "Category",
    "Chunk",
    "Coverage",
    "DocumentUnreadableError",
    "DocumentVersionError",
    "Evaluation",
    "EvaluationOptions",
    "EventsDocument",
    "EventsSummary",
    "GroundTruth",
    "LineRange",
    "Measure",
    "OutputExistsError",
    "Provenance",
    "Ranking",
    "RankingRule",
    "ReadDocument",
    "RetrievalEvent",
    "RunSummary",
    "Symbol",
    "TaskMetrics",
    "build_summary",
    "evaluate",
    "find_event_files",
    "measure_task",
    "normalize_as_reference",
    "normalize_path",
    "rank",
    "read_document",
]
