"""The supervisor: answers every call that the filter sends up, and tells what it saw.

It starts lenient, because bubblewrap itself mounts and unshares, and becomes strict for good as soon as a
process in another pid namespace asks to start a program: that is the payload, and until then only our own
programs ran. `begin_enforcing` makes it strict earlier. When it ends, by whatever cause, its descriptor is
closed, and the kernel fails all further calls that it would have had to answer.
"""

from __future__ import annotations

import errno
import os
import select
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Annotated, Final, Self, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, MachineError
from repotrial.syscalls._classes import PROHIBITED, CallClass, build_numbers, find_machine
from repotrial.syscalls._decode import (
    Listener,
    Notification,
    ProcessMemory,
    SocketAddress,
    decode_arguments,
    parse_address,
)
from repotrial.syscalls._processes import read_number
from repotrial.syscalls._records import (
    FloodRecord,
    NetworkRecord,
    ProhibitedRecord,
    SyscallRecord,
)
from repotrial.syscalls._witness import SWEEP_SECONDS, ProgramWitness, WitnessFacts

RecordSink: TypeAlias = Callable[[SyscallRecord], None]
"""Takes records, in the supervisor's thread; as long as it takes, the call waits."""

_SECOND_US: Final = 1_000_000
_STOP_SECONDS: Final = 60
_BOOTSTRAP: Final[frozenset[CallClass]] = frozenset({"mount", "namespace"})
"""What bubblewrap needs to build the sandbox."""
_ADDRESS_BYTES: Final = 128
_EXEC_CALLS: Final = frozenset({"execve", "execveat"})
_START_CALLS: Final = frozenset({"arch_prctl", "set_tid_address"})
_NETWORK_CALLS: Final = frozenset({"connect", "sendto"})
_NO_END: Final = -1.0
_LAST_SECONDS: Final = 2.0


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
    asks_on_port: int | None = None
    """Where the agent asks a model: what it started before it asked for the first time is no command."""
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
        self._port = policy.asks_on_port
        self._events = select.epoll()
        self._witness = ProgramWitness(self._listener, self._events, has_commands=policy.asks_on_port is None)
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_told_to_stop = False
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
    def facts(self) -> WitnessFacts:
        """What the witness of programs sees, and what it counted so far."""
        return self._witness.facts

    def find_command(self, pid: int) -> int:
        """The command that a process belongs to, by the number that it carries; 0 if it belongs to none."""
        return self._witness.ledger.find_command(read_number(pid))

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
            self._is_told_to_stop = True
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
            self._witness.close()
            self._events.close()

    def _serve(self) -> None:
        events, listener = self._events, self._listener.fileno()
        events.register(listener, select.EPOLLIN)
        events.register(self._wake, select.EPOLLIN)
        swept = time.monotonic()
        while True:
            ready = events.poll(self._choose_patience())
            now_us = _now_us()
            is_over = False
            is_asked = False
            for descriptor, state in ready:
                if self._witness.is_handle(descriptor):
                    self._tell(self._witness.take_end(descriptor, now_us))
                elif descriptor == listener and state & select.EPOLLIN:
                    is_asked = True
                else:
                    is_over = True
            if is_over:
                self._conclude(seconds=0 if self._is_told_to_stop else _LAST_SECONDS)
                return
            if is_asked:
                self._answer_next(now_us)
            if self._gate.is_due(now_us - _SECOND_US):
                self._tell_floods(now_us - _SECOND_US)
            if time.monotonic() - swept >= SWEEP_SECONDS and self._witness.needs_sweeps:
                self._tell(self._witness.sweep())
                swept = time.monotonic()

    def _choose_patience(self) -> float:
        if self._witness.needs_sweeps:
            return SWEEP_SECONDS
        return 1.0 if self._gate.has_pending else _NO_END

    def _conclude(self, *, seconds: float) -> None:
        """Tell what was counted, and of programs that ended with the sandbox.

        A process lets go of its filter before it is dead: its handle tells a moment later.
        """
        self._events.unregister(self._listener.fileno())
        deadline = time.monotonic() + seconds
        while self._witness.has_handles:
            ready = self._events.poll(max(0.0, deadline - time.monotonic()))
            ended = [each for each, _ in ready if self._witness.is_handle(each)]
            for handle in ended:
                self._tell(self._witness.take_end(handle, _now_us()))
            if not ended:
                break
        self._tell_floods(_now_us() + 1)

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
        elif call in _START_CALLS:
            self._answer_start(notification)
        elif call in _NETWORK_CALLS:
            self._answer_network(notification, call)
        else:
            self._answer_prohibited(notification, call)

    def _answer_exec(self, notification: Notification, call: str, now_us: int) -> None:
        if not self.is_enforcing and self._is_payload(notification):
            self.begin_enforcing()
        records = self._witness.hold(notification, call, now_us) if self.is_enforcing else []
        # What waits is told first: a signal in the meantime makes its call fail (EINTR).
        self._listener.let_through(notification)
        if self.is_enforcing:
            self._witness.count(notification)
        self._tell(records)

    def _answer_start(self, notification: Notification) -> None:
        records = self._witness.confirm(notification)
        self._listener.let_through(notification)
        self._tell(records)

    def _tell(self, records: Iterable[SyscallRecord]) -> None:
        for record in records:
            self._sink(record)

    def _is_payload(self, notification: Notification) -> bool:
        try:
            return Path(f"/proc/{notification.pid}/ns/pid").readlink() != self._own_namespace
        except OSError:
            # Out of sight: strict, then bubblewrap fails rather than anything gets away.
            return True

    def _answer_network(self, notification: Notification, call: str) -> None:
        address = self._read_address(notification, call)
        if address is None or address.is_inside:
            self._listener.let_through(notification)
            if address is not None and address.port == self._port:
                self._witness.ledger.has_commands = True
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
