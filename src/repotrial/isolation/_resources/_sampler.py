"""Looking at a sandbox at a steady rate: what it uses, as a series, while commands run in it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

import msgspec

from repotrial.isolation._model import CpuMeter, MemoryLimit
from repotrial.isolation._resources._limits import measure_tree
from repotrial.isolation._resources._meters import Meter

_DISK_SHARE: Final = 10
"""Measuring the tree may take one part of so many of our time."""


class SamplingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """At what rate samples are taken, and by what; stands beside them in the record."""

    interval_ms: int
    """The time between two samples; a busy machine may take them later, never sooner."""
    cpu_meter: CpuMeter
    """By what processor time is measured."""
    memory_meter: MemoryLimit
    """By what memory is measured."""
    with_disk: bool
    """Whether space on disk is measured."""


class ResourceSample(NamedTuple):
    """What a sandbox used at one instant."""

    t_us: int
    """Since sampling began."""
    cpu_us: int
    """Of everything since the sandbox was opened; where it is sampled, of ended commands and the living."""
    memory_bytes: int
    processes: int
    disk_bytes: int | None
    """What the changed files take; null between two measurements, which are rarer in large trees."""


class Sampler:
    """Samples until it is closed, in a thread of its own.

    Args:
        meter: Of the sandbox.
        take: Is given each sample, in that thread; what it raises ends sampling and is raised by `close`.
        interval_ms: The time between two samples.
        directory: Where changes of the workspace are; None: space on disk is not measured.
        is_immediate: Whether the first is taken at once, so that even the shortest life leaves a trace; else
            after the first interval, so that a short one costs nothing.
    """

    def __init__(
        self,
        meter: Meter,
        take: Callable[[ResourceSample], None],
        *,
        interval_ms: int,
        directory: Path | None = None,
        is_immediate: bool = True,
    ) -> None:
        self._is_immediate = is_immediate
        self._meter = meter
        self._take = take
        self._directory = directory
        self._disk_due = 0.0
        cpu, memory = meter.counted("cpu"), meter.counted("memory")
        self.plan = SamplingPlan(
            interval_ms=interval_ms,
            cpu_meter=(cpu and cpu.version("cpu")) or "sampled",
            memory_meter=(memory and memory.version("memory")) or "polled",
            with_disk=directory is not None,
        )
        self._failure: BaseException | None = None
        self._stop = threading.Event()
        self._start = time.monotonic_ns()
        self._thread = threading.Thread(target=self._run, name="repotrial-sampler", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop; returns after the last sample was taken. Idempotent."""
        self._stop.set()
        self._thread.join()

    def close(self) -> None:
        """Stop as `end` does, and raise what went wrong. Idempotent."""
        self.end()
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        interval = self.plan.interval_ms / 1000
        try:
            if self._is_immediate:
                self._take(self._load())
            while not self._stop.wait(interval):
                self._take(self._load())
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits for it
            self._failure = error

    def _load(self) -> ResourceSample:
        table = self._meter.table
        rows = [row for row in table.list_processes().values() if row.is_alive]
        cpu, memory = self._meter.counted("cpu"), self._meter.counted("memory")
        return ResourceSample(
            t_us=(time.monotonic_ns() - self._start) // 1000,
            cpu_us=cpu.load_cpu_us() if cpu else self._meter.load_spent_us(),
            memory_bytes=memory.load_memory_bytes() if memory else sum(map(table.load_share_bytes, rows)),
            processes=len(rows),
            disk_bytes=self._measure_disk(),
        )

    def _measure_disk(self) -> int | None:
        start = time.monotonic()
        if self._directory is None or start < self._disk_due:
            return None
        used = measure_tree(self._directory)
        end = time.monotonic()
        self._disk_due = end + (end - start) * _DISK_SHARE
        return used
