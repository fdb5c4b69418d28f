"""Verbs on retrieval: from traces to event documents, from those to metrics; and are they well formed?"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.clock import format_now
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.analysis import find_left_out
from repotrial.retrieval import (
    DocumentCheck,
    Evaluation,
    EvaluationOptions,
    LeftOutAttempt,
    NormalizationOptions,
    NormalizedTask,
    RankingRule,
    RetrievalPlaces,
    TruthAttempt,
    build_task_index,
    check_document,
    evaluate,
    explain_truth,
    find_runs,
    find_tasks_directory,
    load_retrieval_tools,
    normalize_run,
)

SchemaVersion: TypeAlias = Literal["1.0", "1.1"]
"""Which fields documents have."""


RETRIEVAL_DIRECTORY_MISSING = ErrorCode(
    "retrieval-directory-missing",
    UsageError,
    "There is no such directory to look for traces or event documents in.",
    hint="name a run directory, or with --all a directory of them",
)
RETRIEVAL_NOTHING_FOUND = ErrorCode(
    "retrieval-nothing-found",
    UsageError,
    "A directory holds nothing that retrieval can be measured on.",
    hint="a run holds <configuration>/<batch>/<trial>__<id>/result.json, or manifest.json and trace.jsonl",
)
RETRIEVAL_UNKNOWN_WORD = ErrorCode(
    "retrieval-unknown-word",
    UsageError,
    "A rule or a version has no such name.",
    hint="`repotrial retrieval evaluate --help` names them",
)


class NormalizationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to normalize, and how."""

    directory: Path
    """A run directory; with `is_all` a directory of them."""
    tasks: Path | None = None
    """Where task or contract directories lie; None looks for `benchmarks/` above the run."""
    is_all: bool = False
    task: str | None = None
    """Only this task."""
    out: Path | None = None
    """Where documents go instead of into the run; with `is_all`, by run."""
    tools: Path | None = None
    """A table that adds to the bundled one."""
    roots: tuple[str, ...] = ()
    """Directories in which agents found the repository."""
    schema: str = "1.1"
    """Version of the documents: 1.0 or 1.1."""
    is_rehearsal: bool = False
    """Whether nothing is written."""
    has_further_sources: bool = False
    """Whether ground truth may come from files that the specification does not name."""


class Normalization(msgspec.Struct, frozen=True, kw_only=True):
    """What came of it."""

    tasks_directory: str | None
    """Where ground truth was looked for."""
    is_rehearsal: bool
    tasks: tuple[NormalizedTask, ...]
    left_out: tuple[LeftOutAttempt, ...] = ()
    """Attempts that were broken off and repeated: no document is written; `tasks` has them, too."""

    @property
    def holds(self) -> bool:
        """Whether every trial has its document."""
        return all(task.problem is None or task.is_passed_over for task in self.tasks)


class TruthExplanation(msgspec.Struct, frozen=True, kw_only=True):
    """Which file says what matters for a task, and why that one."""

    task: str
    tasks_directory: str | None
    directory: str | None
    """The task's directory; None if it is not known."""
    source: str | None
    confidence: str | None
    files: tuple[str, ...]
    symbols: int
    chunks: int
    expected_edit_files: tuple[str, ...]
    attempts: tuple[TruthAttempt, ...]
    """Every step of the chain."""


def _parse_schema_version(text: str) -> SchemaVersion:
    """A version that documents can be written in.

    Raises:
        RETRIEVAL_UNKNOWN_WORD: there is no such version.
    """
    match text:
        case "1.0" | "1.1" as version:
            return version
        case _:
            raise RETRIEVAL_UNKNOWN_WORD.error(f"--schema: expected 1.0 or 1.1, found {text!r}")


def _parse_ranking_rule(text: str) -> RankingRule:
    """A rule by which files are ranked.

    Raises:
        RETRIEVAL_UNKNOWN_WORD: there is no such rule.
    """
    match text:
        case "reads" | "reference" as rule:
            return rule
        case _:
            raise RETRIEVAL_UNKNOWN_WORD.error(f"--ranking: expected reads or reference, found {text!r}")


