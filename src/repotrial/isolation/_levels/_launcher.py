"""The harness's side of its two small processes: the launch server, and the helper that enters sandboxes.

The harness has threads, so it may not fork and go on in the child; each of these has one, and may. A whole
interpreter with everything installed starts slowly. So they are modules that need only the standard library,
run by an interpreter that sees nothing else: the packages around them are stand-ins that know where their
modules are, and run no code.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import json
import os
import select
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from repotrial._core.closing import Closing
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.isolation._identity import Account, find_identity
from repotrial.isolation._launch_server._descriptors import receive_with_descriptors
from repotrial.isolation._launch_server._helper_process import MESSAGE_BYTES
from repotrial.isolation._launch_server._messages import StartOrder, receive_answer, send_order

_REPLY_SECONDS: Final = 60.0
_END_SECONDS: Final = 5.0
_PACKAGE: Final = "repotrial.isolation._launch_server"
_BOOT: Final = """\
import importlib, sys, types
root, module = sys.argv[1:3]
for name in ("repotrial", "repotrial.isolation", "repotrial.isolation._launch_server"):
    package = types.ModuleType(name)
    package.__path__ = [root + "/" + name.replace(".", "/")]
    sys.modules[name] = package
importlib.import_module(module).main(sys.argv[3:])
"""


LAUNCHER_LOST = ErrorCode(
    "launcher-lost",
    MachineError,
    "The process that starts sandboxes for the harness ended or does not answer. What it had started ended "
    "with it.",
    hint="Repeat the command; look whether the machine is out of memory or processes.",
)
HELPER_LOST = ErrorCode(
    "helper-lost",
    MachineError,
    "The process that enters sandboxes for the harness ended or does not answer.",
    hint="Repeat the command; look whether the machine is out of memory or processes.",
)


class _SmallProcess(Closing):
    """A process of one thread and the channel to it; ends when this object is closed or this process ends.

    Args:
        module: Its name in `_launch_server`; its `main` gets the channel's descriptor and the arguments.
        arguments: Further numbers for it.
        lost: The error if it does not answer.
        pass_fds: Further descriptors that it inherits.
    """

    def __init__(
        self, module: str, *arguments: int, lost: ErrorCode[MachineError], pass_fds: Sequence[int] = ()
    ) -> None:
        self.owner_pid = os.getpid()
        self._lost = lost
        self._lock = threading.Lock()
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._channel.settimeout(_REPLY_SECONDS)
        root = str(Path(__file__).resolve().parents[3])
        numbers = map(str, (theirs.fileno(), *arguments))
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", "-c", _BOOT, root, f"{_PACKAGE}.{module}", *numbers],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    pass_fds=(theirs.fileno(), *pass_fds),
                    env={"LD_BIND_NOW": "1"},  # what is resolved now, none of its many children has to
                    cwd="/",
                    # An interrupt from the keyboard is for the harness, which then closes its sandboxes in
                    # order.
                    start_new_session=True,
                )
        except OSError as error:
            raise lost.error(f"expected to start {error.filename}, found: {error}") from error

    @property
    def pid(self) -> int:
        return self._process.pid

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

    @contextlib.contextmanager
    def _exchange(self) -> Iterator[socket.socket]:
        """The channel, for one request and its answer."""
        with self._lock:
            try:
                yield self._channel
            except (EOFError, OSError) as error:
                # With too many descriptors on their way nothing was sent, and its other sandboxes are well.
                if not isinstance(error, OSError) or error.errno != errno.ETOOMANYREFS:
                    self._process.kill()
                raise self._lost.error(f"expected an answer, found: {error}") from error
            except BaseException:
                # An interrupt: the answer that still comes would be taken for that of the next request.
                self._process.kill()
                raise

    def close(self) -> None:
        """End it, and with it all that it started."""
        self._channel.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class NamespaceHelper(_SmallProcess):
    """Carries out requests inside the namespaces of sandboxes."""

    def __init__(self) -> None:
        super().__init__("_helper_process", lost=HELPER_LOST)

    def request(self, **fields: object) -> int | None:
        """Carry out one request.

        Returns:
            The descriptor that it brought, if any.

        Raises:
            OSError: The kernel refused, as it said inside.
            HELPER_LOST: There was no answer.
        """
        message = json.dumps(fields).encode()
        if len(message) > MESSAGE_BYTES:
            raise OSError(
                errno.E2BIG, f"a request of {len(message)} bytes; at most {MESSAGE_BYTES} are possible"
            )
        with self._exchange() as channel:
            channel.sendall(message)
            answer, descriptors = receive_with_descriptors(channel, MESSAGE_BYTES)
            if not answer:
                raise EOFError("the end of the channel")
        match json.loads(answer):
            case {"errno": int(number), "message": str(text)}:
                raise OSError(number, text)
            case _:
                return descriptors[0] if descriptors else None


class Launched(NamedTuple):
    """A process that the launch server made."""

    pid: int
    pidfd: int
    """Readable once it has ended; owned by the caller."""


class Launcher(_SmallProcess):
    """The launch server, from which every sandbox descends.

    Args:
        identity: The account of programs in its sandboxes, on the host.
    """

    def __init__(self, identity: Account | None = None) -> None:
        self.identity = find_identity(identity)
        harness = os.pidfd_open(os.getpid())
        try:
            super().__init__(
                *("_serve", harness, self.identity.uid, self.identity.gid),
                lost=LAUNCHER_LOST,
                pass_fds=(harness,),
            )
        finally:
            os.close(harness)

    def start_sandbox(self, order: StartOrder, descriptors: Sequence[int]) -> Launched:
        """The entry of a new sandbox, which starts the rest."""
        if not os.geteuid() and not order["account"]:
            order["account"] = [self.identity.uid, self.identity.gid]
        with self._exchange() as channel:
            send_order(channel, order, descriptors)
            answer, received = receive_answer(channel)
        if "error" in answer:
            for descriptor in received:
                os.close(descriptor)
            raise LAUNCHER_LOST.error(f"the launch server could not fork: {answer['error']}")
        return Launched(answer["pid"], received[0])


_Kind = TypeVar("_Kind", bound=_SmallProcess)


class _Shared(Generic[_Kind]):
    """The process of a kind that all of this harness shares; started when it is first needed."""

    def __init__(self, start: Callable[[], _Kind]) -> None:
        self._start = start
        self._lock = threading.Lock()
        self._process: _Kind | None = None
        self._lost = 0

    @property
    def lost(self) -> int:
        """How many ended before they were closed."""
        process = self._process
        is_ours = process is not None and process.owner_pid == os.getpid()
        return self._lost + (process is not None and is_ours and not process.is_alive)

    def open(self) -> _Kind:
        with self._lock:
            process = self._process
            # A child of the harness has its own; two must not talk through one channel.
            is_ours = process is not None and process.owner_pid == os.getpid()
            if process is not None and is_ours and process.is_alive:
                return process
            if process is not None and is_ours:
                self._lost += 1
                process.close()
            if process is None:
                atexit.register(self._close)
            self._process = self._start()
            return self._process

    def _close(self) -> None:
        process = self._process
        if process is not None and process.owner_pid == os.getpid():
            with contextlib.suppress(OSError):
                process.close()


class AccountMaps:
    """How files of the account that workspaces belong to are shown to that of a sandbox."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._opened: dict[tuple[int, Account, Account], int] = {}

    def open(self, stored: Account, shown: Account) -> int:
        """A user namespace with this map; it belongs to this object, and is made once.

        Raises:
            OSError: The kernel refuses.
            HELPER_LOST: There was no answer.
        """
        key = (os.getpid(), stored, shown)
        with self._lock:
            if key not in self._opened:
                inside, outside = [stored.uid, stored.gid], [shown.uid, shown.gid]
                descriptor = open_default_helper().request(operation="map", inside=inside, outside=outside)
                assert descriptor is not None
                self._opened[key] = descriptor
            return self._opened[key]


account_maps: Final = AccountMaps()
_launcher: Final = _Shared(Launcher)
_helper: Final = _Shared(NamespaceHelper)


def open_default_launcher() -> Launcher:
    """The launcher of this process, started now if there is none."""
    return _launcher.open()


def watch_servers() -> Callable[[], None]:
    """A check that raises if a process that sandboxes depend on was lost from now on.

    No program in a sandbox can reach these processes: such a loss is never the candidate's doing.

    Raises:
        LAUNCHER_LOST: as the check says.
    """
    before = _launcher.lost + _helper.lost

    def check() -> None:
        if _launcher.lost + _helper.lost > before:
            raise LAUNCHER_LOST.error(
                "a process that starts sandboxes or enters them ended while one was open"
            )

    return check


def open_default_helper() -> NamespaceHelper:
    """The helper of this process, started now if there is none."""
    return _helper.open()
