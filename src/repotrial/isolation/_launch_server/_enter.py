"""A child of the launch server goes into a sandbox and starts commands there.

Everything that an agent or a check executes descends from this process, the *entry*, never from PID 1: one
syscall filter, set here, is above all of it. The entry keeps a PID of the host, so no program inside can see,
signal or trace it. Each command has a *parent*, a fork of the entry that is inside: it takes one order,
starts the program, adopts its orphans, so that a command's processes stay one tree for as long as one of
them lives, and reports how the program ended, over a channel that the program never had. A parent whose
command has left nothing behind takes the next order: a fork costs more than a small program does.

Needs nothing but the standard library (see `Launcher`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import socket
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from repotrial._core.kernel import install_filter
from repotrial.isolation._launch_server._confine import (
    adopt_orphans,
    close_all_but,
    close_on_execution,
    die_with,
    drop_capabilities,
    enter_namespaces,
    hide_from_tracers,
    join_cgroups,
)
from repotrial.isolation._launch_server._messages import CommandOrder, StartOrder, receive_order, send_answer

_SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_PATIENCE_SECONDS: Final = 0.05
_COMMANDS: Final = 100
"""That one parent takes, one after the other: the ceiling on processor time holds for itself, too."""
_NEWS: Final = struct.Struct("=I?")
"""A parent's number, and whether it waits for an order; written at once."""
_MANY: Final = 256
DEFAULT_SIGNALS: Final = [*(signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP})]


def enter_sandbox(
    order: StartOrder, channel: socket.socket, join_fds: Sequence[int], *, parent: int
) -> NoReturn:
    """Wait for the sandbox, enter it, give up all power, and start commands until the harness hangs up.

    Args:
        order: What the harness wants.
        channel: To the harness.
        join_fds: Of control groups.
        parent: The launch server.
    """
    # While the sandbox is being made: this may wait for the kernel for some milliseconds.
    join_cgroups(join_fds)
    try:
        body, (pidfd,) = receive_order(channel)
        attachments = _go_inside(order, body["pid"], pidfd, parent=parent)
    except (EOFError, OSError) as error:
        _say(channel, {"error": str(error)})
        os._exit(1)
    send_answer(channel, {}, attachments)
    close_all_but([channel.fileno()])
    _NamespaceEntry(channel).serve()


def _go_inside(order: StartOrder, pid: int, pidfd: int, *, parent: int) -> list[int]:
    """What goes to the harness: the sandbox's own /proc, and the filter's listener."""
    enter_namespaces(pid, pidfd, order["scratch_bounds"])
    os.chdir("/")
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    drop_capabilities()
    hide_from_tracers()
    die_with(parent)
    if not order["filter"]:
        return [processes]
    listener = install_filter(bytes.fromhex(order["filter"]), with_listener=order["with_listener"])
    return [processes] if listener is None else [processes, listener]


