"""From run directories to event documents on disk (R14)."""

from __future__ import annotations

import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.retrieval._build import BuiltDocument, TrialInput, build_document
from repotrial.retrieval._contract_truth import Truth, find_contract_truth
from repotrial.retrieval._documents import Coverage, EventsSummary, Provenance
from repotrial.retrieval._evaluate import EVENTS, EVENTS_SUFFIX
from repotrial.retrieval._merge import load_traces
from repotrial.retrieval._output import write_own
from repotrial.retrieval._own import load_own_run, name_configuration
from repotrial.retrieval._tools import RetrievalTools
from repotrial.retrieval._truth import find_truth
from repotrial.retrieval._walk import HarnessTrial, is_own_run, walk_run

_PREFIXES: Final = ("artifact_bl_", "artifact_", "mcp_", "bl_", "sgonly_")
_SUFFIX: Final = re.compile(r"_+[A-Za-z0-9]{4,8}$")
_CUT_LENGTH: Final = 32
_DEEPEST: Final = 3
_MARKS: Final = ("task.toml", "contract.toml", "instruction.md", "tests", "task_spec.json")
_PHASES: Final = (
    "build",
    "debug",
    "design",
    "document",
    "feature",
    "fix",
    "refactor",
    "secure",
    "test",
    "understand",
)
_ORG: Final = (
    "crossorg",
    "compliance",
    "incident",
    "migration",
    "onboarding",
    "crossrepo_tracing",
    "platform",
    "security",
)
_LARGEST: Final = 4 * 1024**2


class TaskIndex(msgspec.Struct, frozen=True, kw_only=True):
    """Known tasks by their names."""

    by_name: dict[str, Path]
    """Every name that a task has, to its directory."""
    folded: dict[str, Path]
    """The same without differences of spelling."""

    def resolve(self, stated: str, *, is_cut: bool = False) -> str:
        """The task that a name means; the name itself where it means none that is known.

        Wrappers' prefixes and suffixes are taken off only where what remains is a task: `delta_case` stays.

        Args:
            stated: The name that a trial has.
            is_cut: Whether it comes from a directory's name, whose end may be missing.
        """
        for candidate in _iter_readings(stated):
            if self.find_directory(candidate) is not None:
                return candidate
        for candidate in _iter_readings(stated) if is_cut and len(stated) >= _CUT_LENGTH else ():
            begun = {name: path for name, path in self.by_name.items() if name.startswith(candidate)}
            if len(set(begun.values())) == 1:
                return min(begun)
        return stated

    def find_directory(self, name: str) -> Path | None:
        """Where a task lies; None if it is not known."""
        return self.by_name.get(name) or self.folded.get(_fold(name))


def build_task_index(root: Path | None) -> TaskIndex:
    """Every task below a directory, or the directory itself where it is one."""
    by_name: dict[str, Path] = {}
    folded: dict[str, Path] = {}
    for directory in () if root is None else _iter_tasks(root, 0):
        for name in (directory.name, *_read_names(directory)):
            by_name.setdefault(name, directory)
            folded.setdefault(_fold(name), directory)
    return TaskIndex(by_name=by_name, folded=folded)


def find_tasks_directory(run: Path) -> Path | None:
    """Where the tasks of a run lie by default: in `benchmarks/`, beside a directory above it."""
    for parent in list(run.resolve().parents)[:4]:
        candidate = parent / "benchmarks"
        if candidate.is_dir():
            return candidate
    return None


def find_benchmark(run_name: str, task: Path | None) -> str:
    """The suite: from where the task lies, else from what the run is called, else `unknown`."""
    names = [parent.name for parent in list(task.parents)[:2]] if task is not None else []
    for name in (*names, run_name):
        found = _read_suite(name.casefold(), is_run=name == run_name)
        if found is not None:
            return found
    return "unknown"


