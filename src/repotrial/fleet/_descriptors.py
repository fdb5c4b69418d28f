"""Open files: a harness with many runs at a time needs more of them than most systems allow at first."""

from __future__ import annotations

import resource
from typing import Final

from repotrial._core.errors import ErrorCode, MachineError

_OWN: Final = 256
_EACH_RUN: Final = 64
"""Pipes, sockets, control groups, its trace: up to 20 were seen at once; twice 18 to measure its files."""


OPEN_FILES = ErrorCode(
    "open-files",
    MachineError,
    "This user may not open as many files as so many runs at a time need.",
    hint="use fewer --jobs, or have the hard limit raised (`ulimit -Hn`)",
)


def allow_open_files(jobs: int) -> None:
    """Raise this process's own ceiling where it is too low; programs in sandboxes have their own.

    Raises:
        OPEN_FILES: the system does not allow it.
    """
    needed = _OWN + _EACH_RUN * jobs
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise OPEN_FILES.error(
            f"expected {needed} open files to be allowed for {jobs} runs at a time, found {hard}"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
