"""One bubblewrap, from its start until its last process is gone; and the way into it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import signal
import socket
import struct
from collections.abc import Iterator
from typing import Final

import msgspec

from repotrial._core.display import neutralize
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.isolation._identity import Account
from repotrial.isolation._launch_server._confine import open_tree, show_as
from repotrial.isolation._launch_server._idle import READY, build_idle_program
from repotrial.isolation._launch_server._messages import StartOrder, receive_answer, send_order
from repotrial.isolation._launch_server._processes import wait_for_end
from repotrial.isolation._levels._launcher import Launched, Launcher, account_maps
from repotrial.isolation._resources._cgroups import Cgroup
from repotrial.syscalls import find_machine

_START_SECONDS: Final = 60.0
_END_SECONDS: Final = 30.0
"""Usually a millisecond; but if the launch server has died, the host's own init has to bury the dead."""
_ERROR_BYTES: Final = 4096
_SHOWN: Final = 1000
_CREDENTIALS: Final = struct.Struct("=iII")
"""Process, user and group, as SCM_CREDENTIALS has them."""


SANDBOX_START = ErrorCode(
    "sandbox-start",
    MachineError,
    "A sandbox could not be started.",
    hint="`repotrial doctor` shows what this machine can do, and how to get what is missing.",
)


class BubblewrapProcess(msgspec.Struct, frozen=True, kw_only=True):
    """A started bubblewrap, with its first process waiting inside."""

    outer: Launched
    """Bubblewrap itself, outside."""
    init: Launched
    """PID 1 of the sandbox, as the host counts."""
    lifeline: int
    """While this is open, the first process waits."""

    def end(self) -> bool:
        """Kill everything inside; whether the kernel has confirmed it.

        The end of PID 1 is told only after every other process of its namespace is gone.
        """
        for process in (self.init, self.outer):
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(process.pidfd, signal.SIGKILL)
        return all(wait_for_end(process.pidfd, seconds=_END_SECONDS) for process in (self.init, self.outer))

    def close(self) -> None:
        """Let go of its descriptors, after its end."""
        for descriptor in (self.lifeline, self.init.pidfd, self.outer.pidfd):
            os.close(descriptor)


class SandboxEntry:
    """The process that starts bubblewrap, and through which commands get into the sandbox.

    Args:
        channel: To it.
        process: What the launch server made.
    """

    def __init__(self, channel: socket.socket, process: Launched) -> None:
        self.channel = channel
        self._process = process
        self._is_ended = False
        self.channel.settimeout(_START_SECONDS)

    def find_bubblewrap(self) -> Launched | None:
        """What it has started; None if that was not possible."""
        try:
            body, (pidfd,) = receive_answer(self.channel)
        except (EOFError, OSError):
            return None
        return Launched(body["pid"], pidfd)

    def enter(self, process: BubblewrapProcess) -> tuple[int, int | None]:
        """Go inside; from then on the channel takes orders.

        Returns:
            The sandbox's own /proc, and the listener of the filter.

        Raises:
            SANDBOX_START: The kernel does not let us.
        """
        try:
            send_order(self.channel, {"pid": process.init.pid}, [process.init.pidfd])
            body, attachments = receive_answer(self.channel)
        except (EOFError, OSError) as error:
            raise SANDBOX_START.error(f"expected to enter the sandbox, found: {error}") from error
        if "error" in body:
            raise SANDBOX_START.error(f"the sandbox could not be entered: {body['error']}")
        self.channel.settimeout(None)
        table, *listeners = attachments
        return table, listeners[0] if listeners else None

    def end(self) -> None:
        """End it, before its sandbox. Idempotent.

        The kernel keeps a PID namespace until all its dead processes are waited for; those of the entry now
        pass to the launch server, which does that.
        """
        if self._is_ended:
            return
        with contextlib.suppress(OSError):
            signal.pidfd_send_signal(self._process.pidfd, signal.SIGKILL)
        self._is_ended = wait_for_end(self._process.pidfd, seconds=_END_SECONDS)

    def close(self) -> None:
        """Let go of its descriptors, after its end."""
        self.channel.close()
        os.close(self._process.pidfd)


