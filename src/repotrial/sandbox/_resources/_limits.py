"""Ceilings that hold without a control group: those of the kernel for each process, and space on disk."""

from __future__ import annotations

import os
import resource
import stat
import time
from pathlib import Path
from typing import Final

from repotrial.sandbox._model import ResourceLimits

__all__ = ["DiskWatch", "build_process_limits", "measure_tree"]

_MEGABYTE: Final = 1024**2
_BLOCK_BYTES: Final = 512
_INTERVAL_SECONDS: Final = 0.25
_SHARE: Final = 10
"""Looking may take one part of so many of our time."""
_OWN_PROCESSES: Final = 4
"""Processes inside that are ours and not the agent's."""
_HEADROOM: Final = 64
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_LEVELS: Final = 100
_DEEP_PLACES: Final = 200
"""So many may be put off for later, each with a descriptor."""
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


class _EndlessError(Exception):
    """Whoever made this tree does not want it to be measured."""


def measure_tree(directory: Path) -> int:
    """Space that a tree takes; no link is followed, what cannot be read counts for nothing.

    However deep it is: a program can nest directories deeper than any path can name. One that hides its files
    in very many such places takes all the space there is, for all that we know.
    """
    total = 0
    deep: list[int] = []
    try:
        deep.append(os.open(directory, _DIRECTORY))
        while deep:
            total += _measure(deep.pop(), _LEVELS, deep)
    except OSError:  # it is not there
        return total
    except _EndlessError:
        return _ENDLESS_BYTES
    else:
        return total
    finally:
        for descriptor in deep:
            os.close(descriptor)


def _measure(directory: int, levels: int, deep: list[int]) -> int:
    """The same for an open directory, which it closes; what is so many levels below is put off."""
    total = 0
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                used, below = _look(entry, directory)
                total += used
                if below is None:
                    continue
                if levels:
                    total += _measure(below, levels - 1, deep)
                    continue
                deep.append(below)
                if len(deep) > _DEEP_PLACES:
                    raise _EndlessError
    except OSError:
        return total
    finally:
        os.close(directory)
    return total


def _look(entry: os.DirEntry[str], directory: int) -> tuple[int, int | None]:
    """What an entry takes, and a descriptor of it where it is a directory that can be read."""
    try:
        status = entry.stat(follow_symlinks=False)
    except OSError:
        return 0, None
    used = status.st_blocks * _BLOCK_BYTES
    if not stat.S_ISDIR(status.st_mode):
        return used, None
    try:
        return used, os.open(entry.name, _DIRECTORY, dir_fd=directory)
    except OSError:
        return used, None
