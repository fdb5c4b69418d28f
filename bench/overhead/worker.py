"""A harness in a process of its own, asked for batches of runs over a pipe."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

__all__ = ["Batch", "Worker", "build_own_argv"]

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_TIMES: Final = slice(11, 15)
"""Of a line of /proc/PID/stat behind the name: own and waited-for children's, user and system."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker says about a batch."""

    seconds: float
    early_rss_kb: int = 0
    last_rss_kb: int = 0


class Batch(msgspec.Struct, frozen=True, kw_only=True):
    """So many runs in a row, as measured."""

    seconds: float
    """By the worker's clock, from the first to the last."""
    cpu_seconds: float
    """Of the worker and all that it started."""
    own_cpu_seconds: float
    early_rss_kb: int
    last_rss_kb: int


class Worker:
    """One harness, until it is closed; a line with a number is answered with a line about so many runs."""

    def __init__(self, argv: Sequence[str], *, variables: Mapping[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=None if variables is None else variables
        )
        self._ask(5)  # imports, prepared trees, caches

    def measure(self, runs: int) -> Batch:
        own, every = _read_times(self._process.pid)
        answer = self._ask(runs)
        own_after, every_after = _read_times(self._process.pid)
        return Batch(
            seconds=answer.seconds,
            cpu_seconds=every_after - every,
            own_cpu_seconds=own_after - own,
            early_rss_kb=answer.early_rss_kb,
            last_rss_kb=answer.last_rss_kb,
        )

    def _ask(self, runs: int) -> Answer:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(b"%d\n" % runs)
        stdin.flush()
        return msgspec.json.decode(stdout.readline(), type=Answer)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()


def build_own_argv(place: Path, *, jobs: int) -> list[str]:
    return [sys.executable, "-m", "bench.overhead.ours", str(place), str(jobs)]


def _read_times(pid: int) -> tuple[float, float]:
    """Processor time of a process itself; and with everything it started, alive or waited for."""
    own, waited = _read_own_times(pid)
    below = 0.0
    for child in _list_children(pid):
        with contextlib.suppress(OSError):  # it has just ended, and counts above
            below += _read_times(child)[1]
    return own, own + waited + below


def _read_own_times(pid: int) -> tuple[float, float]:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    user, system, child_user, child_system = (int(text) / _TICKS for text in fields[_TIMES])
    return user + system, child_user + child_system


def _list_children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            found += [int(child) for child in (task / "children").read_text(encoding="utf-8").split()]
    return found