def _read_suite(name: str, *, is_run: bool) -> str | None:
    text = re.sub(r"^(?:ccb|csb)_(?:sdlc_|mcp_|org_)?", "", name)
    is_suite = text != name
    if not is_suite and not is_run:
        return None
    text = text.removeprefix("mcp_")
    for word in _ORG:
        if text.startswith(word) and (
            "org_" in name or "mcp_" in name or word in {"crossorg", "crossrepo_tracing"}
        ):
            return f"csb_org_{word}"
    for word in _PHASES:
        if text == word or text.startswith(f"{word}_"):
            return f"csb_sdlc_{word}"
    return name if is_suite and not is_run else None


def _iter_tasks(directory: Path, depth: int) -> Iterator[Path]:
    try:
        names = {path.name for path in directory.iterdir()}
        inner = sorted(path for path in directory.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return
    if names & set(_MARKS) and (depth or names & {"task.toml", "contract.toml"}):
        yield directory
    elif depth < _DEEPEST:
        for path in inner:
            yield from _iter_tasks(path, depth + 1)


def _read_names(directory: Path) -> list[str]:
    """What a task calls itself."""
    for file, keys in (("task.toml", (("task", "id"), ("metadata", "name"))), ("contract.toml", (("id",),))):
        try:
            with (directory / file).open("rb") as stream:
                value = tomllib.loads(stream.read(_LARGEST).decode())
        except (OSError, UnicodeError, tomllib.TOMLDecodeError, RecursionError):
            continue
        found = []
        for row in keys:
            inner: object = value
            for key in row:
                inner = inner.get(key) if isinstance(inner, dict) else None
            if isinstance(inner, str) and inner:
                found.append(inner)
        return found
    return []


def _iter_readings(stated: str) -> Iterator[str]:
    yield stated
    bare = next((stated.removeprefix(prefix) for prefix in _PREFIXES if stated.startswith(prefix)), stated)
    if bare != stated:
        yield bare
        yield _SUFFIX.sub("", bare)


def _fold(name: str) -> str:
    return re.sub(r"^(?:ccb|csb)_", "", name.casefold().replace("__", "-"))


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
    has_further_sources: bool = False
    """Whether ground truth may come from files that the specification does not name (ADR 0041)."""


class NormalizedTask(msgspec.Struct, frozen=True, kw_only=True):
    """What came of one trial."""

    run_id: str
    config_name: str
    task_name: str
    trial: str
    """Its directory, relative to the run."""
    target: str | None = None
    """Where its document is; None if there is none."""
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
            yield _normalize_trial(run, trial, name, repeats[trial.config_name, name], target, options)
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


def explain_truth(
    tasks: TaskIndex, name: str, *, has_further_sources: bool = False
) -> tuple[Path | None, Truth]:
    """Where a task lies and which of its files says what matters, for `--explain`."""
    directory = tasks.find_directory(tasks.resolve(name))
    return directory, _find_truth(directory, has_further_sources=has_further_sources)


def _normalize_trial(
    run: Path, trial: HarnessTrial, name: str, number: int, target: Path, options: NormalizationOptions
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
            truth=_find_truth(directory, has_further_sources=options.has_further_sources),
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
                config_name=name_configuration(manifest),
                benchmark=find_benchmark("", directory),
                trial_name=run.name,
                model=own.traces.merged.model,
            ),
            traces=own.traces,
            truth=_find_truth(directory, has_further_sources=options.has_further_sources),
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
        write_own(path, document)
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


def _find_truth(directory: Path | None, *, has_further_sources: bool) -> Truth:
    if directory is None:
        return _NO_TRUTH
    if (directory / "contract.toml").is_file():
        return find_contract_truth(directory)
    return find_truth(directory, has_further=has_further_sources)


def _name_file(name: str) -> str:
    """A name that cannot leave its directory; ordinary names stay as they are."""
    text = name if re.fullmatch(r"[^/\x00-\x1f\x7f.][^/\x00-\x1f\x7f]*", name) else quote(name, safe=" ")
    text = f"%2E{text[1:]}" if text.startswith(".") else text
    if len(text.encode("utf-8", "surrogatepass")) <= _LONGEST_NAME:
        return text or "%"
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:12]
    return f"{text.encode('utf-8', 'surrogatepass')[: _LONGEST_NAME - 14].decode('utf-8', 'ignore')}-{digest}"
