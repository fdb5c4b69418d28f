"""The supervisor: answers every call that the filter sends up, and tells what it saw.

It starts lenient, because bubblewrap itself mounts and unshares, and becomes strict for good as soon as a
process in another pid namespace asks to start a program: that is the payload, and until then only our own
programs ran. `begin_enforcing` makes it strict earlier. When it ends, by whatever cause, its descriptor is
closed, and the kernel fails all further calls that it would have had to answer.
"""

from __future__ import annotations

import contextlib
import errno
import os
import select
import threading
import time
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, Self, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, MachineError
from repotrial.isolation._calls._decode import (
    UNREAD,
    Listener,
    Notification,
    ProcessMemory,
    SocketAddress,
    decode_arguments,
    parse_address,
    read_program,
)
from repotrial.isolation._calls._records import (
    ExecRecord,
    FloodRecord,
    NetworkRecord,
    ProhibitedRecord,
    SyscallRecord,
)
from repotrial.isolation._launch_server._syscalls import PROHIBITED, CallClass, build_numbers, find_machine

RecordSink: TypeAlias = Callable[[SyscallRecord], None]
"""Takes records, in the supervisor's thread; as long as it takes, the call waits."""

_SECOND_US: Final = 1_000_000
_STOP_SECONDS: Final = 60
_BOOTSTRAP: Final[frozenset[CallClass]] = frozenset({"mount", "namespace"})
"""What bubblewrap needs to build the sandbox."""
_ADDRESS_BYTES: Final = 128
_EXEC_CALLS: Final = frozenset({"execve", "execveat"})
_NETWORK_CALLS: Final = frozenset({"connect", "sendto"})


SUPERVISOR_LOST = ErrorCode(
    "supervisor-lost",
    MachineError,
    "The syscall supervisor ended before it was told to. The sandbox stayed closed, but what happened in it "
    "afterwards is not on record.",
    hint="Repeat the run; report it if it happens again.",
)


@cache
def _load_names() -> Mapping[int, str]:
    """Calls of this machine, by number."""
    return {number: name for name, number in build_numbers(find_machine()).items()}


class SupervisorPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """How a supervisor behaves."""

    has_bootstrap: bool = True
    """Whether bubblewrap is still to build the sandbox; without, it is strict from the start."""
    records_per_second: Annotated[int, msgspec.Meta(ge=1)] = 4000
    """How many records each call may cause; beyond, they are counted."""


class _Window:
    """One second of one call."""

    __slots__ = ("admitted", "first_us", "last_us", "start_us", "suppressed")

    def __init__(self, start_us: int) -> None:
        self.start_us = start_us
        self.admitted = 0
        self.suppressed = 0
        self.first_us = self.last_us = start_us


class _Gate:
    """Lets so many records a second through for each call, and counts the others."""

    def __init__(self, per_second: int) -> None:
        self._per_second = per_second
        self._windows: dict[tuple[str, CallClass], _Window] = {}
        self._oldest_us: int | None = None
        self.has_pending = False
        """Whether something was counted that has not been reported."""

    def admits(self, key: tuple[str, CallClass], now_us: int) -> bool:
        window = self._windows.get(key)
        if window is None:
            window = self._windows[key] = _Window(now_us)
            if self._oldest_us is None:
                self._oldest_us = now_us
        if window.admitted < self._per_second:
            window.admitted += 1
            return True
        if window.suppressed == 0:
            window.first_us = now_us
        window.suppressed += 1
        window.last_us = now_us
        self.has_pending = True
        return False

    def is_due(self, before_us: int) -> bool:
        """Whether a window began before an instant."""
        return self._oldest_us is not None and self._oldest_us < before_us

    def drain(self, before_us: int) -> list[FloodRecord]:
        """Close the windows that began before an instant; what they counted."""
        floods = []
        for key, window in list(self._windows.items()):
            if window.start_us >= before_us:
                continue
            del self._windows[key]
            if window.suppressed:
                floods.append(
                    FloodRecord(
                        call=key[0],
                        call_class=key[1],
                        first_us=window.first_us,
                        last_us=window.last_us,
                        count=window.suppressed,
                    )
                )
        self._oldest_us = min((window.start_us for window in self._windows.values()), default=None)
        self.has_pending = any(window.suppressed for window in self._windows.values())
        return floods


