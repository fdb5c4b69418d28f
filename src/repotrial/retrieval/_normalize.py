"""From run directories to event documents on disk; nothing that exists is changed (R14)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.retrieval._build import BuiltDocument, TrialInput, build_document
from repotrial.retrieval._documents import Coverage, EventsSummary, Provenance
from repotrial.retrieval._evaluate import EVENTS, EVENTS_SUFFIX, write_new
from repotrial.retrieval._own import load_own_run
from repotrial.retrieval._tasks import TaskIndex, find_benchmark
from repotrial.retrieval._tools import RetrievalTools
from repotrial.retrieval._traces import load_traces
from repotrial.retrieval._truth._chain import find_truth
from repotrial.retrieval._truth._contracts import find_contract_truth
from repotrial.retrieval._truth._model import Truth
from repotrial.retrieval._walk import Trial, is_own_run, walk_run

_LONGEST_NAME: Final = 180
_NO_TRUTH: Final = Truth(claim=None, symbols=(), attempts=())


class NormalizationOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How traces are read and documents written."""

    tools: RetrievalTools
    tasks: TaskIndex
    generated_at: str
    """For the documents: time in ISO 8601, UTC."""
    roots: tuple[str, ...] = ()
    """Directories in which the repository lies, beside what traces say."""
    task: str | None = None
    """Only this task."""
    is_extended: bool = True
    """Whether fields that 1.1 added are written."""
    is_rehearsal: bool = False
    """Whether nothing is written."""


class NormalizedTask(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one trial."""

    run_id: str
    config_name: str
    task_name: str
    trial: str
    """Its directory, relative to the run."""
    target: str | None = None
    """Where its document is; null where there is none."""
    coverage: Coverage | None = None
    summary: EventsSummary | None = None
    calls_seen: int = 0
    calls_tracked: int = 0
    """Calls that made an event."""
    calls_mined: int = 0
    """Calls whose files come from a shell command."""
    calls_by_tool: dict[str, int] = {}
    """Calls that made no event, by the tool's name."""
    problem: str | None = None
    """Why there is no document."""
    is_passed_over: bool = False
    """Whether no document is wanted: it only looks like a trial, or is an attempt that does not count."""


def normalize_run(run: Path, out: Path | None, options: NormalizationOptions) -> Iterator[NormalizedTask]:
    """Normalize every trial of a run, one in memory at a time; what fails is said and does not stop the rest.

    Args:
        run: The run directory, of another harness or of this one.
        out: Where documents go instead of `retrieval_events` in the run.
        options: How.
    """
    target = run / EVENTS if out is None else out
    if is_own_run(run):
        yield from _normalize_own(run, target, options)
        return
    walked = walk_run(run)
    repeats: Counter[tuple[str, str]] = Counter()
    for trial in walked.trials:
        name = options.tasks.resolve(trial.stated_name, is_cut=not trial.is_name_stated)
        repeats[trial.config_name, name] += 1
        if options.task is None or options.task in {name, trial.stated_name}:
            number = repeats[trial.config_name, name]
            yield _normalize_trial(run, trial, name, number, target, options)
    for place, reason in walked.passed_over if options.task is None else ():
        config = place.partition("/")[0]
        name = place.rpartition("/")[2].rpartition("__")[0]
        yield NormalizedTask(
            run_id=run.name,
            config_name=config,
            task_name=name,
            trial=place,
            problem=f"passed over: {reason}",
            is_passed_over=True,
        )


def explain_truth(tasks: TaskIndex, name: str) -> tuple[Path | None, Truth]:
    """Where a task lies and which of its files says what matters, for `--explain`."""
    directory = tasks.find_directory(tasks.resolve(name))
    return directory, _NO_TRUTH if directory is None else _find_truth(directory)


def _normalize_trial(
    run: Path, trial: Trial, name: str, number: int, target: Path, options: NormalizationOptions
) -> NormalizedTask:
    directory = options.tasks.find_directory(name)
    place = trial.directory.relative_to(run).as_posix()
    try:
        traces = load_traces(trial.directory)
        inputs = TrialInput(
            provenance=Provenance(
                run_id=run.name,
                task_name=name,
                config_name=trial.config_name,
                benchmark=find_benchmark(run.name, directory),
                batch_timestamp=trial.batch_timestamp,
                trial_name=trial.directory.name,
                model=trial.model or traces.merged.model,
            ),
            traces=traces,
            truth=_NO_TRUTH if directory is None else _find_truth(directory),
            agent_started_at=trial.agent_started_at,
        )
        return _write(inputs, target, place, number, options)
    except (RepoTrialError, OSError) as error:
        return NormalizedTask(
            run_id=run.name, config_name=trial.config_name, task_name=name, trial=place, problem=str(error)
        )


def _normalize_own(run: Path, target: Path, options: NormalizationOptions) -> Iterator[NormalizedTask]:
    try:
        own = load_own_run(run)
        manifest = own.manifest
        name = manifest.contract.id
        if options.task is not None and options.task != name:
            return
        directory = options.tasks.find_directory(name)
        inputs = TrialInput(
            provenance=Provenance(
                run_id=manifest.run_id,
                task_name=name,
                config_name=manifest.agent.name,
                benchmark=find_benchmark("", directory),
                trial_name=run.name,
                model=own.traces.merged.model,
            ),
            traces=own.traces,
            truth=_NO_TRUTH if directory is None else _find_truth(directory),
            agent_started_at=None,
        )
        yield _write(inputs, target, ".", 1, options)
    except (RepoTrialError, OSError) as error:
        yield NormalizedTask(
            run_id=run.name, config_name="unknown", task_name=run.name, trial=".", problem=str(error)
        )


def _write(
    inputs: TrialInput, target: Path, place: str, number: int, options: NormalizationOptions
) -> NormalizedTask:
    built: BuiltDocument = build_document(
        inputs,
        options.tools,
        generated_at=options.generated_at,
        roots=options.roots,
        is_extended=options.is_extended,
    )
    document, provenance = built.document, inputs.provenance
    task = provenance.task_name if number == 1 else f"{provenance.task_name}__r{number}"
    path = target / _name_file(provenance.config_name) / f"{_name_file(task)}{EVENTS_SUFFIX}"
    if not options.is_rehearsal:
        write_new(path, document)
    return NormalizedTask(
        run_id=provenance.run_id,
        config_name=provenance.config_name,
        task_name=task,
        trial=place,
        target=str(path),
        coverage=document.coverage,
        summary=document.summary,
        calls_seen=built.calls_seen,
        calls_tracked=built.calls_tracked,
        calls_mined=built.calls_mined,
        calls_by_tool=built.calls_by_tool,
    )


def _find_truth(directory: Path) -> Truth:
    return (
        find_contract_truth(directory) if (directory / "contract.toml").is_file() else find_truth(directory)
    )


def _name_file(name: str) -> str:
    """A name that cannot leave its directory; ordinary names stay as they are."""
    text = name if re.fullmatch(r"[^/\x00-\x1f\x7f.][^/\x00-\x1f\x7f]*", name) else quote(name, safe=" ")
    text = f"%2E{text[1:]}" if text.startswith(".") else text
    if len(text.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME:
        return text or "%"
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{text.encode('utf-8', 'surrogatepass')[: _LONGEST_NAME - 14].decode('utf-8', 'ignore')}-{digest}"
