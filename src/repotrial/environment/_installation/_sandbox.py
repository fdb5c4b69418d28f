"""A sandbox of a contract: one with its services running in it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from repotrial._core.errors import MachineError
from repotrial._core.words import Stage
from repotrial.contract import Service
from repotrial.environment._installation._services import RunningService, start_service
from repotrial.isolation import (
    SANDBOX_LOST,
    BubblewrapSandbox,
    Capabilities,
    CommandResult,
    CommandSpec,
    ResourceSample,
    Sampler,
    Sandbox,
    Sink,
    SyscallRecord,
)


class _Gate:
    """Lets records pass only while it is open: what we start ourselves is no evidence against anybody."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.is_open = False

    def __call__(self, record: SyscallRecord) -> None:
        if self.is_open:
            self._sink(record)


class ContractSandbox:
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
        open_inner: Callable[[Sink | None], Sandbox],
        *,
        services: Sequence[Service] = (),
        sink: Sink | None = None,
    ) -> None:
        self._gate = None if sink is None else _Gate(sink)
        self._inner = open_inner(self._gate)
        self._is_frozen = False
        self._services: list[RunningService] = []
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

    @property
    def ended_services(self) -> tuple[str, ...]:
        """Services that have ended although nobody stopped them."""
        return tuple(running.service.id for running in self._services if running.has_ended)

    def run(self, command: CommandSpec) -> CommandResult:
        """Run one program to its end."""
        return self._inner.run(command)

    def sample(self, take: Callable[[ResourceSample], None], *, interval_ms: int) -> Sampler | None:
        """Look at what everything inside uses, first after one interval; null at a level that cannot.

        Closing the sandbox ends it.
        """
        if not isinstance(self._inner, BubblewrapSandbox):
            return None
        return self._inner.sample(take, interval_ms=interval_ms, is_immediate=False)

    def enter_stage(self, stage: Stage) -> None:
        """Change privileges; returns only after the change is in force."""
        self._inner.enter_stage(stage)

    def freeze(self) -> None:
        """Pause everything inside."""
        self._inner.freeze()
        self._is_frozen = True

    def resume(self) -> None:
        self._inner.resume()
        self._is_frozen = False

    def close(self) -> None:
        """Stop the services, and end everything inside. Twice is once."""
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
            for running in self._services:
                running.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _set_gate(self, *, is_open: bool) -> None:
        if self._gate is not None:
            self._gate.is_open = is_open