def normalize_retrieval(request: NormalizationRequest) -> Normalization:
    """Write an event document for every trial of a run, or of all runs below a directory.

    Raises:
        RETRIEVAL_DIRECTORY_MISSING: there is no such directory.
        RETRIEVAL_NOTHING_FOUND: it holds no trial, or none of the task that was asked for.
        RETRIEVAL_TOOLS_INVALID: the table of tools is none.
        RETRIEVAL_UNKNOWN_WORD: there is no such schema version.
    """
    schema = _parse_schema_version(request.schema)
    _verify_directory(request.directory)
    tasks = _find_tasks(request.directory, request.tasks)
    options = NormalizationOptions(
        tools=load_retrieval_tools(request.tools),
        tasks=build_task_index(tasks),
        generated_at=format_now(),
        roots=request.roots,
        task=request.task,
        is_extended=schema != "1.0",
        is_rehearsal=request.is_rehearsal,
        has_further_sources=request.has_further_sources,
    )
    places = RetrievalPlaces(directory=request.directory, out=request.out, is_all=request.is_all)
    runs = list(places.iter_runs())
    left_out = find_left_out(run for run, _ in runs)
    found = tuple(
        task
        for run, out in runs
        for task in (
            normalize_run(run, out, options) if run not in left_out else _pass_over(left_out[run], options)
        )
    )
    if not found:
        wanted = "a trial" if request.task is None else f"a trial of {request.task!r}"
        raise RETRIEVAL_NOTHING_FOUND.error(f"{request.directory}: expected {wanted}, found none")
    return Normalization(
        tasks_directory=None if tasks is None else str(tasks),
        is_rehearsal=request.is_rehearsal,
        tasks=found,
        left_out=tuple(item for item in left_out.values() if request.task in (None, item.task)),
    )


def explain_ground_truth(
    directory: Path, tasks: Path | None, task: str, *, has_further_sources: bool = False
) -> TruthExplanation:
    """Say which file of a task's directory names what matters.

    Raises:
        RETRIEVAL_DIRECTORY_MISSING: there is no such directory.
    """
    _verify_directory(directory)
    root = _find_tasks(directory, tasks)
    place, truth = explain_truth(build_task_index(root), task, has_further_sources=has_further_sources)
    claim = truth.claim
    return TruthExplanation(
        task=task,
        tasks_directory=None if root is None else str(root),
        directory=None if place is None else str(place),
        source=None if claim is None else claim.source,
        confidence=None if claim is None else claim.confidence,
        files=() if claim is None else claim.files,
        symbols=len(truth.symbols),
        chunks=len(truth.chunks),
        expected_edit_files=() if truth.editing is None else truth.editing.edits,
        attempts=truth.attempts,
    )


def evaluate_retrieval(
    directory: Path | None,
    *,
    events: Path | None = None,
    out: Path | None = None,
    ranking: str = "reads",
    schema: str = "1.1",
    is_all: bool = False,
    is_rehearsal: bool = False,
) -> Evaluation:
    """Measure event documents of a run, of all runs below a directory, or of a directory of documents.

    Raises:
        RETRIEVAL_DIRECTORY_MISSING: there is no such directory, or not exactly one was named.
        RETRIEVAL_NOTHING_FOUND: there are no event documents.
        RETRIEVAL_OUTPUT_EXISTS: a result would replace something else.
        RETRIEVAL_UNKNOWN_WORD: there is no such ranking rule or schema version.
    """
    rule, version = _parse_ranking_rule(ranking), _parse_schema_version(schema)
    if (directory is None) == (events is None):
        raise RETRIEVAL_DIRECTORY_MISSING.error(
            "expected a run directory or --events-dir, found both or none"
        )
    root = directory or events
    assert root is not None
    _verify_directory(root)
    left_out = find_left_out(find_runs(directory)) if directory is not None and is_all else {}
    places = RetrievalPlaces(directory=directory, events=events, out=out, is_all=is_all)
    files = list(places.iter_documents(left_out))
    if not files:
        raise RETRIEVAL_NOTHING_FOUND.error(
            f"{root}: expected <configuration>/<task>.retrieval_events.json, found none",
            hint="normalize first: repotrial retrieval normalize RUN_DIR",
        )
    options = EvaluationOptions(
        rule=rule,
        is_extended=version != "1.0",
        generated_at=format_now(),
        left_out=tuple(left_out.values()),
    )
    return evaluate(files, None if is_rehearsal else places.summary, options)


def validate_retrieval(files: Sequence[Path]) -> list[DocumentCheck]:
    """Hold documents against the published schemas; unknown major versions are refused."""
    return [check_document(file) for file in files]


def _pass_over(attempt: LeftOutAttempt, options: NormalizationOptions) -> Iterator[NormalizedTask]:
    if options.task in (None, attempt.task):
        yield NormalizedTask(
            run_id=attempt.run,
            config_name=attempt.config_name,
            task_name=attempt.task,
            trial=".",
            problem=f"left out: {attempt.reason}",
            is_passed_over=True,
        )


def _find_tasks(directory: Path, tasks: Path | None) -> Path | None:
    if tasks is None:
        return find_tasks_directory(directory)
    _verify_directory(tasks)
    return tasks


def _verify_directory(directory: Path) -> None:
    if not directory.is_dir():
        raise RETRIEVAL_DIRECTORY_MISSING.error(f"{directory}: expected a directory, found none")
