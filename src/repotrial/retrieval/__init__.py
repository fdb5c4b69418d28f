"""Did the agent find the right files, use them, and did it matter? (R1-R19)."""

from __future__ import annotations

from repotrial.retrieval._compare import (
    AssociationScope,
    ComparisonOptions,
    RetrievalComparison,
    compare_study,
)
from repotrial.retrieval._contract_truth import TruthAttempt
from repotrial.retrieval._evaluate import (
    Evaluation,
    EvaluationOptions,
    evaluate,
)
from repotrial.retrieval._match import MatchedComparison, MatchedDelta
from repotrial.retrieval._metrics import LeftOutAttempt
from repotrial.retrieval._normalize import (
    NormalizationOptions,
    NormalizedTask,
    build_task_index,
    explain_truth,
    find_tasks_directory,
    normalize_run,
)
from repotrial.retrieval._outcomes import Outcome
from repotrial.retrieval._own import list_files_read, name_configuration
from repotrial.retrieval._reading import RankingRule
from repotrial.retrieval._report import (
    ConfigurationFigures,
    Figure,
    RetrievalReport,
    SupplementOptions,
    TrialRow,
    build_retrieval_report,
)
from repotrial.retrieval._study import Artefact, load_study
from repotrial.retrieval._tools import load_retrieval_tools
from repotrial.retrieval._validate import DocumentCheck, build_retrieval_schemas, check_document
from repotrial.retrieval._walk import RetrievalPlaces, find_runs

__all__ = [
    "Artefact",
    "AssociationScope",
    "ComparisonOptions",
    "ConfigurationFigures",
    "DocumentCheck",
    "Evaluation",
    "EvaluationOptions",
    "Figure",
    "LeftOutAttempt",
    "MatchedComparison",
    "MatchedDelta",
    "NormalizationOptions",
    "NormalizedTask",
    "Outcome",
    "RankingRule",
    "RetrievalComparison",
    "RetrievalPlaces",
    "RetrievalReport",
    "SupplementOptions",
    "TrialRow",
    "TruthAttempt",
    "build_retrieval_report",
    "build_retrieval_schemas",
    "build_task_index",
    "check_document",
    "compare_study",
    "evaluate",
    "explain_truth",
    "find_runs",
    "find_tasks_directory",
    "list_files_read",
    "load_retrieval_tools",
    "load_study",
    "name_configuration",
    "normalize_run",
]