class PendingBubblewrap:
    """A bubblewrap that is at work; there is time for something else.

    Args:
        order: What it is told.
        launcher: Makes the process that starts it.
        group: The control group that all commands are in.
        account: Of its own; without, it has the one that all workspaces belong to.

    Raises:
        SANDBOX_START: A source is not there.
        LAUNCHER_LOST: The launch server is gone.
    """

    def __init__(
        self, order: StartOrder, *, launcher: Launcher, group: Cgroup | None, account: Account | None = None
    ) -> None:
        with contextlib.ExitStack() as kept, contextlib.ExitStack() as theirs:
            channel, channel_end = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            kept.enter_context(channel)
            theirs.enter_context(channel_end)
            lifeline_end, self._lifeline = _open_pipe(theirs, kept)
            self._error, error_end = _open_pipe(kept, theirs)
            self._ready, ready_end = socket.socketpair()
            kept.enter_context(self._ready)
            theirs.enter_context(ready_end)
            # The kernel then adds to what is said who says it, by its number in our own PID namespace.
            self._ready.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
            standard = (lifeline_end, ready_end.fileno(), error_end)
            fixed = (channel_end.fileno(), *standard, _open_idle_program())
            mapping = None
            if account is not None:
                order["account"] = [account.uid, account.gid]
                mapping = account_maps.open(launcher.identity, account)
            trees = theirs.enter_context(_open_trees(order, launcher.identity.uid, mapping))
            order["opened_trees"] = len(trees)
            join_fds = [] if group is None else theirs.enter_context(group.open_join_fds())
            launched = launcher.start_sandbox(order, [*fixed, *trees, *join_fds])
            self.entry = SandboxEntry(channel, launched)
            self._kept = kept.pop_all()

    def wait(self) -> BubblewrapProcess:
        """Wait until all is set up inside.

        Raises:
            SANDBOX_START: It is not possible; the message says what bubblewrap or the kernel said.
        """
        outer = self.entry.find_bubblewrap()
        if outer is None:
            raise _build_start_error(self._error)
        try:
            init = _find_init(_await_ready(self._ready, self._error), outer)
        except MachineError:  # `sandbox-start`
            os.close(outer.pidfd)
            raise
        self._kept.pop_all()
        self._ready.close()
        os.close(self._error)
        return BubblewrapProcess(outer=outer, init=init, lifeline=self._lifeline)

    def discard(self) -> None:
        """Give it up, unless it has been waited for."""
        self._kept.close()


def _open_pipe(reader: contextlib.ExitStack, writer: contextlib.ExitStack) -> tuple[int, int]:
    read_end, write_end = os.pipe2(os.O_CLOEXEC)
    reader.callback(os.close, read_end)
    writer.callback(os.close, write_end)
    return read_end, write_end


@functools.cache
def _open_idle_program() -> int:
    """A program that is no file anywhere, and that cannot be changed: one for all sandboxes."""
    descriptor = os.memfd_create("init", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, build_idle_program(find_machine()))
    seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
    return descriptor


@contextlib.contextmanager
def _open_trees(order: StartOrder, stored_uid: int, mapping: int | None) -> Iterator[list[int]]:
    """The trees, where we are root: the launch server could not walk to those below a private directory."""
    opened: list[int] = []
    try:
        if not os.geteuid():
            # The directory around changes may be root's own.
            changed = {overlay["upper"].partition("/")[0] for overlay in order["overlays"]}
            for tree in order["trees"]:
                opened.append(_open_one_tree(tree["path"]))
                is_stored = os.fstat(opened[-1]).st_uid == stored_uid or tree["name"] in changed
                if mapping is not None and is_stored:
                    _show_as(opened[-1], mapping, tree["path"])
        yield opened
    finally:
        for descriptor in opened:
            os.close(descriptor)


def _open_one_tree(path: str) -> int:
    try:
        return open_tree(path)
    except OSError as error:
        raise SANDBOX_START.error(f"{path}: expected a directory or file to show, found: {error}") from error


def _show_as(tree: int, mapping: int, path: str) -> None:
    try:
        show_as(tree, mapping)
    except OSError as error:
        raise SANDBOX_START.error(
            f"{path}: expected files that can be shown as another account's, found: {error}",
            hint="keep runs and caches on ext4, xfs, btrfs or tmpfs",
        ) from error


def _await_ready(ready: socket.socket, error: int) -> int:
    """The number of the first process, once it says that all is set up."""
    ready.settimeout(_START_SECONDS)
    with contextlib.suppress(OSError):
        said, ancillary, _, _ = ready.recvmsg(1, socket.CMSG_SPACE(_CREDENTIALS.size))
        if said == READY:
            pid: int = _CREDENTIALS.unpack(ancillary[0][2])[0]
            return pid
    raise _build_start_error(error)


def _build_start_error(error: int) -> MachineError:
    """What bubblewrap, or the process that was to start it, said last."""
    said = b""
    os.set_blocking(error, False)
    with contextlib.suppress(BlockingIOError):
        said = os.read(error, _ERROR_BYTES)
    text = said.decode(errors="replace").strip() or "it ended, or did not answer in time"
    return SANDBOX_START.error(
        f"expected bubblewrap to set up a sandbox, found: {neutralize(text, max_characters=_SHOWN)}"
    )


def _find_init(pid: int, outer: Launched) -> Launched:
    try:
        pidfd = os.pidfd_open(pid)
    except OSError as error:
        raise SANDBOX_START.error(f"the sandbox ended while it started: {error}") from error
    # As long as its ancestor lives, it has not been waited for, and the number is still its own.
    if wait_for_end(outer.pidfd, seconds=0):
        os.close(pidfd)
        raise SANDBOX_START.error("bubblewrap ended while the sandbox started")
    return Launched(pid, pidfd)
