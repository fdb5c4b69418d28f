"""The processes of one sandbox, seen through its own /proc: listed, measured, killed.

The directory was opened inside and handed out, so only this sandbox's processes are in it, and a process
that is opened through it cannot become another one with the same number.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import signal
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

_INIT: Final = 1
_PAGE_BYTES: Final = os.sysconf("SC_PAGE_SIZE")
_TICK_US: Final = 1_000_000 // os.sysconf("SC_CLK_TCK")
_STAT_BYTES: Final = 4096
_BLOCK_BYTES: Final = 512
_DELETED: Final = " (deleted)"
_SHARE: Final = re.compile(rb"^Pss: +(\d+) kB", re.MULTILINE)
_DEAD: Final = frozenset("ZX")
_SCHED_IDLE: Final = 5
_LAST: Final = 20


class ProcessRow(NamedTuple):
    """One process at one instant; numbers as they are inside."""

    pid: int
    parent: int
    state: str
    cpu_us: int
    """Of its own threads; not of children."""
    threads: int
    started_ticks: int
    resident_bytes: int
    """Shared pages count for each process that has them."""
    nice: int = 0
    """How far behind others it stands, up to 19; 20 where it runs only when nothing else does."""

    @property
    def is_alive(self) -> bool:
        """A process whose first thread has ended looks dead, and its other threads go on."""
        return self.state not in _DEAD or self.threads > 1


class ProcessTable:
    """What runs in one sandbox.

    Args:
        directory: A descriptor of the sandbox's /proc; owned from here on.
    """

    def __init__(self, directory: int) -> None:
        self._directory = directory

    def close(self) -> None:
        os.close(self._directory)

    def list_processes(self) -> dict[int, ProcessRow]:
        """Everything but PID 1, by number."""
        rows: dict[int, ProcessRow] = {}
        for name in os.listdir(self._directory):  # noqa: PTH208 - a descriptor has no path
            if name.isdecimal() and int(name) != _INIT:
                # It may end while we look.
                with contextlib.suppress(OSError):
                    rows[int(name)] = self._load_row(name)
        return rows

    def send_signal(self, pids: Iterable[int], number: signal.Signals) -> None:
        for pid in pids:
            # It may have ended meanwhile.
            with contextlib.suppress(OSError):
                handle = os.open(str(pid), os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._directory)
                try:
                    if self._is_ours(pid, handle):
                        signal.pidfd_send_signal(handle, number)
                finally:
                    os.close(handle)

    def _is_ours(self, _pid: int, _handle: int) -> bool:
        """Whether what was opened may be signaled; in a sandbox's own /proc everything may."""
        return True

    def prefer_as_victim(self, pid: int) -> None:
        """Let the kernel take this process and its children first when memory runs out, not our own."""
        with contextlib.suppress(OSError):
            handle = os.open(f"{pid}/oom_score_adj", os.O_WRONLY, dir_fd=self._directory)
            try:
                os.write(handle, b"500")
            finally:
                os.close(handle)

    def measure_nameless(self, places: Sequence[str]) -> tuple[int, int]:
        """Bytes and number of open files that no directory shows any more.

        Args:
            places: Directories inside, below which files without a name count.
        """
        found: dict[tuple[int, int], int] = {}
        for name in os.listdir(self._directory):  # noqa: PTH208 - a descriptor has no path
            # It may end while we look.
            if name.isdecimal():
                with contextlib.suppress(OSError):
                    found |= self._list_nameless(f"{name}/fd", tuple(f"{place}/" for place in places))
        return sum(found.values()), len(found)

    def _list_nameless(self, path: str, starts: tuple[str, ...]) -> dict[tuple[int, int], int]:
        found: dict[tuple[int, int], int] = {}
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._directory)
        try:
            for name in os.listdir(directory):  # noqa: PTH208 - a descriptor has no path
                # It may be closed while we look.
                with contextlib.suppress(OSError):
                    target = os.readlink(name, dir_fd=directory)
                    if target.startswith(starts) and target.endswith(_DELETED):
                        status = os.stat(name, dir_fd=directory)
                        found[status.st_dev, status.st_ino] = status.st_blocks * _BLOCK_BYTES
        finally:
            os.close(directory)
        return found

    def load_share_bytes(self, row: ProcessRow) -> int:
        """A process's memory, pages that it shares divided among those who share them."""
        try:
            handle = os.open(f"{row.pid}/smaps_rollup", os.O_RDONLY, dir_fd=self._directory)
            try:
                text = os.read(handle, _STAT_BYTES)
            finally:
                os.close(handle)
        except OSError:
            return row.resident_bytes
        found = _SHARE.search(text)
        return row.resident_bytes if found is None else int(found[1]) * 1024

    def load_waits_us(self, row: ProcessRow) -> dict[tuple[int, int], int]:
        """How long each thread of a process has waited for a processor so far; empty if that is not told."""
        waits: dict[tuple[int, int], int] = {}
        # It may end while we look.
        with contextlib.suppress(OSError):
            handle = os.open(f"{row.pid}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._directory)
            try:
                for thread in os.listdir(handle):  # noqa: PTH208 - a descriptor has no path
                    text = _read_start(f"{thread}/schedstat", handle)
                    waits[row.pid, int(thread)] = int(text.split()[1]) // 1000
            finally:
                os.close(handle)
        return waits

    def _load_row(self, name: str) -> ProcessRow:
        row = load_row(f"{name}/stat", self._directory)
        if row.state in _DEAD and row.is_alive:
            return row._replace(resident_bytes=self._load_threads_bytes(name))
        return row

    def _load_threads_bytes(self, name: str) -> int:
        """Memory that belongs to the threads, where the first one has let go of it."""
        found = 0
        handle = os.open(f"{name}/task", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self._directory)
        try:
            for thread in os.listdir(handle):  # noqa: PTH208 - a descriptor has no path
                # It may end while we look.
                with contextlib.suppress(OSError):
                    found = max(found, load_row(f"{thread}/stat", handle).resident_bytes)
        finally:
            os.close(handle)
        return found


class TreeKiller:
    """Kills everything below the parent of a command, round by round.

    What is met for the first time is stopped; once nothing new appears, all are killed. What is stopped
    cannot fork, and still takes up room under the ceiling of processes, so even a fork bomb comes to rest.
    A list of processes is never complete at one instant: that none is left, only that parent can tell.
    """

    def __init__(self, table: ProcessTable, parent: int) -> None:
        self._table = table
        self._parent = parent
        self._met: set[tuple[int, int]] = set()

    def strike(self) -> None:
        """One round."""
        rows = find_descendants(self._table.list_processes(), self._parent)
        alive = {(row.pid, row.started_ticks) for row in rows if row.is_alive}
        fresh = alive - self._met
        self._met |= fresh
        if fresh:
            self._table.send_signal((pid for pid, _ in fresh), signal.SIGSTOP)
        else:
            self._table.send_signal((pid for pid, _ in alive), signal.SIGKILL)
        # A program inside may have stopped it, to hide the end.
        self._table.send_signal([self._parent], signal.SIGCONT)


def load_row(path: str, directory: int) -> ProcessRow:
    """One process, from its `stat` file below an open directory.

    Raises:
        OSError: It has ended.
    """
    return _parse_stat(_read_start(path, directory))


def _read_start(path: str, directory: int) -> bytes:
    handle = os.open(path, os.O_RDONLY, dir_fd=directory)
    try:
        return os.read(handle, _STAT_BYTES)
    finally:
        os.close(handle)


def _parse_stat(line: bytes) -> ProcessRow:
    """One line of proc(5); a program chooses its own name, which may contain anything but its end."""
    number, _, rest = line.partition(b" (")
    fields = rest.rpartition(b") ")[2].split()
    return ProcessRow(
        pid=int(number),
        state=fields[0].decode("ascii"),
        parent=int(fields[1]),
        cpu_us=(int(fields[11]) + int(fields[12])) * _TICK_US,
        threads=int(fields[17]),
        started_ticks=int(fields[19]),
        resident_bytes=int(fields[21]) * _PAGE_BYTES,
        nice=_LAST if int(fields[38]) == _SCHED_IDLE else int(fields[16]),
    )


def find_descendants(rows: Mapping[int, ProcessRow], ancestor: int) -> list[ProcessRow]:
    """Everything below a process, in one snapshot."""
    children: dict[int, list[ProcessRow]] = {}
    for row in rows.values():
        children.setdefault(row.parent, []).append(row)
    found: list[ProcessRow] = []
    pending = [ancestor]
    while pending:
        below = children.get(pending.pop(), [])
        found += below
        pending += [row.pid for row in below]
    return found


def wait_for_end(pidfd: int, *, seconds: float) -> bool:
    """Whether a process ends in time."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(seconds * 1000))
