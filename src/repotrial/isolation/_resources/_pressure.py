"""What a sandbox gets of the processors while one command runs in it, beside what else runs on the machine.

The kernel counts for a group how long everything in it stood still for want of a processor. Without such a
group the threads are looked at now and then, and what all others used stands beside it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Final

from repotrial._core.pressure import ProcessorPressure
from repotrial.isolation._launch_server._processes import ProcessTable
from repotrial.isolation._resources._cgroups import Cgroup

_LOOK_SECONDS: Final = 0.5
"""Between two looks at the threads: one costs some microseconds for each of them."""
_TICK_US: Final = 1_000_000 // os.sysconf("SC_CLK_TCK")
_IDLE_FIELDS: Final = (3, 4)
"""Of the first line of /proc/stat: idle, and waiting for a disk."""
_BUSY_FIELDS: Final = 8
"""What follows is told twice: guests are part of user time."""


class _RunningSandboxes:
    """Sandboxes of this harness in which a command runs now."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._commands: Counter[int] = Counter()

    @property
    def count(self) -> int:
        return len(self._commands)

    def add(self, sandbox: int) -> None:
        with self._lock:
            self._commands[sandbox] += 1

    def remove(self, sandbox: int) -> None:
        with self._lock:
            self._commands[sandbox] -= 1
            self._commands += Counter()  # without those that run none any more


_running: Final = _RunningSandboxes()


class PressureWatch:
    """Watches while one command runs.

    Args:
        table: The sandbox's processes.
        group: Its control group, where that tells of pressure.
    """

    def __init__(self, table: ProcessTable, group: Cgroup | None) -> None:
        self._table = table
        self._stalled_us = None if group is None else group.load_starved_us()
        self._group = None if self._stalled_us is None else group
        self._start = time.monotonic_ns()
        self._busy_us = _load_busy_us()
        self._looked_at = 0.0
        self._waits: dict[tuple[int, int], int] = {}
        self._waited_us: int | None = None
        self._is_yielding = False
        self._nice = os.getpriority(os.PRIO_PROCESS, 0)  # programs inside begin with that
        _running.add(id(table))
        self._sandboxes = _running.count

    def look(self) -> None:
        """See how things stand, if that is due."""
        now = time.monotonic()
        if now - self._looked_at < _LOOK_SECONDS:
            return
        self._looked_at = now
        self._sandboxes = max(self._sandboxes, _running.count)
        # Those whose parent is outside are our own: parents of commands.
        rows = [row for row in self._table.list_processes().values() if row.parent]
        self._is_yielding = self._is_yielding or any(row.nice > self._nice for row in rows)
        if self._group is not None:
            return
        waits: dict[tuple[int, int], int] = {}
        for row in rows:
            waits |= self._table.load_waits_us(row)
        if self._waited_us is None:  # what they waited before belongs to other commands
            self._waited_us = 0
        else:
            self._waited_us += sum(max(0, us - self._waits.get(key, 0)) for key, us in waits.items())
        self._waits = waits

    def finish(self, own_us: int | None) -> ProcessorPressure | None:
        """What was seen; None if it is not known what the sandbox itself used."""
        _running.remove(id(self._table))
        if own_us is None:
            return None
        stalled_us = None if self._group is None else self._group.load_starved_us()
        if stalled_us is not None and self._stalled_us is not None:
            stalled_us -= self._stalled_us
        return ProcessorPressure(
            wall_us=(time.monotonic_ns() - self._start) // 1000,
            processors=os.cpu_count() or 1,
            sandboxes=self._sandboxes,
            own_us=own_us,
            others_us=max(0, _load_busy_us() - self._busy_us - own_us),
            stalled_us=stalled_us,
            waited_us=self._waited_us,
            is_yielding=self._is_yielding,
        )


def _load_busy_us() -> int:
    """What all processors together have worked so far."""
    with Path("/proc/stat").open("rb") as stream:
        ticks = [int(field) for field in stream.readline().split()[1 : 1 + _BUSY_FIELDS]]
    return (sum(ticks) - sum(ticks[place] for place in _IDLE_FIELDS)) * _TICK_US
