"""From event documents on disk to metrics on disk (R14)."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.retrieval._metrics import (
    ErrorTaxonomy,
    FileMetrics,
    LeftOutAttempt,
    TaskMetrics,
    UtilizationProbes,
)
from repotrial.retrieval._output import write_own
from repotrial.retrieval._reading import RankingRule, ReadDocument, read_document
from repotrial.retrieval._stages import CUTOFFS, NO_GROUND_TRUTH, PORTION, measure_tasks

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


class _Spread(msgspec.Struct, frozen=True, kw_only=True):
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


def _spread(values: Sequence[float | int]) -> _Spread:
    return _Spread(
        mean=round(statistics.mean(values), _PLACES),
        std=round(statistics.stdev(values), _PLACES) if len(values) > 1 else 0.0,
        median=round(statistics.median(values), _PLACES),
        n=len(values),
    )


EVENTS: Final = "retrieval_events"
AGGREGATE: Final = "retrieval_events_aggregate"
SUMMARY: Final = "run_retrieval_summary.json"
EVENTS_SUFFIX: Final = ".retrieval_events.json"
METRICS_SUFFIX: Final = ".retrieval_metrics.json"


class EvaluationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How documents are read and results written."""

    rule: RankingRule = "reads"
    is_extended: bool = True
    """Whether fields that 1.1 added are written."""
    generated_at: str
    """For the artefacts: time in ISO 8601, UTC."""
    left_out: tuple[LeftOutAttempt, ...] = ()
    """Attempts whose documents are not among those measured, for the summary to name."""


class EvaluatedTask(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one event document."""

    source: Path
    target: Path | None
    """Where its metrics are; None if it could not be read."""
    problem: str | None = None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all of them."""

    tasks: tuple[EvaluatedTask, ...]
    summary: RunSummary
    summary_path: Path | None
    """None in a rehearsal."""


def evaluate(
    files: Iterable[tuple[Path, Path]], summary_path: Path | None, options: EvaluationOptions
) -> Evaluation:
    """Measure every document and summarize; a portion of the documents is in memory at a time.

    Args:
        files: Each document with the directory that its metrics go to.
        summary_path: Where the summary goes; None writes nothing at all.
        options: How.

    Raises:
        RETRIEVAL_OUTPUT_EXISTS: a result would replace something else.
    """
    tasks: list[EvaluatedTask] = []
    measured: list[TaskMetrics] = []
    for task, metrics in _iter_measured(files, options, is_written=summary_path is not None):
        tasks.append(task)
        if metrics is not None:
            measured.append(_slim(metrics))
    summary = build_summary(
        measured,
        event_files=len(tasks),
        unreadable=sum(1 for task in tasks if task.problem is not None),
        generated_at=options.generated_at,
        ranking=options.rule,
        is_extended=options.is_extended,
        left_out=options.left_out,
    )
    if summary_path is not None:
        write_own(summary_path, summary)
    return Evaluation(tasks=tuple(tasks), summary=summary, summary_path=summary_path)


def _iter_measured(
    files: Iterable[tuple[Path, Path]], options: EvaluationOptions, *, is_written: bool
) -> Iterator[tuple[EvaluatedTask, TaskMetrics | None]]:
    left = iter(files)
    while portion := tuple(islice(left, PORTION)):
        read = [_read(source, options.rule) for source, _ in portion]
        measured = measure_tasks(
            [document for document in read if isinstance(document, ReadDocument)],
            generated_at=options.generated_at,
            is_extended=options.is_extended,
        )
        for (source, directory), document in zip(portion, read, strict=True):
            if isinstance(document, str):
                yield EvaluatedTask(source=source, target=None, problem=document), None
                continue
            metrics = next(measured)
            target = directory / source.name.replace(EVENTS_SUFFIX, METRICS_SUFFIX)
            if is_written:
                write_own(target, metrics)
            yield EvaluatedTask(source=source, target=target), metrics


def _read(source: Path, rule: RankingRule) -> ReadDocument | str:
    """A document, or why it cannot be read."""
    try:
        return read_document(source.read_bytes(), rule=rule)
    except (EvidenceError, OSError) as error:
        return f"{source}: {error}"


def _slim(metrics: TaskMetrics) -> TaskMetrics:
    """Without what no aggregate needs: thousands of these are held at once."""
    taxonomy = metrics.error_taxonomy
    if isinstance(taxonomy, ErrorTaxonomy):
        taxonomy = msgspec.structs.replace(taxonomy, files=msgspec.UNSET)
    return msgspec.structs.replace(
        metrics,
        provenance={"config_name": metrics.provenance.get("config_name")},
        coverage={},
        event_summary={},
        error_taxonomy=taxonomy,
    )
