"""Metrics of tasks joined with how their trials ended: what comparisons and reports rest on (R15-R17)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError, UsageError
from repotrial.retrieval._evaluate import EVENTS, METRICS_SUFFIX
from repotrial.retrieval._metrics import FileMetrics, FindLeftOut, LeftOutAttempt, NotMeasured, leave_none_out
from repotrial.retrieval._outcomes import (
    LARGEST,
    OUTCOMES,
    Outcome,
    TrialProgress,
    load_outcomes,
    load_progress,
)
from repotrial.retrieval._reading import RankingRule
from repotrial.retrieval._walk import find_runs, is_own_run

RETRIEVAL_METRICS_DOCUMENT = ErrorCode(
    "retrieval-metrics-document",
    EvidenceError,
    "A metrics document is not one.",
    hint="evaluate the run again; `repotrial retrieval validate` names what is wrong",
)


class TaskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a metrics document says, as far as figures over many tasks need it."""

    provenance: dict[str, Any]
    """As the document has it."""
    coverage: dict[str, Any]
    """As the document has it."""
    ranking: RankingRule | None
    """By which rule files were ranked; None if the document does not say."""
    files: FileMetrics | NotMeasured
    """Stage 1, or why there are no figures."""
    probes: dict[str, float]
    """Stage 3, those that apply."""
    labels: dict[str, int]
    """Stage 4; empty without figures."""
    slices: dict[str, Any]
    """Stage 4; empty without figures."""


