"""What a command uses, and whether it is too much: measured by a control group, or by looking.

A control group counts in the kernel and misses nothing. What it does not count is found by looking at the
processes of the sandbox every 20 ms: then processor time of short lives is known only if a parent waited
for them, and memory can be over its ceiling until the next look. Every `ResourceUsage` says which it was.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from repotrial._core.closing import Closing
from repotrial.isolation._launch_server._processes import ProcessRow, ProcessTable
from repotrial.isolation._model import CpuMeter, MemoryLimit, ResourceLimits, ResourceUsage
from repotrial.isolation._resources._cgroups import Cgroup, Duty
from repotrial.isolation._resources._limits import measure_tree
from repotrial.isolation._resources._pressure import PressureWatch

_Excess: TypeAlias = Literal["cpu", "memory", "processes"]
"""Which ceiling was reached."""

_MEGABYTE: Final = 1024**2
_SECOND_US: Final = 1_000_000
_COUNTED_SECONDS: Final = 0.1
_SAMPLED_SECONDS: Final = 0.02
_DUTIES: Final[frozenset[Duty]] = frozenset({"cpu", "memory", "pids"})


class ResourceMeter:
    """Measures one sandbox.

    Args:
        table: Its processes.
        limits: Its ceilings.
        group: Its control group, if it has one; it may count some things and others not.
    """

    def __init__(self, table: ProcessTable, limits: ResourceLimits, group: Cgroup | None) -> None:
        self.table = table
        self.limits = limits
        self.group = group
        counted = frozenset() if group is None else frozenset(group.directories)
        self.is_sampled = not counted >= _DUTIES
        self.interval_seconds = _SAMPLED_SECONDS if self.is_sampled else _COUNTED_SECONDS
        """How often a command's meter wants to be asked."""
        self._lock = threading.Lock()
        self._seen_us: dict[tuple[int, int], int] = {}
        self._sampled_us = 0
        self._unseen_us = 0

    @property
    def spent_us(self) -> int:
        """By everything so far, where it is known by looking alone."""
        return self._sampled_us + self._unseen_us

    def counted(self, duty: Duty) -> Cgroup | None:
        """The group, where it counts this."""
        return self.group if self.group is not None and duty in self.group.directories else None

    def look(self) -> list[ProcessRow]:
        """What runs now; what it used since the last look counts once, whichever thread looks."""
        with self._lock:
            # Those whose parent is outside are our own: parents of commands.
            rows = [row for row in self.table.list_processes().values() if row.parent]
            now_us = {_identify(row): row.cpu_us for row in rows}
            self._sampled_us += sum(
                max(0, cpu_us - self._seen_us.get(key, 0)) for key, cpu_us in now_us.items()
            )
            self._seen_us = now_us
        return rows

    def load_spent_us(self) -> int:
        """The same after another look."""
        self.look()
        return self.spent_us

    def add_unseen(self, cpu_us: int) -> None:
        """Count what was used between looks, as the kernel told afterwards."""
        with self._lock:
            self._unseen_us += cpu_us

    def begin(self) -> CommandMeter:
        if group := self.counted("memory"):
            group.forget_peak()
        return CommandMeter(self)


