"""The launch server: one small process with one thread, from which everything in sandboxes descends.

The harness has threads, secrets, open files and perhaps root. A fork of it would inherit all of that, and a
fork of a process with threads may hang. This one is started once, as a fresh interpreter with nothing of the
harness's environment; it gives up root before it does anything else, and then forks for each sandbox. It ends
with the harness, and with it every sandbox.

Needs nothing but the standard library (`_boot`). All imports happen before the account is dropped:
afterwards the interpreter's own files may be out of reach.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
import sys
from collections.abc import Sequence
from typing import Final, NoReturn

from repotrial.isolation._launch_server._confine import (
    adopt_orphans,
    close_all_but,
    drop_account,
    erase_command_line,
    find_own_namespaces,
    hide_from_tracers,
    leave_mounts,
)
from repotrial.isolation._launch_server._enter import ignore_signal
from repotrial.isolation._launch_server._kernel import system_call
from repotrial.isolation._launch_server._messages import StartOrder, receive_order, send_answer
from repotrial.isolation._launch_server._start import STAGING, start_sandbox

_NAME: Final = "repotrial"
_NOT_SHOWN: Final = (STAGING, "/dev/hugepages", "/dev/mqueue", "/dev/pts", "/dev/shm")  # noqa: S108 - left
"""Where the host mounts things of which no sandbox is shown any; those that it has, it has of its own."""


def main(arguments: Sequence[str]) -> None:
    """Serve until the harness hangs up or ends.

    Args:
        arguments: The channel to the harness; a PID descriptor of it, since a stray copy of the channel must
            not keep us alive; the user and the group to become.
    """
    control, harness, uid, gid = map(int, arguments)
    erase_command_line(_NAME)
    os.umask(0o022)
    os.chdir("/")
    if not os.geteuid():
        leave_mounts(_NOT_SHOWN)
        drop_account(uid, gid)
    hide_from_tracers()
    adopt_orphans()
    # The first use resolves names and numbers; children inherit what is resolved, and fewer pages change.
    system_call("getpid")
    find_own_namespaces()
    # Nothing here makes cycles, and to look for them would copy the pages of every child.
    gc.collect()
    gc.freeze()
    gc.disable()
    _Server(control, harness).serve()


class _Server:
    def __init__(self, control: int, harness: int) -> None:
        self._control = socket.socket(fileno=control)
        self._harness = harness
        self._children: dict[int, int] = {}
        """PID descriptors by PID."""
        self._wake, waker = socket.socketpair()
        self._wake.setblocking(False)
        waker.setblocking(False)
        self._waker = waker
        signal.set_wakeup_fd(waker.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, ignore_signal)

    def serve(self) -> None:
        poll = select.poll()
        for descriptor in (self._control.fileno(), self._harness, self._wake.fileno()):
            poll.register(descriptor, select.POLLIN)
        while True:
            ready = dict(poll.poll())
            if self._harness in ready:
                break
            if self._wake.fileno() in ready:
                self._reap()
            if self._control.fileno() in ready and not self._answer():
                break
        for pidfd in self._children.values():
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):  # it was heard before
            self._wake.recv(4096)
        with contextlib.suppress(ChildProcessError):
            while pid := os.waitpid(-1, os.WNOHANG)[0]:
                pidfd = self._children.pop(pid, None)
                if pidfd is not None:
                    os.close(pidfd)

    def _answer(self) -> bool:
        """Serve one request; false when the harness has hung up."""
        try:
            order, descriptors = receive_order(self._control)
        except (EOFError, ConnectionError):
            return False
        server = os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            send_answer(self._control, {"error": str(error)})
        else:
            if not pid:
                self._become_child(order, descriptors, server)
            # It has not been waited for yet, so the number is still its own.
            self._children[pid] = os.pidfd_open(pid)
            send_answer(self._control, {"pid": pid}, [self._children[pid]])
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _become_child(self, order: StartOrder, descriptors: list[int], server: int) -> NoReturn:
        try:
            # The handler stays: it does nothing, and what is executed loses it.
            signal.set_wakeup_fd(-1)
            close_all_but(descriptors)
            start_sandbox(order, descriptors, parent=server)
        except BaseException as error:  # noqa: BLE001 - a forked child: the harness reads its standard error
            sys.stderr.write(f"{error}\n")
            sys.stderr.flush()
        finally:
            os._exit(1)
