"""What a dead harness could leave behind: processes, control groups and mounts."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from repotrial.isolation._label import parse_label
from repotrial.isolation._resources._cgroups import find_cgroup_site
from support.waiting import wait_until

__all__ = ["await_only", "count_mounts", "foster_orphans", "list_descendants", "list_own_groups"]

_PR_SET_CHILD_SUBREAPER: Final = 36


@contextlib.contextmanager
def foster_orphans() -> Iterator[None]:
    """Orphans of what this process starts become its children, where they can be counted."""
    libc = ctypes.CDLL(None)
    assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    try:
        yield
    finally:
        assert libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0) == 0


def list_descendants(ancestor: int) -> list[int]:
    """Processes below one, by what each says of its parent."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with contextlib.suppress(OSError):
                fields = (entry / "stat").read_bytes().rpartition(b") ")[2].split()
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: list[int] = []
    pending = [ancestor]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += below
    return found


def await_only(known: set[int]) -> list[int]:
    """Bury what is dead until nothing unknown is left below this process; what is left after a while."""
    left: list[int] = []

    def is_quiet() -> bool:
        left[:] = [pid for pid in list_descendants(os.getpid()) if pid not in known]
        for pid in left:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return not left

    wait_until(is_quiet)
    return left


def list_own_groups(*makers: int) -> list[Path]:
    """Control groups that harnesses made; those of others, in tests at the same time, come and go."""
    found = []
    for home in find_cgroup_site().directories:
        for path in home.glob("repotrial-*"):
            label = parse_label(path.name)
            if label is not None and label.pid in makers:
                found.append(path)
    return found


def count_mounts(*words: str) -> int:
    """Mounts of the host that have to do with us: others may mount what they like meanwhile."""
    lines = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return sum(any(word in line for word in words) for line in lines)