class CommandMeter:
    """Watches while one command runs. Commands that run at the same time share what is measured."""

    def __init__(self, meter: ResourceMeter) -> None:
        self._meter = meter
        self._start = time.monotonic_ns()
        self._cpu_us = cpu.load_cpu_us() if (cpu := meter.counted("cpu")) else 0
        self._kills = memory.count_memory_kills() if (memory := meter.counted("memory")) else 0
        self._refusals = pids.count_refused_forks() if (pids := meter.counted("pids")) else 0
        self._sample = _Sample(meter) if meter.is_sampled else None
        self._pressure = PressureWatch(meter.table, meter.counted("pressure"))

    def find_excess(self) -> _Excess | None:
        """Whether a ceiling is reached now."""
        if self._sample is not None:
            self._sample.look()
        self._pressure.look()
        if self._has_refused_forks():
            return "processes"
        if self._has_memory_kills():
            return "memory"
        if (
            not self._meter.counted("memory")
            and self._sample is not None
            and self._sample.is_memory_exceeded()
        ):
            return "memory"
        ceiling = self._meter.limits.cpu_seconds
        if ceiling is not None and self._load_total_cpu_us() > ceiling * _SECOND_US:
            return "cpu"
        return None

    def explain_end(self, waited_cpu_us: int, *, has_failed: bool) -> _Excess | None:
        """For a program that ended by itself: whether a ceiling had a part in it.

        Args:
            waited_cpu_us: What the kernel charged to processes that were waited for.
            has_failed: Whether it ended otherwise than well.
        """
        if self._sample is not None:
            # If it failed for want of processes, it was one of them itself.
            self._sample.look(missing=1 if has_failed else 0)
        if self._has_memory_kills():
            return "memory"
        if self._has_refused_forks():
            return "processes"
        ceiling = self._meter.limits.cpu_seconds
        # The kernel ends a single process soon after the ceiling by itself, maybe before we look.
        is_spent = ceiling is not None and self._load_total_cpu_us(waited_cpu_us) > ceiling * _SECOND_US
        return "cpu" if has_failed and is_spent else None

    def finish(self, waited_cpu_us: int) -> ResourceUsage:
        """What was used.

        Args:
            waited_cpu_us: What the kernel charged to processes that were waited for.
        """
        cpu, memory = self._meter.counted("cpu"), self._meter.counted("memory")
        cpu_us = cpu.load_cpu_us() - self._cpu_us if cpu else self._count_unseen(waited_cpu_us)
        sampled_peak = None if self._sample is None else self._sample.peak_bytes
        return ResourceUsage(
            wall_us=(time.monotonic_ns() - self._start) // 1000,
            cpu_us=cpu_us,
            peak_memory_bytes=memory.load_peak_bytes() if memory else sampled_peak,
            cpu_meter=(cpu and cpu.version("cpu")) or "sampled",
            memory_meter=(memory and memory.version("memory")) or "polled",
            pressure=self._pressure.finish(cpu_us),
        )

    def _has_memory_kills(self) -> bool:
        """The kernel may take one process of many; the ceiling was reached all the same."""
        group = self._meter.counted("memory")
        return group is not None and group.count_memory_kills() > self._kills

    def _has_refused_forks(self) -> bool:
        group = self._meter.counted("pids")
        if group is not None:
            return group.count_refused_forks() > self._refusals
        return self._sample is not None and self._sample.was_full

    def _load_total_cpu_us(self, waited_cpu_us: int = 0) -> int:
        group = self._meter.counted("cpu")
        if group is not None:
            return group.load_cpu_us()
        sampled_us = 0 if self._sample is None else self._sample.cpu_us
        return self._meter.spent_us + max(0, waited_cpu_us - sampled_us)

    def _count_unseen(self, waited_cpu_us: int) -> int:
        """What the command used, seen or told afterwards; the meter knows of it from now on."""
        sampled_us = 0 if self._sample is None else self._sample.cpu_us
        self._meter.add_unseen(max(0, waited_cpu_us - sampled_us))
        return max(sampled_us, waited_cpu_us)


class _Sample:
    """What was seen by looking, since the command began."""

    def __init__(self, meter: ResourceMeter) -> None:
        self._meter = meter
        self._rows = meter.look()
        self._before_us = meter.spent_us
        self.peak_bytes: int | None = None
        """Pages that processes share count for each of them; None until a process was seen."""
        self.was_full = False

    def look(self, *, missing: int = 0) -> None:
        self._rows = self._meter.look()
        count = sum(row.threads for row in self._rows) + missing
        self.was_full = self.was_full or count >= self._meter.limits.processes
        if self._rows:
            self.peak_bytes = max(self.peak_bytes or 0, self._sum_bytes())

    @property
    def cpu_us(self) -> int:
        return self._meter.spent_us - self._before_us

    def is_memory_exceeded(self) -> bool:
        limit = self._meter.limits.memory_mb * _MEGABYTE
        # Sharing is taken into account only when it may matter: that is slow.
        share = self._meter.table.load_share_bytes
        return self._sum_bytes() > limit and sum(map(share, self._rows)) > limit

    def _sum_bytes(self) -> int:
        return sum(row.resident_bytes for row in self._rows)


def _identify(row: ProcessRow) -> tuple[int, int]:
    return row.pid, row.started_ticks


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
    """What the changed files take; None between two measurements, which are rarer in large trees."""


class Sampler(Closing):
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
        meter: ResourceMeter,
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
