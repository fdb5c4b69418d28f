"""A sandbox of a contract: one with its services running in it."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from repotrial._core.clock import SystemClock
from repotrial._core.closing import Closing
from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ContractError, ErrorCode, MachineError
from repotrial._core.words import Stage
from repotrial.contract import CommandReadiness, Service
from repotrial.environment._executions import (
    HostExecution,
    build_execution,
    capture,
    find_telling,
    tell_execution,
)
from repotrial.isolation import (
    SANDBOX_LOST,
    BubblewrapSandbox,
    Capabilities,
    CommandResult,
    CommandSpec,
    ResourceSample,
    Sampler,
    Sandbox,
)
from repotrial.syscalls import EndRecord, RecordSink, StartRecord, SyscallRecord, WitnessFacts
from repotrial.trace import Exited, ExitUnknown, NotStarted, Signaled, TimedOut

_SHOWN_CHARACTERS: Final = 1500


def render_tail(result: CommandResult) -> str:
    """The last that a program printed, harmless to a terminal."""
    parts = []
    for name, stream in (("stdout", result.stdout), ("stderr", result.stderr)):
        text = stream.prefix.decode("utf-8", "backslashreplace").strip()
        if text:
            cut = "…" if len(text) > _SHOWN_CHARACTERS or stream.length_bytes > len(stream.prefix) else ""
            parts.append(f"{name}: {cut}{escape_unprintable(text[-_SHOWN_CHARACTERS:], keep=chr(10))}")
    return "\n".join(parts) or "it printed nothing"


def describe_end(result: CommandResult) -> str:
    """How a program ended, in words."""
    if result.cause not in {"ended", "timeout"}:
        return f"ended by the limit on {result.cause}"
    match result.exit:
        case Exited(code=code):
            return f"exit code {code}"
        case Signaled(signal=number):
            return f"signal {number}"
        case TimedOut(ceiling_us=ceiling_us):
            return f"no end within {ceiling_us // 1_000_000} s"
        case NotStarted(reason=reason) | ExitUnknown(reason=reason):
            return reason


_INITIALIZE_SECONDS: Final = 600
_TRY_SECONDS: Final = 30
_ASK_SECONDS: Final = 10
_KEPT_BYTES: Final = 1 << 20
_OUTPUT_BYTES: Final = 1 << 30
"""A database may talk for days; it is digested, not kept."""

_START: Final = (
    'mkdir -p /run/repotrial && echo "$$" > "/run/repotrial/$0.pid" && exec bash -euo pipefail -c "$1"'
)
# Its group: whatever the command line started has been asked as well.
# Opened for both: programs inside may have put a pipe in its place, which is never written to.
_ASK: Final = 'read -r -t 2 leader <> "/run/repotrial/$0.pid" && kill -TERM -- "-$leader"'
_KNOCK: Final = 'exec 3<> "/dev/tcp/127.0.0.1/$0"'


SERVICE_NOT_READY = ErrorCode(
    "service-not-ready",
    ContractError,
    "A service did not become ready, ended before, or could not be initialized.",
    hint="look at what it printed; it must run in the foreground and answer as `readiness` says",
)


class _RunningService:
    """A service in a thread that waits for its end."""

    def __init__(self, service: Service, sandbox: Sandbox) -> None:
        self.service = service
        self._sandbox = sandbox
        self._result: CommandResult | None = None
        self._started_us = SystemClock().now_us()
        self._has_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"service {service.id}", daemon=True)
        self._thread.start()

    @property
    def result(self) -> CommandResult | None:
        """How it ended; none while it runs."""
        return self._result

    @property
    def has_ended(self) -> bool:
        return self._has_ended.is_set()

    def wait(self, seconds: float) -> bool:
        """Whether it has ended within this time."""
        return self._has_ended.wait(seconds)

    def stop(self) -> None:
        """Ask it to end, and wait for as long as the contract grants; the sandbox's end kills the rest."""
        if self.has_ended:
            return
        command = CommandSpec(argv=("bash", "-c", _ASK, self.service.id), timeout_seconds=_ASK_SECONDS)
        try:
            if self._sandbox.run(command).exit == Exited(code=0):
                self.wait(self.service.stop_seconds)
        except MachineError as error:
            if error.code != SANDBOX_LOST:
                raise

    def join(self) -> None:
        """Wait for the thread, once the sandbox is closed."""
        self._thread.join()

    def build_record(self) -> HostExecution:
        """What it was, for the record; once it was waited for."""
        argv = ("bash", "-euo", "pipefail", "-c", self.service.run)
        if self._result is not None:
            return build_execution(
                "service", self.service.id, argv, self._result, started_us=self._started_us
            )
        return HostExecution(
            purpose="service",
            name=self.service.id,
            argv=argv,
            cwd=".",
            exit=ExitUnknown(reason="its sandbox ended first"),
            started_at_us=self._started_us,
            ended_at_us=max(self._started_us, SystemClock().now_us()),
            stdout=capture(b""),
            stderr=capture(b""),
        )

    def _run(self) -> None:
        command = CommandSpec(
            argv=("bash", "-c", _START, self.service.id, self.service.run),
            variables=dict(self.service.variables),
            prefix_bytes=_KEPT_BYTES,
            output_bytes=_OUTPUT_BYTES,
        )
        try:
            self._result = self._sandbox.run(command)
        except MachineError as error:
            if error.code != SANDBOX_LOST:  # closed before it began
                raise
        finally:
            self._has_ended.set()


