"""What is stated about all tasks of a run: `run_retrieval_summary.json` (R14)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from repotrial.retrieval._attempts import LeftOutAttempt
from repotrial.retrieval._measures import CUTOFFS
from repotrial.retrieval._metrics import ErrorTaxonomy, FileMetrics, TaskMetrics, UtilizationProbes
from repotrial.retrieval._reading import RankingRule
from repotrial.retrieval._stages import NO_GROUND_TRUTH

_PLACES: Final = 4
_SINGLE: Final = ("mrr", "map_score", "file_recall", "context_efficiency")
_BY_CUTOFF: Final = ("precision", "recall", "f1", "ndcg")
_PROBES: Final = (
    "util_read_overlap_with_relevant_files",
    "util_write_overlap_with_relevant_files_proxy",
    "util_referenced_file_correctness",
    "util_write_overlap_with_expected_edit_files",
    "util_read_before_write_ratio",
)


class Spread(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over several tasks; each task counts once, those without the figure not at all."""

    mean: float | int
    std: float
    """Of the sample (n - 1); 0 for one task."""
    median: float | int
    n: int


class Aggregates(msgspec.Struct, frozen=True, kw_only=True):
    """All figures over a set of tasks."""

    file_level_aggregates: dict[str, Any]
    """By measure, with `_totals`; `{"n_tasks": 0}` without tasks."""
    utilization_aggregates: dict[str, Any]
    error_taxonomy_aggregates: dict[str, Any]


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, and the figures over all tasks, pooled and by configuration."""

    schema_version: str
    generated_at: str
    total_event_files: int
    computable_tasks: int
    skipped_no_ground_truth: int
    chunk_capable_tasks: int
    file_level_aggregates: dict[str, Any]
    utilization_aggregates: dict[str, Any]
    error_taxonomy_aggregates: dict[str, Any]
    ranking: RankingRule | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: by which rule files were ranked."""
    skipped_degraded: int | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: tasks of whose run nothing was seen; they enter no mean (R9)."""
    unreadable_event_files: int | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: documents that could not be read, or of another major version."""
    configurations: dict[str, Aggregates] | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: the same figures by configuration."""
    skipped_repeated: int | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: attempts that were broken off and repeated; they enter nothing. Absent where none were."""
    left_out: tuple[LeftOutAttempt, ...] | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: those attempts, each with the reason."""


def build_summary(
    tasks: Sequence[TaskMetrics],
    *,
    event_files: int,
    unreadable: int,
    generated_at: str,
    ranking: RankingRule,
    is_extended: bool = True,
    left_out: tuple[LeftOutAttempt, ...] = (),
) -> RunSummary:
    """The summary of a run's tasks."""
    pooled = _aggregate(tasks)
    reasons = Counter(getattr(task.file_level_metrics, "reason", None) for task in tasks)
    degraded = sum(n for reason, n in reasons.items() if reason is not None and reason != NO_GROUND_TRUTH)
    summary = RunSummary(
        schema_version="1.1" if is_extended else "1.0",
        generated_at=generated_at,
        total_event_files=event_files,
        computable_tasks=reasons[None],
        skipped_no_ground_truth=reasons[NO_GROUND_TRUTH],
        chunk_capable_tasks=sum(1 for t in tasks if t.chunk_level_metrics.resolution == "chunk_level"),
        file_level_aggregates=pooled.file_level_aggregates,
        utilization_aggregates=pooled.utilization_aggregates,
        error_taxonomy_aggregates=pooled.error_taxonomy_aggregates,
    )
    if not is_extended:
        return summary
    names = sorted({_config(task) for task in tasks})
    return msgspec.structs.replace(
        summary,
        ranking=ranking,
        skipped_degraded=degraded,
        unreadable_event_files=unreadable,
        configurations={
            name: _aggregate([task for task in tasks if _config(task) == name]) for name in names
        },
        skipped_repeated=len(left_out) or msgspec.UNSET,
        left_out=left_out or msgspec.UNSET,
    )


def _config(task: TaskMetrics) -> str:
    name = task.provenance.get("config_name")
    return name if isinstance(name, str) else "unknown"


def _aggregate(tasks: Sequence[TaskMetrics]) -> Aggregates:
    return Aggregates(
        file_level_aggregates=_aggregate_files(
            [t.file_level_metrics for t in tasks if isinstance(t.file_level_metrics, FileMetrics)]
        ),
        utilization_aggregates=_aggregate_probes(
            [t.utilization_probes for t in tasks if isinstance(t.file_level_metrics, FileMetrics)]
        ),
        error_taxonomy_aggregates=_aggregate_errors(
            [t.error_taxonomy for t in tasks if isinstance(t.error_taxonomy, ErrorTaxonomy)]
        ),
    )


def _aggregate_files(files: Sequence[FileMetrics]) -> dict[str, Any]:
    if not files:
        return {"n_tasks": 0}
    found: dict[str, Any] = {name: _spread([getattr(f, name) for f in files]) for name in _SINGLE}
    for cutoff in CUTOFFS:
        for name in _BY_CUTOFF:
            found[f"{name}@{cutoff}"] = _spread([getattr(f, name)[str(cutoff)] for f in files])
    times = [f.ttfr_seconds for f in files if f.ttfr_seconds is not None]
    if times:
        found["ttfr_seconds"] = _spread(times)
    found["_totals"] = {
        "n_tasks": len(files),
        "mean_retrieved": _mean(files, lambda f: f.n_retrieved),
        "mean_ground_truth": _mean(files, lambda f: f.n_ground_truth),
        "mean_overlap": _mean(files, lambda f: f.n_overlap),
    }
    return found


def _mean(files: Iterable[FileMetrics], count: Callable[[FileMetrics], int]) -> float | int:
    return round(statistics.mean(count(item) for item in files), 1)


def _aggregate_probes(probes: Sequence[UtilizationProbes]) -> dict[str, Any]:
    if not probes:
        return {}
    found: dict[str, Any] = {}
    for name in _PROBES:
        values = [value for probe in probes if isinstance(value := getattr(probe, name), int | float)]
        if values:
            found[name] = _spread(values)
    found["n_tasks_with_probes"] = len(probes)
    found["n_tasks_with_expected_edit_probe"] = sum(1 for p in probes if p.expected_edit_probe_available)
    return found


def _aggregate_errors(errors: Sequence[ErrorTaxonomy]) -> dict[str, Any]:
    if not errors:
        return {}
    found: dict[str, Any] = {
        label: _spread([error.labels[label] for error in errors]) for label in errors[0].labels
    }
    names = ("candidate_set_size", "dominant_retrieval_category", "evidence_type")
    found["slice_distributions"] = {
        name: dict(Counter(getattr(error.slices, name) for error in errors)) for name in names
    }
    return found


def _spread(values: Sequence[float | int]) -> Spread:
    return Spread(
        mean=round(statistics.mean(values), _PLACES),
        std=round(statistics.stdev(values), _PLACES) if len(values) > 1 else 0.0,
        median=round(statistics.median(values), _PLACES),
        n=len(values),
    )
