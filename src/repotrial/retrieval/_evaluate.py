"""From event documents on disk to metrics on disk; nothing that exists is changed (R14)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial._core.files import write_atomic
from repotrial.retrieval._attempts import LeftOutAttempt
from repotrial.retrieval._measures import PORTION
from repotrial.retrieval._metrics import ErrorTaxonomy, TaskMetrics
from repotrial.retrieval._reading import RankingRule, ReadDocument, read_document
from repotrial.retrieval._stages import measure_tasks
from repotrial.retrieval._summary import RunSummary, build_summary

EVENTS: Final = "retrieval_events"
AGGREGATE: Final = "retrieval_events_aggregate"
SUMMARY: Final = "run_retrieval_summary.json"
EVENTS_SUFFIX: Final = ".retrieval_events.json"
METRICS_SUFFIX: Final = ".retrieval_metrics.json"


RETRIEVAL_OUTPUT_EXISTS = ErrorCode(
    "retrieval-output-exists",
    UsageError,
    "There is a file already where a result would go, and it says something else.",
    hint="name another directory with --out; nothing that exists is overwritten",
)


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
    """Where its metrics are; null where it could not be read."""
    problem: str | None = None


class Evaluation(msgspec.Struct, frozen=True, kw_only=True):
    """What came of all of them."""

    tasks: tuple[EvaluatedTask, ...]
    summary: RunSummary
    summary_path: Path | None
    """Null in a rehearsal."""


def find_event_files(directory: Path) -> tuple[Path, ...]:
    """Event documents by configuration and task, in a fixed order."""
    return tuple(sorted(directory.glob(f"*/*{EVENTS_SUFFIX}")))


def evaluate(
    files: Iterable[tuple[Path, Path]], summary_path: Path | None, options: EvaluationOptions
) -> Evaluation:
    """Measure every document and summarize; a portion of the documents is in memory at a time.

    Args:
        files: Each document with the directory that its metrics go to.
        summary_path: Where the summary goes; null writes nothing at all.
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
        write_new(summary_path, summary)
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
                write_new(target, metrics)
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


def write_new(path: Path, document: msgspec.Struct) -> None:
    """Write a document where there is none; the same one but for its time is left as it is.

    Raises:
        RETRIEVAL_OUTPUT_EXISTS: another one is there.
    """
    data = msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    if path.exists():
        if _without_time(path.read_bytes()) != _without_time(data):
            raise RETRIEVAL_OUTPUT_EXISTS.error(
                f"{path}: expected no file, or the same result, found another one; "
                "remove it, or name another place with --out"
            )
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, data, may_replace=False, is_durable=False)  # whatever is lost can be computed again


def _without_time(data: bytes) -> object:
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return data
    if isinstance(value, dict):
        value.pop("generated_at", None)
    return value
