"""Level L3c: a container through the Docker API; programs are started in it by the engine, from outside.

The API can neither end one program nor change a mount: where that is needed, the container is removed with
all that runs in it, and another one takes its place. Files in the workspace stay, scratch files do not.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import threading
import time
from typing import Final

import msgspec

from repotrial._core.closing import Closing
from repotrial._core.errors import MachineError, RepoTrialError
from repotrial._core.words import Stage
from repotrial.isolation._identity import find_identity
from repotrial.isolation._label import build_label, parse_label
from repotrial.isolation._levels._bubblewrap_process import SANDBOX_START
from repotrial.isolation._levels._command import EndCause
from repotrial.isolation._levels._container_plan import (
    CONTAINER_LABEL,
    EngineHabits,
    build_container,
    build_exec,
    list_scratch,
    load_root_image,
)
from repotrial.isolation._levels._docker_api import CONTAINER_ENGINE, EngineClient, ExecState
from repotrial.isolation._levels._session import SANDBOX_LOST
from repotrial.isolation._levels._stages import open_listener
from repotrial.isolation._model import (
    Capabilities,
    CommandResult,
    CommandSpec,
    DirectoryRoot,
    ResourceUsage,
    SandboxSpec,
)
from repotrial.isolation._resources._capture import OutputBudget, StreamRecord
from repotrial.isolation._resources._limits import DiskWatch
from repotrial.trace import Exited, ExitStatus, ExitUnknown, NotStarted, TimedOut

_MEGABYTE: Final = 1024**2
_LOOK_SECONDS: Final = 0.2
_GRACE_SECONDS: Final = 0.1
_CHUNK_BYTES: Final = 1 << 16
_FRAME: Final = struct.Struct(">BxxxI")
_STDERR: Final = 2


class ContainerEngine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that was tried."""

    capabilities: Capabilities
    client: EngineClient
    habits: EngineHabits


def reap_containers(client: EngineClient) -> list[str]:
    """Remove containers of harnesses that have ended; whose label is not ours is left alone."""
    reaped = []
    for row in client.list_containers(CONTAINER_LABEL):
        label = parse_label((row.labels or {}).get(CONTAINER_LABEL, ""))
        if label is not None and label.is_abandoned:
            client.remove_container(row.id)
            reaped.append(row.id)
    return reaped


