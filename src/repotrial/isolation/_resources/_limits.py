"""Ceilings that hold without a control group: those of the kernel for each process, and space on disk."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from repotrial._core.errors import ErrorCode, MachineError
from repotrial.isolation._model import ResourceLimits

if TYPE_CHECKING:
    from os import _ScandirIterator as ScandirIterator

_MEGABYTE: Final = 1024**2
_BLOCK_BYTES: Final = 512
_INTERVAL_SECONDS: Final = 0.25
_SHARE: Final = 10
"""Looking may take one part of so many of our time."""
_OWN_PROCESSES: Final = 4
"""Processes inside that are ours and not the agent's."""
_HEADROOM: Final = 64
_HELD_FILES: Final = 512
_FEWEST_FILES: Final = 64
_FEWEST_ENTRIES: Final = 262_144
_FILE_BYTES: Final = 16 * 1024
_PENDING_SIGNALS: Final = 1024
_QUEUE_BYTES: Final = 204_800
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEVELS: Final = 16
"""So many directories are open at a time, one below the other."""
_DEEP_PLACES: Final = 5000
"""So many may be put off for later."""
_DEEP_STEPS: Final = 1_000_000
"""So many directories may be opened once more, on the way to those."""
_ENDLESS_BYTES: Final = 1 << 50
"""More than any disk that runs are conducted on."""


def build_process_limits(limits: ResourceLimits, *, has_process_group: bool) -> list[list[int]]:
    """Pairs of a resource and its ceiling, for every process.

    The number of processes counts threads of one user in one user namespace, so each sandbox has its own
    count (before Linux 5.14: all of that user's).

    Args:
        limits: The ceilings.
        has_process_group: Whether a control group counts processes; since it tells when it refused one, it
            must be the first that does.
    """
    # The kernel compares descriptors on their way with the limit of the sender: one that reaches it must
    # leave enough for those who start sandboxes.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    files = min(limits.open_files, max(_FEWEST_FILES, hard - _HELD_FILES))
    spare = _OWN_PROCESSES + (_HEADROOM if has_process_group else 0)
    ceilings = [
        [resource.RLIMIT_CORE, 0],
        [resource.RLIMIT_FSIZE, limits.file_mb * _MEGABYTE],
        [resource.RLIMIT_NOFILE, files],
        [resource.RLIMIT_NPROC, limits.processes + spare],
    ]
    if _counts_by_namespace():
        ceilings += [[resource.RLIMIT_SIGPENDING, _PENDING_SIGNALS], [resource.RLIMIT_MSGQUEUE, _QUEUE_BYTES]]
    if limits.cpu_seconds is not None:
        # The meter counts all processes together, and says why it ended them; the kernel comes after it.
        ceilings.append([resource.RLIMIT_CPU, limits.cpu_seconds + 1])
    return ceilings


def _counts_by_namespace() -> bool:
    """Whether the kernel counts signals and queues of each user namespace by themselves (Linux 5.14).

    Before, a low limit would hurt those who have queued nothing.
    """
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor.partition("-")[0])) >= (5, 14)


class DiskUse(NamedTuple):
    """What files take."""

    size_bytes: int
    files: int
    """Directories and links too: each takes an inode."""

    def plus(self, size_bytes: int, files: int) -> DiskUse:
        return DiskUse(self.size_bytes + size_bytes, self.files + files)