def start_service(service: Service, sandbox: Sandbox) -> _RunningService:
    """Initialize a service, start it and wait until it is ready.

    Raises:
        SERVICE_NOT_READY: it never is.
    """
    if service.initialize is not None:
        _initialize(service, service.initialize, sandbox)
    running = _RunningService(service, sandbox)
    if not _await_ready(running, sandbox):
        has_ended = running.has_ended
        # Asked first: what ends by itself has been heard to its last word.
        running.stop()
        sandbox.close()
        running.join()
        tell_execution(running.build_record())
        raise SERVICE_NOT_READY.error(_describe(running, has_ended=has_ended))
    return running


def _initialize(service: Service, script: str, sandbox: Sandbox) -> None:
    argv = ("bash", "-euo", "pipefail", "-c", script)
    started_us = SystemClock().now_us()
    result = sandbox.run(
        CommandSpec(
            argv=argv,
            variables=dict(service.variables),
            timeout_seconds=_INITIALIZE_SECONDS,
            prefix_bytes=_KEPT_BYTES,
        )
    )
    tell_execution(
        build_execution("service", f"{service.id}: initialize", argv, result, started_us=started_us)
    )
    if result.exit != Exited(code=0):
        raise SERVICE_NOT_READY.error(
            f"environment.services: {service.id}: expected `initialize` to succeed, "
            f"found {describe_end(result)}\n{render_tail(result)}"
        )


def _await_ready(running: _RunningService, sandbox: Sandbox) -> bool:
    service = running.service
    deadline = time.monotonic() + service.readiness.timeout_seconds
    attempt, started_us, tries = _build_try(service), SystemClock().now_us(), 0
    while not running.has_ended:
        result, tries = sandbox.run(attempt), tries + 1
        is_ready = result.exit == Exited(code=0)
        if is_ready or time.monotonic() >= deadline:
            name = f"{service.id}: {'ready' if is_ready else 'not ready'} at try {tries}"
            told = build_execution("service", name, attempt.argv, result, started_us=started_us)
            ended_us = max(started_us, SystemClock().now_us())
            ceiling_us = service.readiness.timeout_seconds * 1_000_000
            tell_execution(msgspec.structs.replace(told, ended_at_us=ended_us, ceiling_us=ceiling_us))
            # What answers is this service only while this service runs.
            return is_ready and not running.has_ended
        running.wait(service.readiness.interval_ms / 1000)
    return False


def _build_try(service: Service) -> CommandSpec:
    readiness = service.readiness
    if isinstance(readiness, CommandReadiness):
        argv: tuple[str, ...] = ("bash", "-euo", "pipefail", "-c", readiness.run)
    else:
        argv = ("bash", "-c", _KNOCK, str(readiness.port))
    return CommandSpec(argv=argv, variables=dict(service.variables), timeout_seconds=_TRY_SECONDS)


def _describe(running: _RunningService, *, has_ended: bool) -> str:
    service, result = running.service, running.result
    readiness = service.readiness
    wanted = (
        f"`{readiness.run}` to succeed"
        if isinstance(readiness, CommandReadiness)
        else f"an answer on port {readiness.port}"
    )
    end = "nothing of it" if result is None else describe_end(result)
    found = f"that it ended ({end})" if has_ended else "none"
    said = "" if result is None else f"\n{render_tail(result)}"
    return (
        f"environment.services: {service.id}: expected {wanted} within "
        f"{service.readiness.timeout_seconds} s, found {found}{said}"
    )


