"""A child of the launch server goes into a sandbox and starts commands there.

Everything that an agent or a check executes descends from this process, the *entrance*, never from PID 1:
one syscall filter, set here, is above all of it. The entrance keeps a PID of the host, so nobody inside can
see, signal or trace it. For each command it has a *keeper* ready, a fork of itself that is inside: it takes
one order, starts the program, adopts its orphans, so that a command's processes stay one tree for as long
as one of them lives, and reports how the program ended, over a channel that the program never had.

Needs nothing but the standard library (`_boot`).
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import select
import signal
import socket
from typing import Any, Final, NamedTuple, NoReturn

from repotrial.sandbox._confine import (
    adopt_orphans,
    close_all_but,
    close_on_execution,
    die_with,
    drop_capabilities,
    enter_namespaces,
    hide_from_tracers,
    join_cgroups,
)
from repotrial.sandbox._kernel import install_filter
from repotrial.sandbox._messages import receive_message, send_message

__all__ = ["CommandOrder", "EnterOrder", "enter_sandbox"]

_SEARCH_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_PATIENCE_SECONDS: Final = 0.05
_FEW: Final = 2
"""So many commands do not make a busy sandbox."""
_ALL_SIGNALS: Final = signal.valid_signals()


class EnterOrder(NamedTuple):
    """What holds for everything that is started through this entrance."""

    cgroups: int
    """How many descriptors of control groups come along."""
    filter: str
    """The syscall filter, in hexadecimal digits; empty for none."""
    with_listener: bool
    """Whether a supervisor answers for the filter."""


class CommandOrder(NamedTuple):
    """A program to start inside."""

    argv: list[str]
    cwd: str
    variables: dict[str, str]
    limits: list[list[int]]
    """Pairs of a resource and its ceiling."""


def enter_sandbox(order: EnterOrder, descriptors: list[int], *, parent: int) -> NoReturn:
    """Wait for the sandbox, enter it, give up all power, and start commands until the harness hangs up.

    Args:
        order: What the harness wants.
        descriptors: The channel to the harness, then those of the control groups.
        parent: The launch server.
    """
    die_with(parent)
    channel = socket.socket(fileno=descriptors[0])
    # While the sandbox is being made: this may wait for the kernel for some milliseconds.
    join_cgroups(descriptors[1:])
    try:
        body, (pidfd,) = receive_message(channel)
        attachments = _go_inside(order, body["pid"], pidfd, parent=parent)
    except (EOFError, OSError) as error:
        with contextlib.suppress(OSError):
            send_message(channel, {"error": str(error)})
        os._exit(1)
    send_message(channel, {}, attachments)
    close_all_but([channel.fileno()])
    _serve(channel)


def _go_inside(order: EnterOrder, pid: int, pidfd: int, *, parent: int) -> list[int]:
    """What goes to the harness: the sandbox's own /proc, and the filter's listener."""
    enter_namespaces(pid, pidfd)
    os.chdir("/")
    processes = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    drop_capabilities()
    hide_from_tracers()
    die_with(parent)
    if not order.filter:
        return [processes]
    listener = install_filter(bytes.fromhex(order.filter), with_listener=order.with_listener)
    return [processes] if listener is None else [processes, listener]


def _serve(channel: socket.socket) -> NoReturn:
    """Have one keeper waiting: for the first command, and from then on where many commands come.

    Most sandboxes see one or two, and a fork costs more than a small program does.
    """
    signal.signal(signal.SIGCHLD, _reap)
    taken, take = os.pipe()
    commands = 0
    while True:
        if 0 < commands <= _FEW:
            _await_order(channel)
        try:
            keeper = os.fork()
        except OSError as error:
            # The sandbox is full. Whoever comes now is told so; after a moment it may be less full.
            if select.select([channel], [], [], _PATIENCE_SECONDS)[0]:
                _refuse(channel, error)
            continue
        if not keeper:
            _keep(channel, take)
        commands += _await_keeper(keeper, taken, channel)


def _await_order(channel: socket.socket) -> None:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    if any(events & select.POLLHUP for _, events in poll.poll()):
        os._exit(0)


def _refuse(channel: socket.socket, error: OSError) -> None:
    try:
        descriptors = receive_message(channel).descriptors
    except (EOFError, OSError):
        os._exit(0)
    with socket.socket(fileno=descriptors.pop()) as reporter:
        _say(reporter, {"failed": error.errno})
    for descriptor in descriptors:
        os.close(descriptor)


def _await_keeper(keeper: int, taken: int, channel: socket.socket) -> bool:
    """Return when a new keeper is needed: this one has an order, or was killed by somebody inside.

    Returns:
        Whether it has an order.
    """
    try:
        pidfd = os.pidfd_open(keeper)
    except ProcessLookupError:
        return False
    poll = select.poll()
    for descriptor in (taken, pidfd):
        poll.register(descriptor, select.POLLIN)
    poll.register(channel, 0)  # only whether the harness has hung up
    ready = {descriptor for descriptor, _ in poll.poll()}
    os.close(pidfd)
    if channel.fileno() in ready:
        os._exit(0)
    if taken in ready:
        os.read(taken, 1)
    return taken in ready


def _reap(_number: int, _frame: object) -> None:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _say(reporter: socket.socket, body: dict[str, Any]) -> None:
    # The harness may have given up on this command.
    with contextlib.suppress(OSError):
        send_message(reporter, body)


def _keep(channel: socket.socket, take: int) -> NoReturn:
    """Be the parent of one command and all its orphans."""
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # Inside, a parent outside has the number 0.
    die_with(0)
    adopt_orphans()
    os.setsid()
    try:
        body, (stdout, stderr, report) = receive_message(channel)
    except (EOFError, OSError):
        os._exit(0)
    os.write(take, b"1")
    reporter = socket.socket(fileno=report)
    # Before the program runs: it could stop us, and nobody would know whom to look for.
    _say(reporter, {"keeper": os.getpid()})
    try:
        child = _start(CommandOrder(**body), stdout, stderr)
    except (OSError, ValueError) as error:  # a name or an argument may contain what the kernel cannot take
        _say(reporter, {"failed": getattr(error, "errno", errno.EINVAL)})
        os._exit(0)
    close_all_but([report])
    _say(reporter, {"started": child})
    # Until there is nothing left to adopt: only then has the command's last process ended.
    with contextlib.suppress(ChildProcessError):
        while True:
            ended, status = os.waitpid(-1, 0)
            if ended == child:
                _say(reporter, {"ended": status, "cpu_us": _measure_cpu_us()})
    _say(reporter, {"empty": True, "cpu_us": _measure_cpu_us()})
    os._exit(0)


def _measure_cpu_us() -> int:
    """Of everything that was waited for; what a program told the kernel not to report is missing."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((usage.ru_utime + usage.ru_stime) * 1_000_000)


def _start(order: CommandOrder, stdout: int, stderr: int) -> int:
    os.chdir(order.cwd)
    program = _find_program(order.argv[0], order.variables.get("PATH", _SEARCH_PATH))
    for kind, ceiling in order.limits:
        hard = resource.getrlimit(kind)[1]
        bound = ceiling if hard == resource.RLIM_INFINITY else min(ceiling, hard)
        resource.setrlimit(kind, (bound, bound))
    # Whoever had the report could forge the exit status: nothing but the standard streams is handed on.
    close_on_execution()
    return os.posix_spawn(
        program,
        order.argv,
        order.variables,
        file_actions=[
            (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
            (os.POSIX_SPAWN_DUP2, stdout, 1),
            (os.POSIX_SPAWN_DUP2, stderr, 2),
        ],
        setsid=True,
        setsigmask=[],
        setsigdef=_ALL_SIGNALS - {signal.SIGKILL, signal.SIGSTOP},
    )


def _find_program(name: str, search_path: str) -> str:
    if "/" in name:
        return name
    for directory in search_path.split(":"):
        candidate = f"{directory or '.'}/{name}"
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):  # noqa: PTH113 (a fork stays lean)
            return candidate
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)
