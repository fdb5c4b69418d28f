"""Run directories of other harnesses, `<run>/<configuration>/<batch or job>/<trial>/`, and their trials."""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial.retrieval._evaluate import AGGREGATE, EVENTS, EVENTS_SUFFIX, SUMMARY
from repotrial.trace import RunPaths

_MOST_BYTES: Final = 64 * 1024**2


def load_object(path: Path) -> dict[str, Any]:
    """The object that a file holds; empty where it holds none."""
    try:
        with path.open("rb") as stream:
            value = msgspec.json.decode(stream.read(_MOST_BYTES))
    except (OSError, msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def dig(value: Any, *keys: str) -> Any:
    """What lies below these keys; None if something on the way is no object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


_BATCH: Final = re.compile(r"\d{4}-\d\d-\d\d__\d\d-\d\d-\d\d")
_ARCHIVES: Final = ("archive", "__broken", "__duplicate", "__all_errored", "__partial", "__integrated")


class HarnessTrial(msgspec.Struct, frozen=True, kw_only=True):
    """One trial, as its directory and its `result.json` describe it."""

    directory: Path
    config_name: str
    batch_timestamp: str
    """Empty where the batch is a job directory."""
    stated_name: str
    """The task, as `result.json` says, else as the directory is called."""
    is_name_stated: bool
    """Whether `result.json` names the task; directory names may be cut."""
    model: str | None = None
    started_at: str = ""
    agent_started_at: str | None = None


class WalkedRun(msgspec.Struct, frozen=True, kw_only=True):
    """The trials of a run, in a fixed order."""

    directory: Path
    trials: tuple[HarnessTrial, ...]
    passed_over: tuple[tuple[str, str], ...] = ()
    """Directories that look like trials and are none, and why."""


def is_own_run(directory: Path) -> bool:
    """Whether a directory is a run of this harness."""
    paths = RunPaths(directory)
    return paths.manifest.is_file() and paths.trace.is_file()


def find_runs(root: Path) -> tuple[Path, ...]:
    """Every run below a root but archives and what was set aside."""
    return tuple(
        path
        for path in _list(root)
        if path.name != AGGREGATE
        and not path.name.startswith(".")
        and not any(word in path.name for word in _ARCHIVES)
    )


def walk_run(run: Path) -> WalkedRun:
    """Find the trials of a run, whatever its configurations are called."""
    trials: list[HarnessTrial] = []
    passed_over: list[tuple[str, str]] = []
    for config in _list(run):
        if config.name in {EVENTS, AGGREGATE, "archive"}:
            continue
        for batch, directory in _iter_candidates(config):
            if (directory / "result.json").is_file():
                trials.append(_describe(directory, config.name, batch))
            elif (directory / "agent").is_dir():
                passed_over.append((directory.relative_to(run).as_posix(), "it has no result.json"))
    ordered = sorted(
        trials, key=lambda t: (t.config_name, t.batch_timestamp, t.started_at, t.directory.as_posix())
    )
    return WalkedRun(directory=run, trials=tuple(ordered), passed_over=tuple(passed_over))


def _iter_candidates(config: Path) -> Iterator[tuple[str, Path]]:
    for batch in _list(config):
        stamp = batch.name if _BATCH.fullmatch(batch.name) else ""
        inner = [path for path in _list(batch) if "__" in path.name]
        if inner:
            yield from ((stamp, path) for path in inner)
        elif "__" in batch.name and not stamp:
            yield "", batch  # a trial without a batch around it


def _describe(directory: Path, config: str, batch: str) -> HarnessTrial:
    result = load_object(directory / "result.json")
    stated = result.get("task_name")
    is_stated = isinstance(stated, str) and bool(stated)
    return HarnessTrial(
        directory=directory,
        config_name=config,
        batch_timestamp=batch,
        stated_name=stated if isinstance(stated, str) and stated else directory.name.rpartition("__")[0],
        is_name_stated=is_stated,
        model=_text(dig(result, "agent_info", "model_info", "name")),
        started_at=_text(result.get("started_at")) or "",
        agent_started_at=_text(dig(result, "agent_execution", "started_at")),
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _list(directory: Path) -> list[Path]:
    """Directories in it by name; links are not followed, what cannot be listed is empty."""
    try:
        return sorted(path for path in directory.iterdir() if path.is_dir() and not path.is_symlink())
    except OSError:
        return []


class RetrievalPlaces(msgspec.Struct, frozen=True, kw_only=True):
    """Where runs or event documents lie, and where results go."""

    directory: Path | None
    """A run; with `is_all` a directory of runs. None where `events` is given."""
    events: Path | None = None
    """A directory of event documents."""
    out: Path | None = None
    """Where results go instead of beside what they are about; with `is_all`, by run."""
    is_all: bool = False

    @property
    def summary(self) -> Path:
        """Where the summary over all documents goes."""
        if self.out is not None:
            return self.out / SUMMARY
        if self.events is not None:
            return self.events / SUMMARY
        assert self.directory is not None
        return self.directory / (AGGREGATE if self.is_all else EVENTS) / SUMMARY

    def iter_runs(self) -> Iterator[tuple[Path, Path | None]]:
        """Each run with the directory that its documents go to; None for its own."""
        assert self.directory is not None
        if not self.is_all or is_own_run(self.directory):
            yield self.directory, self.out
            return
        for run in find_runs(self.directory):
            yield run, None if self.out is None else self.out / run.name

    def iter_documents(self, left_out: Container[Path]) -> Iterator[tuple[Path, Path]]:
        """Each event document of runs that count, with the directory that its metrics go to."""
        for source, target in self._iter_sources(left_out):
            for file in sorted(source.glob(f"*/*{EVENTS_SUFFIX}")):
                yield file, file.parent if target is None else target / file.parent.name

    def _iter_sources(self, left_out: Container[Path]) -> Iterator[tuple[Path, Path | None]]:
        if self.events is not None:
            yield self.events, self.out
            return
        assert self.directory is not None
        if not self.is_all:
            yield self.directory / EVENTS, self.out
            return
        for run in find_runs(self.directory):
            if run not in left_out:
                yield run / EVENTS, None if self.out is None else self.out / run.name