class ContainerSandbox(Closing):
    """A sandbox of level L3c, open until it is closed.

    Args:
        spec: What is wanted; its root is an unpacked image.
        engine: Who runs it.

    Raises:
        SANDBOX_START: The engine refused something.
    """

    def __init__(self, spec: SandboxSpec, engine: ContainerEngine) -> None:
        self._spec = spec
        self._engine = engine
        self._client = engine.client
        self._owner = find_identity()
        self._stage: Stage = spec.stage
        self._lock = threading.RLock()
        self._is_open = True
        limits = spec.limits
        self._disk = (
            None
            if limits.disk_mb is None
            else DiskWatch(spec.workspace, limit_bytes=limits.disk_mb * _MEGABYTE)
        )
        self._deadline = None if limits.wall_seconds is None else time.monotonic() + limits.wall_seconds
        self._spent_us = 0
        """By containers that were replaced."""
        self.listener: socket.socket | None = None
        if not isinstance(spec.root, DirectoryRoot):
            raise SANDBOX_START.error("expected an unpacked image for a container, found the machine's files")
        try:
            self._image = load_root_image(self._client, spec.root.path, scratch=list_scratch(spec))
            self._container = self._open()
        except (MachineError, OSError) as error:
            if isinstance(error, MachineError) and error.code != CONTAINER_ENGINE:
                raise
            raise SANDBOX_START.error(f"container: {error}") from error

    @property
    def capabilities(self) -> Capabilities:
        return self._engine.capabilities

    @property
    def container(self) -> str:
        """The engine's id of the present container."""
        return self._container

    @property
    def stage(self) -> Stage:
        return self._stage

    def run(self, command: CommandSpec) -> CommandResult:
        """Run one program to its end; where it has to be ended, everything inside is.

        Raises:
            SANDBOX_LOST: The sandbox is closed.
        """
        self._verify_open()
        run = _Run(self, command)
        container = self._container
        before_us = self.load_cpu_us(container)
        cause, status = run.execute(self._client, container, self._build_exec(command))
        after_us = self.load_cpu_us(container)
        cpu_us = None if before_us is None or after_us is None else max(0, after_us - before_us)
        if cause not in {"ended", "sandbox-lost"}:
            self._renew(container)
        elif not self._is_running(container):
            cause, status = "sandbox-lost", ExitUnknown(reason="the container ended while the program ran")
        return run.build_result(cause, status, cpu_us=cpu_us, meter=self.capabilities.cpu_meter)

    def enter_stage(self, stage: Stage) -> None:
        """Begin another stage; between read-only and writable, everything that runs is ended.

        Raises:
            SANDBOX_LOST: The sandbox is closed.
        """
        self._verify_open()
        with self._lock:
            is_changed = (stage == "read") != (self._stage == "read")
            self._stage = stage
            if is_changed:
                self._renew(self._container)

    @property
    def witness(self) -> None:
        """The engine does not tell which programs run."""
        return

    def end_command(self, command: int) -> None:
        """Without a witness there is no command to be found."""

    def freeze(self) -> None:
        """Pause everything inside."""
        self._verify_open()
        self._client.pause_container(self._container)

    def resume(self) -> None:
        self._verify_open()
        self._client.unpause_container(self._container)

    def close(self) -> None:
        """Kill everything inside and remove the container. Idempotent.

        Raises:
            CONTAINER_ENGINE: The engine did not do it.
        """
        with self._lock:
            if not self._is_open:
                return
            self._is_open = False
            self._hang_up()
            self._client.remove_container(self._container)

    def find_excess(self, started: float, command: CommandSpec) -> EndCause | None:
        """Why a command has to be ended now."""
        now = time.monotonic()
        if command.timeout_seconds is not None and now >= started + command.timeout_seconds:
            return "timeout"
        if self._deadline is not None and now >= self._deadline:
            return "timeout"
        if self._disk is not None and self._disk.is_exceeded():
            return "disk"
        ceiling = self._spec.limits.cpu_seconds
        if ceiling is not None:
            used_us = self._spent_us + (self.load_cpu_us(self._container) or 0)
            return "cpu" if used_us > ceiling * 1_000_000 else None
        return None

    def load_cpu_us(self, container: str) -> int | None:
        """What everything in a container used; None if the engine does not measure it."""
        if self.capabilities.cpu_meter == "none":
            return None
        try:
            return self._client.load_cpu_us(container)
        except MachineError:  # `container-engine`
            return None

    def _open(self) -> str:
        """A container that runs, as it was asked for."""
        label = build_label()
        body = build_container(
            self._spec,
            image=self._image,
            stage=self._stage,
            owner=self._owner,
            label=label,
            habits=self._engine.habits,
        )
        container = self._client.create_container(label, body)
        try:
            self._verify_granted(container)
            self._client.start_container(container)
            port = self._spec.listener_port
            if port is not None:
                pid = self._client.load_container(container).state.pid
                self.listener = open_listener(pid, port)
        except (RepoTrialError, OSError):
            self._client.remove_container(container)
            raise
        return container

    def _verify_granted(self, container: str) -> None:
        """An engine may have a mind of its own about what it was asked for."""
        found = self._client.load_container(container).host_config
        if found.privileged or found.cap_add or found.network_mode != "none" or not found.readonly_rootfs:
            raise CONTAINER_ENGINE.error(
                f"expected a container without privileges and network, found {found}"
            )

    def _renew(self, container: str) -> None:
        with self._lock:
            if not self._is_open or container != self._container:
                return  # another thread did it
            self._hang_up()
            self._spent_us += self.load_cpu_us(container) or 0
            self._client.remove_container(container)
            self._container = self._open()

    def _hang_up(self) -> None:
        if self.listener is not None:
            self.listener.close()
            self.listener = None

    def _is_running(self, container: str) -> bool:
        try:
            return self._client.load_container(container).state.running
        except MachineError:  # `container-engine`
            return False

    def _build_exec(self, command: CommandSpec) -> dict[str, object]:
        variables = {**self._spec.variables, **command.variables}
        return build_exec(command.argv, cwd=command.cwd, variables=variables, owner=self._owner)

    def _verify_open(self) -> None:
        if not self._is_open:
            raise SANDBOX_LOST.error("expected an open sandbox, found it closed")


