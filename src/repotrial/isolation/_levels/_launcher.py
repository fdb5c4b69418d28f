"""The harness's side of the launch server: starts it, asks it, ends it."""

from __future__ import annotations

import atexit
import contextlib
import os
import select
import socket
import subprocess
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Final, NamedTuple, Self

from repotrial._core.errors import ErrorCode, MachineError
from repotrial.isolation._identity import Account, find_identity
from repotrial.isolation._launch_server._boot import build_boot_argv
from repotrial.isolation._launch_server._messages import StartOrder, receive_answer, send_order

_REPLY_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0


LAUNCHER_LOST = ErrorCode(
    "launcher-lost",
    MachineError,
    "The process that starts sandboxes for the harness ended or does not answer. What it had started ended "
    "with it.",
    hint="Repeat the command; look whether the machine is out of memory or processes.",
)


class Launched(NamedTuple):
    """A process that the launch server made."""

    pid: int
    pidfd: int
    """Readable once it has ended; owned by the caller."""


class Launcher:
    """A launch server and the channel to it; ends when this object is closed or this process ends.

    Args:
        identity: The account of programs in its sandboxes, on the host.
    """

    def __init__(self, identity: Account | None = None) -> None:
        self.identity = find_identity(identity)
        self.owner_pid = os.getpid()
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_REPLY_SECONDS)
        harness = os.pidfd_open(self.owner_pid)
        try:
            with theirs:
                self._process = self._start(theirs.fileno(), harness)
        finally:
            os.close(harness)

    def _start(self, control: int, harness: int) -> subprocess.Popen[bytes]:
        numbers = (control, harness, self.identity.uid, self.identity.gid)
        try:
            return subprocess.Popen(
                build_boot_argv("_serve", *map(str, numbers)),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(control, harness),
                env={"LD_BIND_NOW": "1"},  # what is resolved now, none of its many children has to
                cwd="/",
                # An interrupt from the keyboard is for the harness, which then closes its sandboxes in order.
                start_new_session=True,
            )
        except OSError as error:
            raise LAUNCHER_LOST.error(f"expected to start {error.filename}, found: {error}") from error

    def start_sandbox(self, order: StartOrder, descriptors: Sequence[int]) -> Launched:
        """The entry of a new sandbox, which starts the rest."""
        with self._lock:
            try:
                send_order(self._channel, order, descriptors)
                answer, received = receive_answer(self._channel)
            except (EOFError, OSError) as error:
                self._process.kill()
                raise LAUNCHER_LOST.error(
                    f"expected an answer of the launch server, found: {error}"
                ) from error
            except BaseException:
                # An interrupt: the answer that still comes would be taken for that of the next request.
                self._process.kill()
                raise
        if "error" in answer:
            for descriptor in received:
                os.close(descriptor)
            raise LAUNCHER_LOST.error(f"the launch server could not fork: {answer['error']}")
        return Launched(answer["pid"], received[0])

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None and not self._has_hung_up()

    def _has_hung_up(self) -> bool:
        """Whether it is ending: the kernel closes a process's channels before others can wait for it."""
        if self._channel.fileno() < 0:
            return True
        poll = select.poll()
        poll.register(self._channel, 0)
        return bool(poll.poll(0))

    @property
    def pid(self) -> int:
        return self._process.pid

    def close(self) -> None:
        """End it, and with it every sandbox that it started."""
        self._channel.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Default:
    """The launcher that this process shares; made when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._launcher: Launcher | None = None

    def open(self) -> Launcher:
        with self._lock:
            launcher = self._launcher
            is_ours = launcher is not None and launcher.owner_pid == os.getpid()
            if launcher is not None and is_ours and launcher.is_alive:
                return launcher
            if launcher is not None and is_ours:
                launcher.close()
            if launcher is None:
                atexit.register(self._close)
            self._launcher = Launcher()
            return self._launcher

    def _close(self) -> None:
        launcher = self._launcher
        if launcher is not None and launcher.owner_pid == os.getpid():
            with contextlib.suppress(OSError):
                launcher.close()


_default: Final = _Default()


def open_default_launcher() -> Launcher:
    """The launcher of this process, started now if there is none."""
    return _default.open()