class SyscallSupervisor:
    """Answers for one filter, in a thread of its own.

    Args:
        listener: The descriptor that `install_filter` returned, received from the launcher; owned from here.
        sink: Takes what is seen.
        policy: How it behaves.
    """

    def __init__(self, listener: int, *, sink: RecordSink, policy: SupervisorPolicy) -> None:
        self._listener = Listener(listener)
        self._sink = sink
        self._gate = _Gate(policy.records_per_second)
        self._is_enforcing = not policy.has_bootstrap
        self._own_namespace = Path("/proc/self/ns/pid").readlink() if policy.has_bootstrap else None
        self._names = _load_names()
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="syscall-supervisor", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def begin_enforcing(self) -> None:
        """From here on bubblewrap's own calls are refused too; there is no way back."""
        self._is_enforcing = True

    @property
    def is_enforcing(self) -> bool:
        return self._is_enforcing

    @property
    def is_alive(self) -> bool:
        """Whether it still answers; it also ends by itself when the last supervised process has."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """End it; whatever is still running under the filter is refused from here on.

        Raises:
            SUPERVISOR_LOST: It had failed before.
        """
        if self._wake >= 0:
            os.eventfd_write(self._wake, 1)
            self._thread.join(_STOP_SECONDS)
            if self._thread.is_alive():
                raise SUPERVISOR_LOST.error(f"expected it to end within {_STOP_SECONDS} s, found it stuck")
            os.close(self._wake)
            self._wake = -1
        if self._failure is not None:
            raise SUPERVISOR_LOST.error(f"it ended with {self._failure!r}") from self._failure

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            self._serve()
        except BaseException as error:  # noqa: BLE001 - kept for `stop`, which raises it where it is seen
            self._failure = error
        finally:
            self._listener.close()

    def _serve(self) -> None:
        listener = self._listener.fileno()
        poll = select.poll()
        poll.register(listener, select.POLLIN)
        poll.register(self._wake, select.POLLIN)
        while True:
            ready = poll.poll(1000 if self._gate.has_pending else None)
            now_us = _now_us()
            if self._gate.is_due(now_us - _SECOND_US):
                self._tell_floods(now_us - _SECOND_US)
            for descriptor, state in ready:
                if descriptor != listener or not state & select.POLLIN:
                    self._tell_floods(_now_us() + 1)
                    return
            if ready:
                self._answer_next(now_us)

    def _tell_floods(self, before_us: int) -> None:
        for record in self._gate.drain(before_us):
            self._sink(record)

    def _answer_next(self, now_us: int) -> None:
        notification = self._listener.receive()
        if notification is None:
            return
        call = self._names.get(notification.number) or str(notification.number)
        # A program waits for each answer: the most frequent question comes first.
        if call in _EXEC_CALLS:
            self._answer_exec(notification, call, now_us)
        elif call in _NETWORK_CALLS:
            self._answer_network(notification, call)
        else:
            self._answer_prohibited(notification, call)

    def _answer_exec(self, notification: Notification, call: str, now_us: int) -> None:
        if not self.is_enforcing and self._is_payload(notification):
            self.begin_enforcing()
        if self.is_enforcing and self._gate.admits((call, "exec"), now_us):
            record = self._read_exec(notification, call, now_us)
            if record is not None:
                self._sink(record)
        self._listener.let_through(notification)

    def _is_payload(self, notification: Notification) -> bool:
        try:
            return Path(f"/proc/{notification.pid}/ns/pid").readlink() != self._own_namespace
        except OSError:
            # Out of sight: strict, then bubblewrap fails rather than anything gets away.
            return True

    def _read_exec(self, notification: Notification, call: str, now_us: int) -> ExecRecord | None:
        """That a program was started is on record even if it may not be read which."""
        first = 1 if call == "execveat" else 0
        path, argv = notification.arguments[first : first + 2]
        program, cwd = UNREAD, b""
        with contextlib.suppress(OSError), ProcessMemory(notification.pid) as memory:
            found = read_program(memory, path=path, argv=argv)
            cwd = os.readlink(b"/proc/%d/cwd" % notification.pid)  # noqa: PTH115 - a path object costs more than it
            program = found
        if not self._listener.is_waiting(notification):
            return None
        return ExecRecord(
            call=call,
            call_class="exec",
            at_us=now_us,
            pid=notification.pid,
            path=program.path,
            argv=program.argv,
            cwd=cwd.decode("utf-8", "backslashreplace"),
            is_truncated=not program.is_complete,
        )

    def _answer_network(self, notification: Notification, call: str) -> None:
        address = self._read_address(notification, call)
        if address is None or address.is_inside:
            self._listener.let_through(notification)
            return
        now_us = _now_us()
        if self._gate.admits((call, "network"), now_us):
            self._sink(
                NetworkRecord(
                    call=call,
                    call_class="network",
                    at_us=now_us,
                    pid=notification.pid,
                    address=str(address),
                    error=errno.errorcode[errno.ENETUNREACH],
                )
            )
        self._listener.refuse(notification, errno.ENETUNREACH)

    def _read_address(self, notification: Notification, call: str) -> SocketAddress | None:
        """Where to; None where it is none of the internet's, or unreadable: the namespace is empty anyway."""
        first = 4 if call == "sendto" else 1
        pointer, length = notification.arguments[first : first + 2]
        try:
            with ProcessMemory(notification.pid) as memory:
                return parse_address(memory.read(pointer, min(length & 0xFFFFFFFF, _ADDRESS_BYTES)))
        except OSError:
            return None

    def _answer_prohibited(self, notification: Notification, call: str) -> None:
        group = PROHIBITED.get(call)
        call_class: CallClass = "kernel-control" if group is None else group.name
        if not self.is_enforcing and call_class in _BOOTSTRAP:
            self._listener.let_through(notification)
            return
        error = errno.EPERM if group is None else group.error
        now_us = _now_us()
        # On record before the program knows: it cannot get ahead of its own evidence.
        if self._gate.admits((call, call_class), now_us):
            self._sink(
                ProhibitedRecord(
                    call=call,
                    call_class=call_class,
                    at_us=now_us,
                    pid=notification.pid,
                    arguments=self._read_arguments(notification, call),
                    error=errno.errorcode[error],
                )
            )
        self._listener.refuse(notification, error)

    def _read_arguments(self, notification: Notification, call: str) -> tuple[str, ...]:
        try:
            with ProcessMemory(notification.pid) as memory:
                decoded = decode_arguments(memory, call, notification.arguments)
            is_own = self._listener.is_waiting(notification)
        except OSError:
            is_own = False
            decoded = ()
        return decoded if is_own else decode_arguments(None, call, notification.arguments)


def _now_us() -> int:
    return time.time_ns() // 1000
