"""What lies below a directory: runs and pilots, and in which state each run is; nothing is judged here."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import RepoTrialError
from repotrial.conduct import verify_no_peek
from repotrial.run import find_question
from repotrial.trace import RunPaths

_DEEPEST: Final = 4
_KEY_DIGITS: Final = 12
_MOST_LOCKS_BYTES: Final = 4 * 1024**2
_LOCK: Final = re.compile(rb" [0-9a-f]+:[0-9a-f]+:([0-9]+) ")
_JUST_NOW_SECONDS: Final = 10

RunState: TypeAlias = Literal["running", "waiting", "ended", "unsealed"]
"""`waiting`: for a person's decision; `unsealed`: no process works on it, and it has no seal."""


class FoundRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory as it is on the disk at this moment."""

    key: str
    """Its name in addresses."""
    path: Path
    place: str
    """The directory that it lies in, relative to the one that is served."""
    state: RunState
    signature: str
    """Changes when there is something new to read."""
    pilot: str
    """The key of the pilot that it belongs to; empty if it belongs to none."""


class FoundPilot(msgspec.Struct, frozen=True, kw_only=True):
    """A frozen pilot."""

    key: str
    path: Path
    is_over: bool
    """Whether outcomes by arm may be read (P29)."""


class Surroundings(msgspec.Struct, frozen=True, kw_only=True):
    """All that was found."""

    runs: tuple[FoundRun, ...]
    pilots: tuple[FoundPilot, ...]


def build_key(root: Path, path: Path) -> str:
    """A short name for a directory below the one that is served: the same on each start."""
    return digest_bytes(os.fsencode(os.path.relpath(path, root))).removeprefix("sha256:")[:_KEY_DIGITS]


def look_around(root: Path) -> Surroundings:
    """Every run and every pilot below a directory; links are followed no further than one step."""
    locks = _read_locks()
    runs: list[FoundRun] = []
    pilots: list[FoundPilot] = []
    pending: list[tuple[Path, int, str]] = [(root, 0, "")]
    while pending:
        folder, depth, pilot = pending.pop()
        if _is_run(folder):
            runs.append(_describe(root, folder, pilot, locks))
            continue
        if _is_pilot(folder):
            found = FoundPilot(key=build_key(root, folder), path=folder, is_over=_is_over(folder))
            pilots.append(found)
            pilot = found.key
        if depth < _DEEPEST:
            pending += [(path, depth + 1, pilot) for path in _iter_folders(folder)]
    return Surroundings(
        runs=tuple(sorted(runs, key=lambda run: str(run.path))),
        pilots=tuple(sorted(pilots, key=lambda found: str(found.path))),
    )


def _iter_folders(folder: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            # Hidden ones are runs in the making, inboxes and caches.
            if not entry.name.startswith(".") and entry.is_dir(follow_symlinks=False):
                yield folder / entry.name


def _is_run(folder: Path) -> bool:
    paths = RunPaths(folder)
    return any(os.path.lexists(path) for path in (paths.trace, paths.spec, paths.seal))


def _is_pilot(folder: Path) -> bool:
    return (folder / "pilot.toml").is_file() and (folder / "registrations").is_dir()


def _is_over(folder: Path) -> bool:
    try:
        verify_no_peek(folder)
    except RepoTrialError:  # under way, or a journal that does not hold: nothing is shown by arm
        return False
    return True


def _describe(root: Path, folder: Path, pilot: str, locks: frozenset[int]) -> FoundRun:
    paths = RunPaths(folder)
    marks = [_stat(path) for path in (paths.trace, paths.seal, paths.spec)]
    state: RunState = "ended" if marks[1] is not None else "unsealed"
    if state == "unsealed" and _is_written(marks[0], _stat(paths.trace_lock), locks):
        state = "waiting" if find_question(folder).is_file() else "running"
    return FoundRun(
        key=build_key(root, folder),
        path=folder,
        place=os.path.relpath(folder.parent, root),
        state=state,
        signature=";".join("-" if mark is None else f"{mark.st_size}.{mark.st_mtime_ns}" for mark in marks)
        + state,
        pilot=pilot,
    )


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except (OSError, ValueError):
        return None


def _is_written(trace: os.stat_result | None, lock: os.stat_result | None, locks: frozenset[int]) -> bool:
    """Whether a harness is at work on it; one on another machine shows by what it wrote just now."""
    if lock is not None and lock.st_ino in locks:
        return True
    return trace is not None and time.time() - trace.st_mtime < _JUST_NOW_SECONDS


def _read_locks() -> frozenset[int]:
    """Files that some process has locked, by their inodes.

    The kernel is asked: to try a lock would disturb a writer. Devices are left aside: some file systems show
    another one there than `stat` does.
    """
    try:
        with open("/proc/locks", "rb") as stream:  # noqa: PTH123 - bounded
            data = stream.read(_MOST_LOCKS_BYTES)
    except OSError:
        return frozenset()
    return frozenset(int(inode) for inode in _LOCK.findall(data))
