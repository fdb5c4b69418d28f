"""One command inside an open sandbox: started, listened to, watched, ended."""

from __future__ import annotations

import contextlib
import errno
import os
import select
import socket
import time
from collections.abc import Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec

from repotrial.isolation._launch_server._messages import receive_answer
from repotrial.isolation._launch_server._processes import TreeKiller
from repotrial.isolation._model import CommandResult, CommandSpec
from repotrial.isolation._resources._capture import OutputBudget, StreamReader
from repotrial.isolation._resources._limits import DiskWatch
from repotrial.isolation._resources._meters import ResourceMeter
from repotrial.trace import Exited, ExitStatus, ExitUnknown, NotStarted, Signaled, TimedOut

EndCause: TypeAlias = Literal[
    "ended", "timeout", "cpu", "memory", "output", "disk", "processes", "sandbox-lost"
]

_GRACE_SECONDS: Final = 0.1
"""How long what outlives its command may still be heard."""
_KILL_SECONDS: Final = 30.0
"""How long the processes of a command may take to die before the whole sandbox is ended. Usually it is a
millisecond; but a busy machine is no reason to lose a sandbox."""
_SILENCE_SECONDS: Final = 5.0
"""How long the parent may be unknown: then no process inside has taken the command."""
_STRIKE_SECONDS: Final = 0.002
_START_SECONDS: Final = 30.0
"""How long it may take until a program is started, or cannot be."""
_WRITABLE: Final = 0o622
_SIGXFSZ: Final = 25
_REFUSED_FORK: Final = frozenset({errno.EAGAIN, errno.ENOMEM})


class CommandWatch(msgspec.Struct, frozen=True, kw_only=True):
    """What is looked at while a command runs."""

    meter: ResourceMeter
    disk: DiskWatch | None
    deadline: float | None
    """Of the whole sandbox."""


class _CommandEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How a command ended, and whether its sandbox can still be trusted to be under control."""

    result: CommandResult
    is_sandbox_lost: bool


class _LostError(Exception):
    """It is not known any more what became of the command's processes."""


def execute_command(
    start: Callable[[int, int, int], None], command: CommandSpec, watch: CommandWatch
) -> _CommandEnd:
    """Run one command to its end.

    Args:
        start: Hands descriptors for standard output, standard error and the report to the sandbox; raises
            OSError where the sandbox is gone.
        command: What to run.
        watch: What to look at meanwhile.
    """
    with contextlib.ExitStack() as ours, contextlib.ExitStack() as theirs:
        report, report_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.enter_context(report)
        theirs.enter_context(report_end)
        budget = OutputBudget(command.output_bytes)
        streams: list[StreamReader] = []
        ends: list[int] = []
        for _ in ("stdout", "stderr"):
            pipe, end = os.pipe2(os.O_CLOEXEC)
            # Programs also open /dev/stdout and /dev/stderr by name, under their own account.
            os.fchmod(end, _WRITABLE)
            streams.append(StreamReader(pipe, prefix_bytes=command.prefix_bytes, budget=budget))
            ours.callback(streams[-1].close)
            ends.append(end)
            theirs.callback(os.close, end)
        run = _Run(command, watch, report, (streams[0], streams[1]), budget)
        try:
            start(ends[0], ends[1], report_end.fileno())
        except OSError:
            run.is_lost = True
        theirs.close()
        return run.finish()


