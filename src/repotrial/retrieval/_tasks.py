"""Task directories: which task a trial is of, and which suite it belongs to."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import msgspec

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
        """Where a task lies; null where it is not known."""
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
    """Where the tasks of a run lie if nobody says so: in `benchmarks/`, beside a directory above it."""
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
