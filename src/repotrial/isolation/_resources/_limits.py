"""Ceilings that hold without a control group: those of the kernel for each process, and space on disk."""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import stat
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

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
    spare = _OWN_PROCESSES + (_HEADROOM if has_process_group else 0)
    ceilings = [
        [resource.RLIMIT_CORE, 0],
        [resource.RLIMIT_FSIZE, limits.file_mb * _MEGABYTE],
        [resource.RLIMIT_NOFILE, limits.open_files],
        [resource.RLIMIT_NPROC, limits.processes + spare],
    ]
    if limits.cpu_seconds is not None:
        # The meter counts all processes together, and says why it ended them; the kernel comes after it.
        ceilings.append([resource.RLIMIT_CPU, limits.cpu_seconds + 1])
    return ceilings


class DiskWatch:
    """Looks now and then how much space the changes of a workspace take.

    Args:
        directories: Where changes are: the upper directory of an overlay, or a copied tree; and whatever
            else can be written.
        limit_bytes: How much is allowed beyond what is there now.
        interval_seconds: How long at least between two looks.
    """

    def __init__(
        self, *directories: Path, limit_bytes: int, interval_seconds: float = _INTERVAL_SECONDS
    ) -> None:
        self._directories = directories
        self._interval_seconds = interval_seconds
        self._limit_bytes = self._measure() + limit_bytes
        self._next = 0.0

    def is_exceeded(self, *, is_forced: bool = False) -> bool:
        """Whether more is taken; costs nothing when the last look was a moment ago."""
        start = time.monotonic()
        if start < self._next and not is_forced:
            return False
        used = self._measure()
        end = time.monotonic()
        self._next = end + max(self._interval_seconds, (end - start) * _SHARE)
        return used > self._limit_bytes

    def _measure(self) -> int:
        return sum(map(measure_tree, self._directories))


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
    walk = _Walk(directory)
    try:
        return walk.measure()
    except _EndlessError:
        return _ENDLESS_BYTES


class _Walk:
    """One measurement: depth first, a few levels at a time, so that few descriptors are needed."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._pending: list[tuple[str, ...]] = [()]
        self._steps = _DEEP_STEPS
        self._total = 0

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