class _Run:
    def __init__(
        self,
        command: CommandSpec,
        watch: CommandWatch,
        report: socket.socket,
        streams: tuple[StreamReader, StreamReader],
        budget: OutputBudget,
    ) -> None:
        self._command = command
        self._watch = watch
        self._report = report
        self._streams = streams
        self._open = {stream.fileno(): stream for stream in streams}
        self._budget = budget
        self._meter = watch.meter.begin()
        self._deadline, self._ceiling_us = self._find_deadline()
        self._start_deadline = time.monotonic() + _START_SECONDS
        self._next_look = time.monotonic() + watch.meter.interval_seconds
        self._poll = select.poll()
        for descriptor in (report.fileno(), *self._open):
            self._poll.register(descriptor, select.POLLIN)
        self._parent: int | None = None
        self._exit: ExitStatus | None = None
        self._is_empty = False
        self._waited_cpu_us = 0
        self._cause: EndCause = "ended"
        self.is_lost = False

    def finish(self) -> _CommandEnd:
        if not self.is_lost:
            try:
                self._run()
            except _LostError:
                self.is_lost = True
        status = self._exit
        if self.is_lost:
            # What the kernel did stands, even if no process was left to report it.
            self._cause = self._meter.explain_end(self._waited_cpu_us, has_failed=False) or "sandbox-lost"
            status = status or ExitUnknown(reason="the sandbox was lost while the program ran")
        usage = self._meter.finish(self._waited_cpu_us)
        if self._cause == "timeout" and not self.is_lost:
            status = TimedOut(ceiling_us=self._ceiling_us, observed_us=usage.wall_us)
        stdout, stderr = (stream.close() for stream in self._streams)
        result = CommandResult(
            exit=status or ExitUnknown(reason="no report"),
            cause=self._cause,
            stdout=stdout,
            stderr=stderr,
            usage=usage,
        )
        return _CommandEnd(result=result, is_sandbox_lost=self.is_lost)

    def _run(self) -> None:
        while self._exit is None:
            self._listen(self._find_pause())
            if (cause := self._find_cause()) is not None:
                self._cause = cause
                self._kill()
        if self._cause == "ended":
            self._hear_out()
            self._explain()

    def _find_deadline(self) -> tuple[float | None, int]:
        now = time.monotonic()
        seconds = self._command.timeout_seconds
        own = None if seconds is None else now + seconds
        ends = [end for end in (own, self._watch.deadline) if end is not None]
        deadline = min(ends, default=None)
        return deadline, 0 if deadline is None else max(0, round((deadline - now) * 1_000_000))

    def _find_pause(self) -> float:
        pause = self._next_look - time.monotonic()
        if self._deadline is not None:
            pause = min(pause, self._deadline - time.monotonic())
        return max(0.0, pause)

    def _listen(self, seconds: float) -> None:
        """Take in what the program prints and what its parent reports, for one moment."""
        # The report last: what was printed before the end is there before it.
        ready = [descriptor for descriptor, _ in self._poll.poll(seconds * 1000)]
        for descriptor in ready:
            stream = self._open.get(descriptor)
            if stream is not None and not stream.read():
                self._stop_reading(descriptor)
        if self._report.fileno() in ready:
            self._take_report()

    def _stop_reading(self, descriptor: int) -> None:
        self._poll.unregister(descriptor)
        del self._open[descriptor]

    def _take_report(self) -> None:
        try:
            body, _ = receive_answer(self._report)
        except (EOFError, OSError) as error:
            raise _LostError from error
        self._waited_cpu_us = body.get("cpu_us", self._waited_cpu_us)
        self._is_empty = body.get("empty", False) or "failed" in body
        self._parent = body.get("parent", self._parent)
        if "started" in body:
            self._watch.meter.table.prefer_as_victim(body["started"])
        if "failed" in body:
            reason = body.get("reason") or _describe_failure(body["failed"], self._command)
            self._exit = NotStarted(reason=reason)
            self._cause = "processes" if body["failed"] in _REFUSED_FORK else "ended"
        if "ended" in body:
            self._exit = _parse_status(body)

    def _find_cause(self) -> EndCause | None:
        """Why the command has to be ended now, if it has not ended by itself."""
        if self._exit is not None:
            return None
        if self._budget.is_exceeded:
            return "output"
        now = time.monotonic()
        if self._deadline is not None and now >= self._deadline:
            return "timeout"
        if self._parent is None and now >= self._start_deadline:
            raise _LostError
        if now < self._next_look:
            return None
        self._next_look = now + self._watch.meter.interval_seconds
        if self._watch.disk is not None and self._watch.disk.is_exceeded():
            return "disk"
        return self._meter.find_excess()

    def _kill(self) -> None:
        """End every process of the command; its parent proves that none is left."""
        for descriptor in [*self._open]:
            self._stop_reading(descriptor)
        start = time.monotonic()
        killer: TreeKiller | None = None
        while not self._is_empty:
            if time.monotonic() >= start + (_SILENCE_SECONDS if killer is None else _KILL_SECONDS):
                raise _LostError
            if killer is None and self._parent is not None:
                killer = TreeKiller(self._watch.meter.table, self._parent)
            if killer is not None:
                killer.strike()
            self._listen(_STRIKE_SECONDS)

    def _hear_out(self) -> None:
        """Read what is left. What has outlived the program and holds the pipes is not waited for."""
        deadline = time.monotonic() + _GRACE_SECONDS
        for descriptor, stream in [*self._open.items()]:
            if not stream.drain():
                self._stop_reading(descriptor)
        with contextlib.suppress(_LostError):
            while self._open and not self._is_empty and (left := deadline - time.monotonic()) > 0:
                self._listen(left)
        for stream in self._open.values():
            stream.drain()

    def _explain(self) -> None:
        """A program may end by itself because of a ceiling."""
        has_failed = self._exit != Exited(code=0)
        excess = self._meter.explain_end(self._waited_cpu_us, has_failed=has_failed)
        if self._budget.is_exceeded:
            self._cause = "output"
        elif self._exit == Signaled(signal=_SIGXFSZ) or self._is_disk_exceeded(is_forced=has_failed):
            self._cause = "disk"
        elif excess is not None:
            self._cause = excess

    def _is_disk_exceeded(self, *, is_forced: bool) -> bool:
        return self._watch.disk is not None and self._watch.disk.is_exceeded(is_forced=is_forced)


def _parse_status(body: dict[str, Any]) -> ExitStatus:
    code = os.waitstatus_to_exitcode(body["ended"])
    return Exited(code=code) if code >= 0 else Signaled(signal=-code)


def _describe_failure(number: int, command: CommandSpec) -> str:
    match number:
        case errno.ENOENT | errno.ENOTDIR:
            return f"{command.argv[0]}: no such program, or no directory {command.cwd}"
        case _:
            return f"{command.argv[0]}: {os.strerror(number)}"
