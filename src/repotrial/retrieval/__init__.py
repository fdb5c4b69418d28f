"""Did the agent find the right files, use them, and did it matter? (R1-R19)."""

from __future__ import annotations

from repotrial.retrieval._associate import AssociationScope, MeasureAssociation
from repotrial.retrieval._attempts import LeftOutAttempt
from repotrial.retrieval._compare import (
    ComparisonCoverage,
    ComparisonOptions,
    ConfigurationUnknownError,
    RetrievalComparison,
    compare_study,
)
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
    AGGREGATE,
    EVENTS,
    SUMMARY,
    Evaluation,
    EvaluationOptions,
    OutputExistsError,
    evaluate,
    find_event_files,
)
from repotrial.retrieval._match import Delta, MatchedComparison, MatchedTask, Mismatch
from repotrial.retrieval._measures import CUTOFFS, PORTION, measure_lists
from repotrial.retrieval._metrics import TaskMetrics
from repotrial.retrieval._normalize import (
    NormalizationOptions,
    NormalizedTask,
    explain_truth,
    normalize_run,
)
from repotrial.retrieval._outcomes import OUTCOMES, Outcome, load_outcomes
from repotrial.retrieval._paths import normalize_as_reference, normalize_path
from repotrial.retrieval._progress import Progress
from repotrial.retrieval._reading import (
    DocumentUnreadableError,
    DocumentVersionError,
    RankingRule,
    ReadDocument,
    read_document,
)
from repotrial.retrieval._report import (
    ConfigurationFigures,
    Figure,
    RetrievalReport,
    TrialRow,
    build_retrieval_report,
)
from repotrial.retrieval._schemas import build_retrieval_schemas
from repotrial.retrieval._seeds import StatisticsOptions
from repotrial.retrieval._stages import measure_tasks
from repotrial.retrieval._study import (
    Artefact,
    MixedRankingError,
    NoMetricsError,
    Observation,
    Study,
    load_study,
)
from repotrial.retrieval._summary import RunSummary, build_summary
from repotrial.retrieval._supplements import ConditionedView, SupplementOptions
from repotrial.retrieval._taskdata import MetricsUnreadableError, TaskFigures
from repotrial.retrieval._tasks import TaskIndex, build_task_index, find_tasks_directory
from repotrial.retrieval._tools import RetrievalTools, RetrievalToolsInvalidError, load_retrieval_tools
from repotrial.retrieval._truth import Attempt, Claim, RetrievalTruth, Truth
from repotrial.retrieval._validate import DocumentCheck, check_document
from repotrial.retrieval._walk import find_runs, is_own_run

__all__ = [
    "AGGREGATE",
    "CUTOFFS",
    "EVENTS",
    "OUTCOMES",
    "PORTION",
    "SUMMARY",
    "Artefact",
    "AssociationScope",
    "Attempt",
    "Category",
    "Chunk",
    "Claim",
    "ComparisonCoverage",
    "ComparisonOptions",
    "ConditionedView",
    "ConfigurationFigures",
    "ConfigurationUnknownError",
    "Coverage",
    "Delta",
    "DocumentCheck",
    "DocumentUnreadableError",
    "DocumentVersionError",
    "Evaluation",
    "EvaluationOptions",
    "EventsDocument",
    "EventsSummary",
    "Figure",
    "GroundTruth",
    "LeftOutAttempt",
    "LineRange",
    "MatchedComparison",
    "MatchedTask",
    "MeasureAssociation",
    "MetricsUnreadableError",
    "Mismatch",
    "MixedRankingError",
    "NoMetricsError",
    "NormalizationOptions",
    "NormalizedTask",
    "Observation",
    "Outcome",
    "OutputExistsError",
    "Progress",
    "Provenance",
    "RankingRule",
    "ReadDocument",
    "RetrievalComparison",
    "RetrievalEvent",
    "RetrievalReport",
    "RetrievalTools",
    "RetrievalToolsInvalidError",
    "RetrievalTruth",
    "RunSummary",
    "StatisticsOptions",
    "Study",
    "SupplementOptions",
    "Symbol",
    "TaskFigures",
    "TaskIndex",
    "TaskMetrics",
    "TrialRow",
    "Truth",
    "build_retrieval_report",
    "build_retrieval_schemas",
    "build_summary",
    "build_task_index",
    "check_document",
    "compare_study",
    "evaluate",
    "explain_truth",
    "find_event_files",
    "find_runs",
    "find_tasks_directory",
    "is_own_run",
    "load_outcomes",
    "load_retrieval_tools",
    "load_study",
    "measure_lists",
    "measure_tasks",
    "normalize_as_reference",
    "normalize_path",
    "normalize_run",
    "read_document",
]
