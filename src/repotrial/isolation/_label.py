"""Names for what outlives a crash, so that the next start can tell whose it was."""

from __future__ import annotations

import itertools
import os
import re
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

_PATTERN: Final = re.compile(r"repotrial-([0-9a-f]{8})-(\d+)-(\d+)-(\d+)-(\d+)")
_counter: Final = itertools.count()


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """Which harness made a thing. A process is known by its number and when it started, within one boot and
    one PID namespace.
    """

    boot: str
    namespace: int
    pid: int
    started_ticks: int

    @property
    def is_foreign(self) -> bool:
        """Whether it is from elsewhere, so that nothing can be said about its maker."""
        return self.namespace != _load_namespace()

    @property
    def is_abandoned(self) -> bool:
        """Whether its maker has certainly ended."""
        if self.boot != _load_boot():
            return True
        return not self.is_foreign and _load_start_ticks(self.pid) != self.started_ticks


def build_label() -> str:
    """A name that no other thing has, and that says who made it."""
    pid = os.getpid()
    return f"repotrial-{_load_boot()}-{_load_namespace()}-{pid}-{_load_own_ticks(pid)}-{next(_counter)}"


def parse_label(name: str) -> Label | None:
    """Who made the thing with this name; None for names that are not ours."""
    found = _PATTERN.fullmatch(name)
    if found is None:
        return None
    boot, namespace, pid, ticks, _ = found.groups()
    return Label(boot=boot, namespace=int(namespace), pid=int(pid), started_ticks=int(ticks))


@cache
def _load_own_ticks(pid: int) -> int | None:
    """Of this process, for as long as it is this one."""
    return _load_start_ticks(pid)


@cache
def _load_boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text("ascii")[:8]


@cache
def _load_namespace() -> int:
    return Path("/proc/self/ns/pid").stat().st_ino


def _load_start_ticks(pid: int) -> int | None:
    try:
        line = Path("/proc", str(pid), "stat").read_bytes()
    except OSError:
        return None
    return int(line.rpartition(b") ")[2].split()[19])
