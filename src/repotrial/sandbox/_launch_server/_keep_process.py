"""The keeper of one command where there are no namespaces: its parent, and that of all its orphans.

It stands outside all restrictions, adopts what its program leaves behind, and reports how the program ended
over a channel that the program never had. When the harness hangs up, by intent or because it died, the
keeper kills everything below it, and ends itself only when nothing is left. Needs only the standard library
(`_boot`).
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import resource
import select
import signal
import socket
import time
from collections.abc import Sequence
from typing import Any, Final, NoReturn

from repotrial.sandbox._launch_server._confine import adopt_orphans, close_on_execution, join_cgroups
from repotrial.sandbox._launch_server._kept_table import KeptTable
from repotrial.sandbox._launch_server._messages import receive_order, send_answer
from repotrial.sandbox._launch_server._processes import TreeKiller
from repotrial.sandbox._launch_server._restrict_process import obey

__all__ = ["main"]

_FAILED: Final = 127
_FAILURE_BYTES: Final = 4096
_STRIKE_SECONDS: Final = 0.002
_VICTIM: Final = b"500"
"""The kernel takes programs first when memory runs out, not what keeps them."""
_IGNORED_BY_PYTHON: Final = (signal.SIGPIPE, signal.SIGXFSZ)


def main(arguments: Sequence[str]) -> NoReturn:
    """Take one order from the harness, and stay until nothing of it is left."""
    channel = socket.socket(fileno=int(arguments[0]))
    channel.set_inheritable(False)
    adopt_orphans()
    wake, waker = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    try:
        order, (stdout, stderr, report, *doors) = receive_order(channel)
    except (EOFError, OSError):
        os._exit(0)
    reporter = socket.socket(fileno=report)
    _say(reporter, {"keeper": os.getpid()})
    program = _start(order, (stdout, stderr), doors, reporter)
    for descriptor in (stdout, stderr, *doors):
        os.close(descriptor)
    _say(reporter, {"started": program})
    _keep(program, reporter, channel, wake)


def _keep(program: int, reporter: socket.socket, channel: socket.socket, wake: int) -> NoReturn:
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.register(channel, select.POLLIN)
    while _reap(program, reporter):
        ready = [descriptor for descriptor, _ in poll.poll()]
        if channel.fileno() in ready:
            _end_everything(program, reporter)
            break
        if wake in ready:
            os.read(wake, _FAILURE_BYTES)
    # Nothing is left to adopt: only now has the command's last process ended.
    _say(reporter, {"empty": True, "cpu_us": _measure_cpu_us()})
    os._exit(0)


def _reap(program: int, reporter: socket.socket) -> bool:
    """Bury the dead; whether anything is still alive."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == program:
                _say(reporter, {"ended": ended[1], "cpu_us": _measure_cpu_us()})
    except ChildProcessError:
        return False
    return True


def _end_everything(program: int, reporter: socket.socket) -> None:
    table = KeptTable()
    table.add_keeper(os.getpid())
    killer = TreeKiller(table, os.getpid())
    while _reap(program, reporter):
        killer.strike()
        time.sleep(_STRIKE_SECONDS)


def _say(reporter: socket.socket, body: dict[str, int | str]) -> None:
    # The harness may have given up on this command.
    with contextlib.suppress(OSError):
        send_answer(reporter, body)


def _measure_cpu_us() -> int:
    """Of everything that was waited for; what a program told the kernel not to report is missing."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round((usage.ru_utime + usage.ru_stime) * 1_000_000)


def _start(
    order: dict[str, Any], streams: tuple[int, int], doors: Sequence[int], reporter: socket.socket
) -> int:
    """The program's process; ends this one, with a report, where it cannot be started."""
    failure, failure_end = os.pipe2(os.O_CLOEXEC)
    try:
        child = os.fork()
    except OSError as error:
        _say(reporter, {"failed": error.errno or errno.EAGAIN})
        os._exit(0)
    if not child:
        _become(order, streams, doors, failure_end)
    os.close(failure_end)
    # Closed by the kernel when the program starts.
    with open(failure, "rb") as stream:  # noqa: PTH123 - a descriptor has no path
        report = stream.read(_FAILURE_BYTES)
    if report:
        os.waitpid(child, 0)
        _say(reporter, json.loads(report))
        os._exit(0)
    return child


def _become(
    order: dict[str, Any], streams: tuple[int, int], doors: Sequence[int], failure_end: int
) -> NoReturn:
    """Give up everything, then be the program."""
    is_restricted = False
    try:
        os.setsid()
        join_cgroups(doors)
        _write("/proc/self/oom_score_adj", _VICTIM)
        for target, source in enumerate((os.open("/dev/null", os.O_RDONLY), *streams)):
            os.dup2(source, target)
        signal.set_wakeup_fd(-1)
        for number in _IGNORED_BY_PYTHON:
            signal.signal(number, signal.SIG_DFL)
        # Whoever had the report could forge the exit status: nothing but the standard streams is handed on.
        close_on_execution()
        obey(order)
        is_restricted = True
        os.execvpe(order["argv"][0], order["argv"], order["variables"])  # noqa: S606 - that is its purpose
    except (OSError, ValueError) as error:
        code = getattr(error, "errno", None) or errno.EINVAL
        reason = {} if is_restricted else {"reason": f"it could not be prepared: {error}"}
        os.write(failure_end, json.dumps({"failed": code, **reason}).encode())
    os._exit(_FAILED)


def _write(path: str, data: bytes) -> None:
    # A security module may have something against it; then the kernel chooses its victims as it likes.
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as stream:  # noqa: PTH123 - stays lean
        stream.write(data)