class DiskWatch:
    """Looks now and then how much space the changes of a workspace take, and how many files they are.

    Args:
        directories: Where changes are: the upper directory of an overlay, or a copied tree; and whatever
            else can be written.
        limit_bytes: How much is allowed beyond what is there now; and one file for each 16 KiB of it.
        interval_seconds: How long at least between two looks.
        measure_nameless: What files without a name take, which no directory shows.
    """

    def __init__(
        self,
        *directories: Path,
        limit_bytes: int,
        interval_seconds: float = _INTERVAL_SECONDS,
        measure_nameless: Callable[[], tuple[int, int]] | None = None,
    ) -> None:
        self._directories = directories
        self._interval_seconds = interval_seconds
        self._measure_nameless = measure_nameless
        self._limit = self._measure().plus(limit_bytes, max(_FEWEST_ENTRIES, limit_bytes // _FILE_BYTES))
        self._next = 0.0

    def is_exceeded(self, *, is_forced: bool = False) -> bool:
        """Whether more is taken; costs nothing when the last look was a moment ago."""
        start = time.monotonic()
        if start < self._next and not is_forced:
            return False
        used = self._measure()
        end = time.monotonic()
        self._next = end + max(self._interval_seconds, (end - start) * _SHARE)
        return used.size_bytes > self._limit.size_bytes or used.files > self._limit.files

    def _measure(self) -> DiskUse:
        used = DiskUse(0, 0)
        for directory in self._directories:
            used = used.plus(*_measure_use(directory))
        return used if self._measure_nameless is None else used.plus(*self._measure_nameless())


DISK_UNMEASURED = ErrorCode(
    "disk-unmeasured",
    MachineError,
    "How much space something takes could not be found out.",
    hint="use fewer --jobs, or have the number of open files raised (`ulimit -n`)",
)


class _EndlessError(Exception):
    """This tree was made so that it cannot be measured."""


def measure_tree(directory: Path) -> int:
    """Space that a tree takes; no link is followed, what cannot be read counts for nothing.

    However deep it is: a program can nest directories deeper than any path can name. One that hides its files
    in very many such places takes all the space there is, for all that we know.

    Raises:
        DISK_UNMEASURED: Too many files are open.
    """
    return _measure_use(directory).size_bytes


def _measure_use(directory: Path) -> DiskUse:
    walk = _Walk(directory)
    try:
        return DiskUse(walk.measure(), walk.entries)
    except _EndlessError:
        return DiskUse(_ENDLESS_BYTES, walk.entries)


class _Walk:
    """One measurement: depth first, a few levels at a time, so that few descriptors are needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pending: list[tuple[str, ...]] = [()]
        self._steps = _DEEP_STEPS
        self._total = 0
        self.entries = 0

    def measure(self) -> int:
        while self._pending:
            place = self._pending.pop()
            self._steps -= len(place)
            if self._steps < 0:
                raise _EndlessError
            descriptor = self._open_place(place)
            if descriptor is not None:
                self._add(descriptor, place, _LEVELS)
        return self._total

    def _open_place(self, place: tuple[str, ...]) -> int | None:
        """Step by step: no path is that long, and no link on the way may be followed."""
        descriptor = _open(os.fspath(self._directory), None)
        for name in place:
            if descriptor is None:
                return None
            above, descriptor = descriptor, _open(name, descriptor)
            os.close(above)
        return descriptor

    def _add(self, descriptor: int, place: tuple[str, ...], levels: int) -> None:
        """Count what is in an open directory, which it closes; what is so many levels below is put off."""
        try:
            for name in self._list(descriptor):
                below = (*place, name)
                if not levels:
                    self._put_off(below)
                elif (inside := _open(name, descriptor)) is not None:
                    self._add(inside, below, levels - 1)
        finally:
            os.close(descriptor)

    def _list(self, descriptor: int) -> list[str]:
        """Count the entries; names of those that are directories."""
        names = []
        # It may be removed while we look; unread it counts for nothing.
        with contextlib.suppress(OSError), _scan(descriptor) as entries:
            for entry in entries:
                self.entries += 1
                with contextlib.suppress(OSError):
                    status = entry.stat(follow_symlinks=False)
                    self._total += status.st_blocks * _BLOCK_BYTES
                    if stat.S_ISDIR(status.st_mode):
                        names.append(entry.name)
        return names

    def _put_off(self, place: tuple[str, ...]) -> None:
        if len(self._pending) >= _DEEP_PLACES:
            raise _EndlessError
        self._pending.append(place)


def _open(name: str, directory: int | None) -> int | None:
    """A directory; None where it is not there any more, or not to be read."""
    try:
        return os.open(name, _DIRECTORY, dir_fd=directory)
    except OSError as error:
        _verify_files(error)
        return None


def _scan(descriptor: int) -> ScandirIterator[str]:
    try:
        return os.scandir(descriptor)
    except OSError as error:
        _verify_files(error)
        raise


def _verify_files(error: OSError) -> None:
    if error.errno in {errno.EMFILE, errno.ENFILE}:
        raise DISK_UNMEASURED.error(f"expected to measure space on disk, found: {error.strerror}") from error