class _Run:
    """One program: what it prints is taken in while the engine is asked whether it has ended."""

    def __init__(self, sandbox: ContainerSandbox, command: CommandSpec) -> None:
        self._sandbox = sandbox
        self._command = command
        self._started = time.monotonic()
        self._budget = OutputBudget(command.output_bytes)
        self._streams = tuple(
            StreamRecord(prefix_bytes=command.prefix_bytes, budget=self._budget) for _ in range(2)
        )
        self._pending = bytearray()

    def execute(
        self, client: EngineClient, container: str, body: dict[str, object]
    ) -> tuple[EndCause, ExitStatus]:
        try:
            program = client.create_exec(container, body)
            stream = client.start_exec(program)
        except MachineError as error:  # `container-engine`
            return "ended", NotStarted(reason=f"{self._command.argv[0]}: {error.message}")
        with stream:
            try:
                return self._listen(client, program, stream)
            except MachineError as error:  # `container-engine`
                return "sandbox-lost", ExitUnknown(reason=error.message)

    def build_result(
        self, cause: EndCause, status: ExitStatus, *, cpu_us: int | None, meter: str
    ) -> CommandResult:
        stdout, stderr = (stream.build_capture() for stream in self._streams)
        usage = ResourceUsage(wall_us=round((time.monotonic() - self._started) * 1_000_000), cpu_us=cpu_us)
        if cpu_us is not None:
            usage = msgspec.structs.replace(usage, cpu_meter=meter)
        return CommandResult(exit=status, cause=cause, stdout=stdout, stderr=stderr, usage=usage)

    def _listen(
        self, client: EngineClient, program: str, stream: socket.socket
    ) -> tuple[EndCause, ExitStatus]:
        is_over = False
        next_look = 0.0
        while True:
            is_over = is_over or self._read(stream, _LOOK_SECONDS)
            if self._budget.is_exceeded:
                return "output", ExitUnknown(reason="ended for what it printed")
            if not is_over and time.monotonic() < next_look:
                continue
            next_look = time.monotonic() + _LOOK_SECONDS
            cause = self._sandbox.find_excess(self._started, self._command)
            state = client.load_exec(program)
            if not state.running:
                # What outlives it and holds the stream is not waited for.
                self._hear_out(stream, is_over=is_over)
                return self._find_end(), _parse_exit(state)
            if cause is not None:
                return cause, self._describe_end(cause)
            if is_over:
                time.sleep(_LOOK_SECONDS)

    def _find_end(self) -> EndCause:
        return "output" if self._budget.is_exceeded else "ended"

    def _hear_out(self, stream: socket.socket, *, is_over: bool) -> None:
        deadline = time.monotonic() + _GRACE_SECONDS
        while not is_over and (left := deadline - time.monotonic()) > 0:
            is_over = self._read(stream, left)

    def _describe_end(self, cause: EndCause) -> ExitStatus:
        if cause == "timeout":
            observed_us = round((time.monotonic() - self._started) * 1_000_000)
            own = self._command.timeout_seconds
            is_own = own is not None and observed_us >= own * 1_000_000  # else the sandbox's, for all of them
            ceiling_us = round(own * 1_000_000) if is_own and own is not None else observed_us
            return TimedOut(ceiling_us=ceiling_us, observed_us=observed_us)
        return ExitUnknown(reason=f"ended for its use of {cause}")

    @staticmethod
    def _is_ready(stream: socket.socket, seconds: float) -> bool:
        # Not `select`, which ends where descriptors have four digits.
        poll = select.poll()
        poll.register(stream, select.POLLIN)
        return bool(poll.poll(seconds * 1000))

    def _read(self, stream: socket.socket, seconds: float) -> bool:
        """Take in what is there; whether the stream has ended."""
        if not self._is_ready(stream, seconds):
            return False
        try:
            data = os.read(stream.fileno(), _CHUNK_BYTES)
        except OSError:
            return True
        self._pending += data
        while len(self._pending) >= _FRAME.size:
            kind, size = _FRAME.unpack_from(self._pending)
            if len(self._pending) < _FRAME.size + size:
                break
            chunk = bytes(self._pending[_FRAME.size : _FRAME.size + size])
            self._streams[1 if kind == _STDERR else 0].take(chunk)
            del self._pending[: _FRAME.size + size]
        return not data


def _parse_exit(state: ExecState) -> ExitStatus:
    """The engine adds 128 to the number of a signal, and leaves open which of the two it was."""
    if state.exit_code is None:
        return ExitUnknown(reason="the engine does not say how it ended")
    return Exited(code=state.exit_code)
