"""The witness: every program that starts and ends under one filter.

A program that is asked for is held for the moment in which its process gets a number (ADR 0028). That it
started is seen at the first call that every C library makes, before any handler of signals can exist; that it
ended, by a handle of its process. Nothing is held at its end.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
from typing import Final, Literal, NamedTuple, TypeAlias

from repotrial.syscalls._copies import CopyFinder
from repotrial.syscalls._decode import Listener, Notification, ProcessMemory
from repotrial.syscalls._ledger import HARNESS, Image, Process, ProgramLedger, StartTry
from repotrial.syscalls._processes import (
    Numbers,
    ProcessLine,
    can_count_cpu,
    can_read_exits,
    has_ended,
    is_file_missing,
    load_image,
    load_line,
    open_counter,
    open_process,
    read_counter,
    read_cpu_ns,
    read_exit_status,
    read_stamp,
)
from repotrial.syscalls._records import EndRecord, StartRecord

ProgramRecord: TypeAlias = StartRecord | EndRecord

SWEEP_SECONDS: Final = 0.02
_ENOUGH_HANDLES: Final = 1 << 16
_ZOMBIE: Final = "Z"
_NONE: Final = -1


class WitnessFacts(NamedTuple):
    """What one witness sees, and what it counted."""

    exit_statuses: bool
    """Whether the kernel tells how a program ended that its parent has waited for."""
    cpu: Literal["counter", "sample"]
    parents: Literal["number", "process"]
    """`process`: by the process that is the parent at the start; orphans lose theirs."""
    next_number: int = 1
    """Of the next program that is asked for."""
    started: int = 0
    ended: int = 0
    failed_tries: int = 0
    unconfirmed: int = 0
    unknown_exits: int = 0
    withdrawn: int = 0
    """Held calls whose caller was gone before the answer: killed, or told EINTR."""
    unread: int = 0
    """Tries that could not be followed: the process was gone, or the harness had no handle left."""


class ProgramWitness:
    """Follows the processes of one sandbox, in the supervisor's thread.

    Args:
        listener: Of the filter.
        events: Tells of handles that are ready; shared with the supervisor.
        has_commands: See `ProgramLedger`.
    """

    def __init__(self, listener: Listener, events: select.epoll, *, has_commands: bool) -> None:
        self.ledger = ProgramLedger(has_commands=has_commands)
        self._listener = listener
        self._events = events
        self._numbers: Numbers | None = Numbers()
        self._handles: dict[int, Process] = {}
        self._handle_of: dict[int, int] = {}
        self._counters: dict[int, int] = {}
        self._has_counters = can_count_cpu()
        self._root: int | None = None
        """The root of the sandbox, which is that of every process in it."""
        self._copies = CopyFinder()
        self._unread = 0
        _raise_handle_limit()

    @property
    def facts(self) -> WitnessFacts:
        ledger = self.ledger
        return WitnessFacts(
            exit_statuses=can_read_exits(),
            cpu="counter" if self._has_counters else "sample",
            parents="process" if self._numbers is None else "number",
            next_number=ledger.next_number,
            started=ledger.started,
            ended=ledger.ended,
            failed_tries=ledger.failed_tries,
            unconfirmed=ledger.unconfirmed,
            unknown_exits=ledger.unknown_exits,
            withdrawn=self._listener.withdrawn,
            unread=self._unread,
        )

    @property
    def needs_sweeps(self) -> bool:
        """Whether something can only be seen by looking now and then."""
        return bool(self._handles) and (
            not self._has_counters or any(process.pending for process in self._handles.values())
        )

    def hold(self, notification: Notification, call: str, now_us: int) -> list[ProgramRecord]:
        """A program is asked for and waits: its process gets a number."""
        records: list[ProgramRecord] = []
        known = self._handle_of.get(notification.pid)
        # The number of a process is free again once it was waited for, and its end may not be told yet.
        if known is not None and has_ended(known):
            records += self.take_end(known, now_us)
        try:
            records += self._begin(notification, call, now_us)
        except OSError:
            self._unread += 1
        return records

    def count(self, notification: Notification) -> None:
        """Begin to count processor time for a process that was held; it does not wait for this."""
        pid = notification.pid
        if not self._has_counters or pid in self._counters or pid not in self.ledger.processes:
            return
        # Of a process that is gone already, the kernel may still show what it used.
        with contextlib.suppress(OSError):
            self._counters[pid] = open_counter(pid)

    def confirm(self, notification: Notification) -> list[ProgramRecord]:
        """A C library is setting itself up: what its process asked for has started."""
        process = self.ledger.processes.get(notification.pid)
        if process is None or process.pending is None:
            return []
        with contextlib.suppress(OSError):
            return self._settle(process, process.pid)
        return []

    def take_end(self, handle: int, now_us: int) -> list[ProgramRecord]:
        """A handle says that its process has ended."""
        process = self._handles[handle]
        status = read_exit_status(handle)
        line = None
        if status is None or process.pending is not None:
            line = _load_zombie(process.pid)
        if line is not None:
            status = line.status
            with contextlib.suppress(OSError):
                process.cpu_ns, process.is_cpu_exact = read_cpu_ns(process.pid), True
        elif status is None:
            status = read_exit_status(handle)  # its parent waited for it just now
        counter = self._counters.pop(process.pid, None)
        if counter is not None:
            process.cpu_ns, process.is_cpu_exact = read_counter(counter), True
            os.close(counter)
        self._forget(handle, process)
        if process.pending is not None:
            process.pending.is_missing = self._is_missing(process.pending)
        comm = None if line is None else line.comm
        return self.ledger.end(process, status=status, at_us=now_us, comm=comm)

    @property
    def has_handles(self) -> bool:
        """Whether a program runs of which no end was told."""
        return bool(self._handles)

    def is_handle(self, descriptor: int) -> bool:
        return descriptor in self._handles

    def sweep(self) -> list[ProgramRecord]:
        """Read what counters do not count, and look at tries that had no confirmation."""
        records: list[ProgramRecord] = []
        for process in list(self._handles.values()):
            with contextlib.suppress(OSError):
                if not self._has_counters:
                    process.cpu_ns = read_cpu_ns(process.pid)
                if process.pending is not None:
                    records += self._settle_late(process)
        return records

    def close(self) -> None:
        """Let go of everything; what still runs is not followed any more."""
        for handle, process in list(self._handles.items()):
            self._forget(handle, process)
        for counter in self._counters.values():
            os.close(counter)
        self._counters.clear()
        if self._root is not None:
            os.close(self._root)
            self._root = None

    def _begin(self, notification: Notification, call: str, now_us: int) -> list[ProgramRecord]:
        process, handle = self._find_process(notification.pid)
        try:
            with ProcessMemory(notification.pid) as memory:
                path = memory.read_text(notification.arguments[1 if call == "execveat" else 0])[0]
            if not self._listener.is_waiting(notification):
                raise ProcessLookupError
        except OSError:
            if handle != _NONE:
                os.close(handle)
            raise
        if handle != _NONE:
            self._follow(process, handle)
        if self._root is None:
            # What the harness starts comes from a process that hides itself from an ordinary user.
            with contextlib.suppress(OSError):
                flags = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
                self._root = os.open(f"/proc/{notification.pid}/root", flags)
        records = [] if process.pending is None else self._settle_late(process, is_last=True)
        base = self._find_base(process, records)
        attempt = self.ledger.begin_try(process, base=base, path=path, at_us=now_us)
        counter = self._counters.get(process.pid)
        if counter is not None:
            attempt.cpu_ns = read_counter(counter)
        elif not self._has_counters:
            attempt.cpu_ns = read_cpu_ns(process.pid)
        return records

    def _find_process(self, tid: int) -> tuple[Process, int]:
        """The caller's process; a handle, if it is seen for the first time."""
        known = self.ledger.processes.get(tid)
        if known is not None:
            return known, _NONE
        pid, handle = open_process(tid)
        known = self.ledger.processes.get(pid)
        if known is None:
            return Process(pid), handle
        os.close(handle)
        return known, _NONE

    def _find_base(self, process: Process, records: list[ProgramRecord]) -> int:
        """The program that a process is, or was forked from."""
        if self._numbers is not None:
            try:
                before = self._numbers.exchange(process.pid, self.ledger.next_number)
            except PermissionError:
                self._numbers = None
            else:
                found = self.ledger.find_program(before)
                if found is not None:
                    return found
                records += self._settle_from_child(before, process.pid)
                return self.ledger.find_program(before) or HARNESS
        parent = self.ledger.processes.get(load_line(process.pid).parent)
        return process.program or (HARNESS if parent is None else parent.program)

    def _settle(self, process: Process, witness: int) -> list[ProgramRecord]:
        """Say what became of a pending try, from what runs in its process or in a fork of it."""
        assert process.pending is not None
        stamp = read_stamp(witness)
        # A caller can make the call of a C library itself after its try has failed.
        if stamp and stamp == self.ledger.find_stamp(process.pending.base):
            self.ledger.fail(process)
            return []
        return self.ledger.start(process, self._load_image(witness, stamp))

    def _load_image(self, pid: int, stamp: int) -> Image:
        image = load_image(pid, stamp)
        image.copies = self._copies.find(pid, image.exe, self._root)
        return image

    def _settle_late(self, process: Process, *, is_last: bool = False) -> list[ProgramRecord]:
        """For a try without a confirmation: it failed, or the program has no C library."""
        attempt = process.pending
        assert attempt is not None
        base = self.ledger.find_stamp(attempt.base)
        stamp = 0 if self._is_missing(attempt) or not base else read_stamp(process.pid)
        if stamp and stamp != base:
            image = self._load_image(process.pid, stamp)
            # The kernel may be at it still: arguments come last.
            if image.argv and read_stamp(process.pid) == stamp:
                return self.ledger.start(process, image)
        if is_last:
            self.ledger.fail(process)
        return []

    def _is_missing(self, attempt: StartTry) -> bool:
        return self._root is not None and is_file_missing(self._root, attempt.path)

    def _settle_from_child(self, number: int, child: int) -> list[ProgramRecord]:
        for process in self.ledger.processes.values():
            if process.pending is not None and process.pending.number == number:
                return self._settle(process, child)
        return []

    def _follow(self, process: Process, handle: int) -> None:
        self._handles[handle] = process
        self._handle_of[process.pid] = handle
        # Edges: the handle of a process that is not waited for would be ready for ever.
        self._events.register(handle, select.EPOLLIN | select.EPOLLET)

    def _forget(self, handle: int, process: Process) -> None:
        self._events.unregister(handle)
        del self._handles[handle], self._handle_of[process.pid]
        os.close(handle)


def _load_zombie(pid: int) -> ProcessLine | None:
    """A process that has ended and was not waited for; it has its status and its name still."""
    try:
        line = load_line(pid)
    except OSError:
        return None
    return line if line.state == _ZOMBIE else None


def _raise_handle_limit() -> None:
    """A handle for each program that runs, two with counters."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH_HANDLES if hard == resource.RLIM_INFINITY else min(_ENOUGH_HANDLES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
