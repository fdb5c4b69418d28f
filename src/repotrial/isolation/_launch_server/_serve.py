"""The launch server: one small process with one thread, from which everything in sandboxes descends.

The harness has threads, secrets, open files and perhaps root. A fork of it would inherit all of that, and a
fork of a process with threads may hang. This one is started once, as a fresh interpreter with nothing of the
harness's environment; it gives up root before it does anything else, but for the power to become another
user, and then forks for each sandbox. Each child becomes its sandbox's user first, for good. The server ends
with the harness, and with it every sandbox.

Needs nothing but the standard library (see `Launcher`). All imports happen before the account is dropped:
afterwards the interpreter's own files may be out of reach.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import resource
import select
import signal
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NoReturn

from repotrial._core.kernel import system_call
from repotrial.isolation._launch_server._confine import (
    adopt_orphans,
    become,
    close_all_but,
    close_on_execution,
    die_with,
    erase_command_line,
    find_own_namespaces,
    hide_from_tracers,
    keep_account_powers,
    leave_mounts,
    make_private_mounts,
    mount_shared,
    move_tree,
    open_tree,
    unshare_processes,
)
from repotrial.isolation._launch_server._enter import DEFAULT_SIGNALS, enter_sandbox, ignore_signal
from repotrial.isolation._launch_server._messages import StartOrder, receive_order, send_answer

STAGING: Final = "/sys"
"""Where trees are attached, out of sight of the host: this directory exists everywhere, and neither
bubblewrap nor a sandbox needs what is in it."""

_ARGUMENTS_SLOT, _IDLE_SLOT, _FIRST_DATA_SLOT = 3, 4, 5
_OUT_OF_THE_WAY: Final = 512
"""Descriptors are moved above this number before they are put into their places."""
_VOLATILE_MARK: Final = "work/incompat/volatile"


def data_slot(index: int) -> int:
    """Where bubblewrap finds the contents of the small file with this index."""
    return _FIRST_DATA_SLOT + index


def start_sandbox(order: StartOrder, descriptors: list[int], *, parent: int) -> NoReturn:
    """Start bubblewrap, which becomes a sandbox, and be the entry to it.

    Args:
        order: What the harness wants.
        descriptors: The channel to the harness, lifeline, ready, error and the first program; then the trees,
            if the harness has opened them, and those to join control groups by.
        parent: The launch server, with which everything ends.

    Raises:
        OSError: A mount or a program is refused.
    """
    channel, lifeline, ready, error, idle_program, *rest = descriptors
    trees, join_fds = rest[: order["opened_trees"]], rest[order["opened_trees"] :]
    # Whatever goes wrong from here on is said there.
    os.dup2(error, 2)
    if order["account"]:
        become(*order["account"])
        hide_from_tracers()
    die_with(parent)
    if order["is_staged"]:
        make_private_mounts(STAGING)
        die_with(parent)
        _attach_trees(order, trees)
    # In files that have no name: command lines can be read by everyone.
    options = _open_content("".join(f"{each}\0" for each in order["arguments"]))
    files = [_open_content(text) for text in order["files"]]
    bubblewrap = _spawn(order, [lifeline, ready, error, options, idle_program, *files])
    hide_from_tracers()
    # The ends of its pipes are its own: a reader that waits for their closing must not wait for us.
    os.dup2(0, 2)
    close_all_but([channel, *join_fds])
    connection = socket.socket(fileno=channel)
    pidfd = os.pidfd_open(bubblewrap)
    send_answer(connection, {"pid": bubblewrap}, [pidfd])
    os.close(pidfd)
    enter_sandbox(order, connection, join_fds, parent=parent)


def _spawn(order: StartOrder, descriptors: list[int]) -> int:
    """Bubblewrap, with these descriptors, numbered from 0, and no others.

    Between its clone and its first own words bubblewrap's child cannot be told anything: should bubblewrap be
    killed in that moment, the child would wait for it for ever. In a namespace whose first process is
    bubblewrap itself, the kernel kills both.
    """
    if order["is_staged"]:
        unshare_processes()
    moved = [fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, _OUT_OF_THE_WAY) for descriptor in descriptors]
    close_on_execution()
    # Whatever stands in this environment and on this command line could be read inside.
    return os.posix_spawn(
        order["bubblewrap"],
        [order["label"], "--args", str(_ARGUMENTS_SLOT), f"/proc/self/fd/{_IDLE_SLOT}"],
        {},
        file_actions=[(os.POSIX_SPAWN_DUP2, source, slot) for slot, source in enumerate(moved)],
        setsigdef=DEFAULT_SIGNALS,
    )


def _attach_trees(order: StartOrder, opened: list[int]) -> None:
    for index, tree in enumerate(order["trees"]):
        target = f"{STAGING}/{tree['name']}"
        _make_mount_point(target, is_directory=tree["is_directory"])
        move_tree(opened[index] if opened else open_tree(tree["path"]), target)
    for overlay in order["overlays"]:
        target = f"{STAGING}/{overlay['name']}"
        _make_mount_point(target, is_directory=True)
        if not overlay["upper"]:
            mount_shared(f"{STAGING}/{overlay['lower']}", target)
            continue
        layers = (overlay["lower"], overlay["upper"], overlay["work"])
        _mount_overlay(target, *[f"{STAGING}/{layer}" for layer in layers])


def _mount_overlay(target: str, lower: str, upper: str, work: str) -> None:
    """Mount it *volatile*: nothing in it waits for the disk, neither a program's fsync nor its own end.

    A workspace outlives no crash of the machine, and whatever is kept of one is synced where it is kept.
    Unmounting would otherwise write out everything that is unwritten on that whole file system. The kernel
    leaves a mark, so that the layers are not trusted after a crash; those that are still here we trust.
    """
    mark = Path(work, _VOLATILE_MARK)
    # There is none if it is mounted for the first time.
    with contextlib.suppress(OSError):
        (mark / "dirty").unlink()
        mark.rmdir()
    options = f"lowerdir={lower},upperdir={upper},workdir={work},userxattr,volatile"
    system_call("mount", b"overlay", target.encode(), b"overlay", 0, options.encode())


def _make_mount_point(path: str, *, is_directory: bool) -> None:
    if is_directory:
        Path(path).mkdir(0o755)
    else:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644))


def _open_content(content: str) -> int:
    descriptor = os.memfd_create("content", os.MFD_CLOEXEC)
    os.pwrite(descriptor, os.fsencode(content), 0)  # to be read from the beginning
    return descriptor


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
        keep_account_powers(uid, gid)
    # What the kernel lets a user send depends on this limit: sandboxes have a lower one.
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
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
            self._hand_over(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        return True

    def _hand_over(self, pid: int) -> None:
        """A child that cannot be handed over ends; the others go on."""
        try:
            send_answer(self._control, {"pid": pid}, [self._children[pid]])
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            signal.pidfd_send_signal(self._children[pid], signal.SIGKILL)
            send_answer(self._control, {"error": str(error)})

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