class _NamespaceEntry:
    """Has a parent wait for the first command, and makes another whenever a command finds none waiting."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._news, self._tell = os.pipe()
        self._parents: dict[int, int] = {}
        """Their numbers, by PID."""
        self._waiting: set[int] = set()
        self._made = 0
        self._wake, waker = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # The launch server has set a handler that does nothing, and we have it from there.
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)

    def serve(self) -> NoReturn:
        self._make_parent()
        while True:
            # A parent that waits takes the next order. Where none does, the order is for us to see.
            is_ordered = self._listen(0 if self._waiting else select.POLLIN)
            if is_ordered and not self._waiting:
                self._make_parent()

    def _make_parent(self) -> None:
        number = self._made = self._made + 1
        try:
            pid = os.fork()
        except OSError as error:  # the sandbox is full
            self._refuse(error)
            return
        if not pid:
            signal.set_wakeup_fd(-1)
            _CommandParent(self._channel, number, self._tell).serve()
        self._parents[pid] = number
        self._waiting.add(number)

    def _refuse(self, error: OSError) -> None:
        """Refuse an order that waits; after a moment the sandbox may be less full."""
        if not select.select([self._channel], [], [], _PATIENCE_SECONDS)[0]:
            return
        try:
            _, descriptors = receive_order(self._channel)
        except (EOFError, OSError):
            os._exit(0)
        _say(descriptors[-1], {"failed": error.errno or errno.EAGAIN})
        for descriptor in descriptors:
            os.close(descriptor)

    def _listen(self, events: int = 0) -> bool:
        """Hear of parents for a moment; whether an order is there. Ends where the harness has hung up."""
        poll = select.poll()
        # In this order: news that were there before an order did are then seen with it.
        poll.register(self._channel, events)
        poll.register(self._news, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        ready = dict(poll.poll())
        found = ready.get(self._channel.fileno(), 0)
        if found & (select.POLLHUP | select.POLLERR):
            os._exit(0)
        # What one said before it was killed was said before.
        if self._news in ready:
            for number, is_waiting in _NEWS.iter_unpack(os.read(self._news, _NEWS.size * _MANY)):
                (self._waiting.add if is_waiting else self._waiting.discard)(number)
        if self._wake in ready:
            os.read(self._wake, _MANY)
            self._bury()
        return bool(found)

    def _bury(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                self._waiting.discard(self._parents.pop(pid, 0))


def ignore_signal(_number: int, _frame: object) -> None:
    """A handler that only wakes the process up."""


def _say(listener: int | socket.socket, body: dict[str, int | str]) -> None:
    # The harness may have given up.
    with contextlib.suppress(OSError):
        send_answer(listener, body)


class _CommandParent:
    """The parent of one command and all its orphans; and of another, if nothing is left of the last."""

    def __init__(self, channel: socket.socket, number: int, tell: int) -> None:
        self._channel = channel
        self._number = number
        self._tell = tell
        self._left = _COMMANDS

    def serve(self) -> NoReturn:
        # Inside, a parent outside has the number 0.
        die_with(0)
        adopt_orphans()
        os.setsid()
        is_clean = True
        while is_clean and self._left:
            try:
                body, (stdout, stderr, report) = receive_order(self._channel)
            except (EOFError, OSError):
                break
            self._left -= 1
            self._say_waiting(is_waiting=False)
            is_clean = self._execute(body, stdout, stderr, report)
            os.close(report)
            os.chdir("/")
        os._exit(0)

    def _say_waiting(self, *, is_waiting: bool) -> None:
        os.write(self._tell, _NEWS.pack(self._number, is_waiting))

    def _execute(self, order: CommandOrder, stdout: int, stderr: int, reporter: int) -> bool:
        """Run one command; whether it ended with nothing left behind."""
        # Before the program runs: it could stop us, and the harness would not know which process to look for.
        _say(reporter, {"parent": os.getpid()})
        before_us = _measure_cpu_us()
        try:
            child = _start(order, stdout, stderr)
        except (OSError, ValueError) as error:  # a name may contain what the kernel cannot take
            _say(reporter, {"failed": getattr(error, "errno", errno.EINVAL)})
            return False
        os.close(stdout)
        os.close(stderr)
        _say(reporter, {"started": child})
        is_clean = False
        # Until there is nothing left to adopt: only then has the command's last process ended.
        with contextlib.suppress(ChildProcessError):
            while True:
                ended, status = os.waitpid(-1, 0)
                if ended == child:
                    is_clean = not _has_children()
                    if is_clean and self._left:
                        # First of all: the next order may follow the report at once.
                        self._say_waiting(is_waiting=True)
                    cpu_us = _measure_cpu_us() - before_us
                    _say(reporter, {"ended": status, "empty": is_clean, "cpu_us": cpu_us})
        if not is_clean:
            _say(reporter, {"empty": True, "cpu_us": _measure_cpu_us() - before_us})
        return is_clean


def _has_children() -> bool:
    """Whether anything lives that was adopted; the dead are buried."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return False
    return True


def _measure_cpu_us() -> int:
    """Of everything that was waited for; what a program told the kernel not to report is missing."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((usage.ru_utime + usage.ru_stime) * 1_000_000)


def _start(order: CommandOrder, stdout: int, stderr: int) -> int:
    argv, variables = order["argv"], order["variables"]
    os.chdir(order["cwd"])
    program = _find_program(argv[0], variables.get("PATH", _SEARCH_PATH))
    for kind, ceiling in order["limits"]:
        hard = resource.getrlimit(kind)[1]
        bound = ceiling if hard == resource.RLIM_INFINITY else min(ceiling, hard)
        resource.setrlimit(kind, (bound, bound))
    # With the report a program could forge its exit status: only the standard streams are handed on.
    close_on_execution()
    return os.posix_spawn(
        program,
        argv,
        variables,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, stdout, 1),
            (os.POSIX_SPAWN_DUP2, stderr, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=DEFAULT_SIGNALS,
    )


def _find_program(name: str, search_path: str) -> str:
    if "/" in name:
        return name
    for directory in search_path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        if Path(candidate).is_file() and os.access(candidate, os.X_OK):
            return candidate
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