class _Gate:
    """Lets records pass only while it is open: what the harness starts itself is no evidence.

    An end passes where the start did, at any time: what the agent left running ends with the sandbox.
    """

    def __init__(self, sink: RecordSink) -> None:
        self._sink = sink
        self._running: set[int] = set()
        self.is_open = False

    def __call__(self, record: SyscallRecord) -> None:
        if isinstance(record, EndRecord):
            if record.number not in self._running:
                return
            self._running.remove(record.number)
        elif not self.is_open:
            return
        elif isinstance(record, StartRecord):
            self._running.add(record.number)
        self._sink(record)


class ContractSandbox(Closing):
    """An open sandbox whose services are ready. Closing it stops them, then ends everything inside.

    Args:
        open_inner: Opens the sandbox itself, with a sink for what its supervisor sees.
        services: To be started in this order.
        sink: Takes what the syscall supervisor sees once the services are ready.

    Raises:
        SERVICE_NOT_READY: a service does not become ready.
        SANDBOX_START: it could not be started.
    """

    def __init__(
        self,
        open_inner: Callable[[RecordSink | None], Sandbox],
        *,
        services: Sequence[Service] = (),
        sink: RecordSink | None = None,
    ) -> None:
        self._gate = None if sink is None else _Gate(sink)
        self._inner = open_inner(self._gate)
        self._is_frozen = False
        self._freezing = threading.Lock()
        self._services: list[_RunningService] = []
        self._tell = find_telling()
        try:
            for service in services:
                self._services.append(start_service(service, self._inner))
        except BaseException:
            self._inner.close()
            raise
        self._set_gate(is_open=True)

    @property
    def capabilities(self) -> Capabilities:
        return self._inner.capabilities

    @property
    def inner(self) -> Sandbox:
        """The sandbox itself."""
        return self._inner

    @property
    def pid(self) -> int:
        """PID 1 inside, as the host counts; 0 at a level that has none."""
        return self._inner.pid if isinstance(self._inner, BubblewrapSandbox) else 0

    @property
    def listener(self) -> socket.socket | None:
        """The harness's own listener inside, where one was asked for."""
        return self._inner.listener if isinstance(self._inner, BubblewrapSandbox) else None

    def run(self, command: CommandSpec) -> CommandResult:
        """Run one program to its end."""
        return self._inner.run(command)

    def sample(self, take: Callable[[ResourceSample], None], *, interval_ms: int) -> Sampler | None:
        """Look at what everything inside uses, first after one interval; None at a level that cannot.

        Closing the sandbox ends it.
        """
        if not isinstance(self._inner, BubblewrapSandbox):
            return None
        return self._inner.sample(take, interval_ms=interval_ms, is_immediate=False)

    def enter_stage(self, stage: Stage) -> None:
        """Change privileges; returns only after the change is in force."""
        self._inner.enter_stage(stage)

    @property
    def witness(self) -> WitnessFacts | None:
        """What the witness of programs sees and counted; None at a level that has none."""
        return self._inner.witness

    @property
    def is_frozen(self) -> bool:
        return self._is_frozen

    def end_command(self, command: int) -> int | None:
        """Kill every process of a command, by its number; how many, None where that cannot be told."""
        try:
            with self._freezing:
                return None if self._is_frozen else self._inner.end_command(command)
        except MachineError as error:
            if error.code != SANDBOX_LOST:
                raise
            return None

    def freeze(self) -> None:
        """Pause everything inside."""
        with self._freezing:
            self._inner.freeze()
            self._is_frozen = True

    def resume(self) -> None:
        with self._freezing:
            self._inner.resume()
            self._is_frozen = False

    def close(self) -> None:
        """Stop the services, and end everything inside. Idempotent."""
        self._set_gate(is_open=False)
        try:
            # What is frozen cannot be asked.
            for running in [] if self._is_frozen else reversed(self._services):
                running.stop()
        except MachineError as error:
            if error.code != SANDBOX_LOST:
                raise
        finally:
            self._inner.close()
            ended, self._services = self._services, []
            for running in ended:
                running.join()
                if self._tell is not None:
                    self._tell(running.build_record())

    def _set_gate(self, *, is_open: bool) -> None:
        if self._gate is not None:
            self._gate.is_open = is_open