def read_metrics(data: bytes) -> TaskFigures:
    """Read a metrics document of major version 1, ours or the reference's.

    Raises:
        RETRIEVAL_METRICS_DOCUMENT: it is none, or of another major version.
    """
    try:
        value = msgspec.json.decode(data)
        if not isinstance(value, dict):
            raise RETRIEVAL_METRICS_DOCUMENT.error(f"expected a JSON object, found {type(value).__name__}")
        version = value.get("schema_version", "1.0")
        if not (isinstance(version, str) and version.partition(".")[0] == "1"):
            raise RETRIEVAL_METRICS_DOCUMENT.error(f"schema_version: expected 1.x, found {version!r}")
        files = value.get("file_level_metrics")
        is_measured = isinstance(files, dict) and files.get("computable") is True
        taxonomy = _dict(value.get("error_taxonomy"))
        return TaskFigures(
            provenance=_dict(value.get("provenance")),
            coverage=_dict(value.get("coverage")),
            ranking=_read_rule(value.get("ranking")),
            files=msgspec.convert(files, FileMetrics) if is_measured else msgspec.convert(files, NotMeasured),
            probes={
                name: float(number)
                for name, number in _dict(value.get("utilization_probes")).items()
                if name.startswith("util_") and isinstance(number, int | float)
            },
            labels=msgspec.convert(taxonomy.get("labels", {}), dict[str, int]),
            slices=_dict(taxonomy.get("slices")),
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise RETRIEVAL_METRICS_DOCUMENT.error(f"expected a metrics document, found: {error}") from error


def _read_rule(value: object) -> RankingRule | None:
    match value:
        case "reads" | "reference" as rule:
            return rule
        case _:
            return None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_NOT_READ: Final = Unknown("events were not read")
_OWN: Final = "runs of this harness"


RETRIEVAL_NO_METRICS = ErrorCode(
    "retrieval-no-metrics",
    UsageError,
    "There are no retrieval metrics in the directories named.",
    hint="`repotrial retrieval normalize DIR`, then `repotrial retrieval evaluate DIR`, write them",
)
RETRIEVAL_MIXED_RANKING = ErrorCode(
    "retrieval-mixed-ranking",
    UsageError,
    "Metrics that were ranked by different rules cannot stand in one table.",
    hint="evaluate all runs anew with the same --ranking, each into a directory of its own",
)


class Artefact(msgspec.Struct, frozen=True, kw_only=True):
    """A file that a figure rests on."""

    file: str
    """Its path, beginning with the run's name."""
    digest: str
    """Of its bytes."""


class Observation(msgspec.Struct, frozen=True, kw_only=True):
    """One trial: what it found, and how it ended."""

    group: str
    """Where its counterparts are looked for: its run, or all runs of this harness together."""
    config_name: str
    """The configuration."""
    task: str
    """The task; the sampling unit of all statistics."""
    repeat: int
    """Counted from 1 within group, configuration and task."""
    figures: TaskFigures
    """Its metrics."""
    outcome: Outcome | Unknown
    """How it ended; not known where no trial could be joined."""
    artefact: Artefact
    """Its metrics on disk."""
    progress: TrialProgress | Unknown
    """What its events say over time; not known where they were not read."""


class Study(msgspec.Struct, frozen=True, kw_only=True):
    """All trials of the directories named."""

    observations: tuple[Observation, ...]
    """By group, configuration, task and repeat."""
    ranking: str
    """By which rule files were ranked; `unstated` where documents do not say."""
    unreadable: tuple[str, ...]
    """Metrics that could not be read, and why."""
    unjoined: tuple[str, ...]
    """Trials with an outcome and without metrics."""
    left_out: tuple[LeftOutAttempt, ...]
    """Attempts that do not count, with metrics or without."""

    @property
    def configurations(self) -> tuple[str, ...]:
        """Their names; those that begin with `baseline` first."""
        names = {item.config_name for item in self.observations}
        return tuple(sorted(names, key=lambda name: (not name.startswith("baseline"), name)))


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    run: Path
    metrics: Path
    is_own: bool
    name: str
    """Unique among all sources."""


def load_study(
    directories: Iterable[Path],
    *,
    judge: Callable[[Path], Outcome],
    find_left_out: FindLeftOut = leave_none_out,
    has_progress: bool = False,
) -> Study:
    """Read the metrics below directories and join each with the outcome of its trial.

    Args:
        directories: Run directories, directories of runs, or `retrieval_events` directories.
        judge: The outcome of a run directory of this harness.
        find_left_out: Which directories are attempts that do not count.
        has_progress: Whether events are read too.

    Raises:
        RETRIEVAL_NO_METRICS: there are none.
        RETRIEVAL_MIXED_RANKING: not all were ranked by one rule.
    """
    observations: list[Observation] = []
    unreadable: list[str] = []
    unjoined: list[str] = []
    named = list(directories)
    left_out = find_left_out(_list_candidates(named))
    for source in _list_sources(named):
        if source.run in left_out:
            continue
        found = _load_source(source, judge, unreadable, has_progress=has_progress)
        observations += found[0]
        unjoined += found[1]
    if not observations:
        places = ", ".join(map(str, named))
        raise RETRIEVAL_NO_METRICS.error(
            f"{places}: expected files *{METRICS_SUFFIX}, found none that can be read"
        )
    return Study(
        observations=tuple(_number_repeats(observations)),
        ranking=_find_rule(observations),
        unreadable=tuple(unreadable),
        unjoined=tuple(unjoined),
        left_out=tuple(left_out.values()),
    )


def get_value(observation: Observation, name: str) -> float | None:
    """A quantity of a trial: an outcome, or a measure (`precision@5` for one with a cutoff)."""
    if name in OUTCOMES:
        outcome = observation.outcome
        value = None if isinstance(outcome, Unknown) else getattr(outcome, name)
        return None if isinstance(value, Unknown) else value
    files = observation.figures.files
    if not isinstance(files, FileMetrics):
        return None
    measure, _, cutoff = name.partition("@")
    found = getattr(files, measure)
    if cutoff:
        found = found.get(cutoff)
    # A whole number that no float can hold is no measurement.
    return None if found is None or abs(found) > LARGEST else float(found)


def _list_candidates(directories: Iterable[Path]) -> list[Path]:
    """Whatever may be a run, with metrics or without: an attempt that does not count may have none."""
    places = [_find_place(item) for item in directories]
    return list(dict.fromkeys(run.resolve() for item in places for run in (item, *find_runs(item))))


def _list_sources(directories: Iterable[Path]) -> list[_Source]:
    """Every run once, however often and by whatever path it is named."""
    sources = []
    names: Counter[str] = Counter()
    for run in dict.fromkeys(run.resolve() for item in directories for run in _iter_runs(item)):
        names[run.name] += 1
        inner = run / EVENTS
        sources.append(
            _Source(
                run=run,
                metrics=inner if inner.is_dir() else run,
                is_own=is_own_run(run),
                name=run.name if names[run.name] == 1 else f"{run.name} ({names[run.name]})",
            )
        )
    return sources


def _iter_runs(directory: Path) -> Iterator[Path]:
    place = _find_place(directory)
    if _has_metrics(place):
        yield place
        return
    yield from (run for run in find_runs(place) if _has_metrics(run))


def _find_place(directory: Path) -> Path:
    is_inside = directory.name == EVENTS and directory.is_dir()
    return directory.resolve().parent if is_inside else directory


def _has_metrics(directory: Path) -> bool:
    places = (directory / EVENTS, directory)
    return any(next(place.glob(f"*/*{METRICS_SUFFIX}"), None) is not None for place in places)


def _load_source(
    source: _Source, judge: Callable[[Path], Outcome], unreadable: list[str], *, has_progress: bool
) -> tuple[list[Observation], list[str]]:
    outcomes = (judge(source.run),) if source.is_own else load_outcomes(source.run)
    joined: set[int] = set()
    found = []
    for path in sorted(source.metrics.glob(f"*/*{METRICS_SUFFIX}")):
        try:
            data = path.read_bytes()
            figures = read_metrics(data)
        except (EvidenceError, OSError) as error:
            unreadable.append(f"{path}: {error}")
            continue
        place = 0 if source.is_own else _find_outcome(figures.provenance, path, outcomes)
        if place is not None:
            joined.add(place)
        found.append(
            Observation(
                group=_OWN if source.is_own else source.name,
                config_name=_name(figures.provenance, "config_name", path.parent.name),
                task=_name(figures.provenance, "task_name", path.name.removesuffix(METRICS_SUFFIX)),
                repeat=1,
                figures=figures,
                outcome=Unknown("no trial is joined with it") if place is None else outcomes[place],
                artefact=Artefact(
                    file=f"{source.name}/{path.relative_to(source.run).as_posix()}", digest=digest_bytes(data)
                ),
                progress=load_progress(path, source.run, figures.ranking) if has_progress else _NOT_READ,
            )
        )
    left = [item for place, item in enumerate(outcomes) if place not in joined]
    return found, [f"{source.name}/{item.config_name}/{item.trial_name}" for item in left]


def _find_outcome(provenance: dict[str, Any], path: Path, outcomes: Sequence[Outcome]) -> int | None:
    """The trial of a task: by its directory, which both sides know, else by its name if only one has it.

    Names of tasks are a poor key: wrappers put prefixes and suffixes around them on one side only.
    """
    config = _name(provenance, "config_name", path.parent.name)
    near = [(n, item) for n, item in enumerate(outcomes) if item.config_name == config]
    trial = provenance.get("trial_name")
    by_trial = [n for n, item in near if item.trial_name == trial]
    by_batch = [n for n in by_trial if outcomes[n].batch_timestamp == provenance.get("batch_timestamp")]
    by_name = [n for n, item in near if item.stated_name == provenance.get("task_name")]
    for found in (by_batch, by_trial, by_name if trial is None else []):
        if len(found) == 1:
            return found[0]
    return None


def _name(provenance: dict[str, Any], key: str, otherwise: str) -> str:
    value = provenance.get(key)
    return value if isinstance(value, str) and value else otherwise


def _number_repeats(observations: Iterable[Observation]) -> Iterator[Observation]:
    counts: Counter[tuple[str, str, str]] = Counter()
    for item in sorted(observations, key=lambda o: (o.group, o.config_name, o.task, o.artefact.file)):
        counts[item.group, item.config_name, item.task] += 1
        yield msgspec.structs.replace(item, repeat=counts[item.group, item.config_name, item.task])


def _find_rule(observations: Iterable[Observation]) -> str:
    rules = sorted({item.figures.ranking or "unstated" for item in observations})
    if len(rules) > 1:
        raise RETRIEVAL_MIXED_RANKING.error(
            f"expected metrics ranked by one rule, found {' and '.join(rules)}"
        )
    return rules[0]
