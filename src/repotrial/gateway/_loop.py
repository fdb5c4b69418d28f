"""One asyncio loop in one thread serves the gateways of all runs of a process (ADR 0011)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar

from repotrial._core.closing import Closing
from repotrial._core.errors import ErrorCode, MachineError
from repotrial.gateway._concurrency import settle_accepted
from repotrial.gateway._model import ExchangeSupervisor, GatewayLimits, Upstream

if TYPE_CHECKING:
    from repotrial.gateway._server import RunServer

Value = TypeVar("Value")

_THREAD_NAME: Final = "repotrial-gateway"
_MOST_ROUNDS: Final = 20
_LOOK_SECONDS: Final = 1.0

GATEWAY_LOST = ErrorCode(
    "gateway-lost",
    MachineError,
    "The thread that answers agents ended while they were at work: what they would have been answered is "
    "not known.",
    hint="Repeat the command; report it if it happens again.",
)


class LoopService(Protocol):
    """What listens on a socket of the loop."""

    async def start(self, listener: socket.socket) -> None: ...

    async def close(self) -> None: ...


class _Running(NamedTuple):
    loop: asyncio.AbstractEventLoop
    thread: threading.Thread

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Do something on the loop and wait for it.

        Raises:
            GATEWAY_LOST: its thread has ended.
        """
        if threading.current_thread() is self.thread:
            work.close()
            raise RuntimeError("the gateway's own thread cannot wait for itself")
        try:
            future = asyncio.run_coroutine_threadsafe(work, self.loop)
        except RuntimeError as error:
            work.close()
            raise GATEWAY_LOST.error(f"expected the gateway to work, found: {error}") from error
        while not wait([future], _LOOK_SECONDS).done:
            if not self.thread.is_alive() and not future.done():
                raise GATEWAY_LOST.error("expected the gateway to work, found that its thread had ended")
        return future.result()


class GatewayLoop(Closing):
    """Starts its thread when it is first needed; every method may be called from any thread but its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._lost = 0
        self._why: BaseException | None = None
        self._listeners: list[Callable[[], None]] = []

    @staticmethod
    def shared() -> GatewayLoop:
        """The loop that all runs of this process share."""
        return _shared

    @contextlib.contextmanager
    def serve(
        self,
        listener: socket.socket,
        *,
        key: str,
        supervisor: ExchangeSupervisor,
        upstream: Upstream,
        models: tuple[str, ...] = (),
        stripped: frozenset[str] = frozenset(),
        limits: GatewayLimits | None = None,
    ) -> Iterator[ServedRun]:
        """Answer on a socket that listens already, until the block ends; the socket is closed with it.

        The upstream stays open: it may serve several runs, and its owner closes it (`run`).

        Args:
            listener: A stream socket of any family; each run has its own.
            key: What the agent has to show.
            supervisor: Decides about every exchange and keeps the record.
            upstream: Answers.
            models: What an agent is told that asks which models there are.
            stripped: Hosted features that are taken out of requests; others are the supervisor's to refuse.
            limits: Bounds, where others than the usual ones are wanted.
        """
        from repotrial.gateway._server import RunServer

        server = RunServer(
            key=key,
            supervisor=supervisor,
            upstream=upstream,
            limits=limits or GatewayLimits(),
            models=models,
            stripped=stripped,
        )
        with self.attach(listener, server):
            yield ServedRun(self, server)

    @contextlib.contextmanager
    def attach(self, listener: socket.socket, service: LoopService) -> Iterator[None]:
        """Let any service listen on a socket until the block ends.

        Raises:
            GATEWAY_LOST: the thread that served it has ended.
        """
        running = self._start()
        running.run(service.start(listener))
        try:
            yield
        finally:
            try:
                running.run(service.close())
            finally:
                listener.close()  # what has ended closes nothing any more

    @contextlib.contextmanager
    def watch_loss(self, on_loss: Callable[[], None]) -> Iterator[None]:
        """While this lasts, the end of the thread is told; no agent can bring it about.

        Raises:
            GATEWAY_LOST: it ended, whatever else came of that.
        """
        with self._lock:
            before = self._lost
            self._listeners.append(on_loss)
        try:
            yield
        finally:
            with self._lock:
                self._listeners.remove(on_loss)
                is_lost = self._lost > before
            if is_lost:
                raise GATEWAY_LOST.error(f"its thread ended while an agent was at work: {self._why!r}")

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Do something on the loop and wait for it."""
        return self._start().run(work)

    def close(self) -> None:
        """End the thread; services that were not closed are cut. The next use starts it again."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            with contextlib.suppress(RuntimeError):  # it has ended by itself
                running.loop.call_soon_threadsafe(running.loop.stop)
            running.thread.join()

    def _start(self) -> _Running:
        with self._lock:
            if self._running is None:
                loop = asyncio.new_event_loop()
                thread = threading.Thread(
                    target=self._keep_running, args=(loop,), name=_THREAD_NAME, daemon=True
                )
                self._running = _Running(loop, thread)
                thread.start()
            return self._running

    def _keep_running(self, loop: asyncio.AbstractEventLoop) -> None:
        why: BaseException | None = None
        try:
            _keep_running(loop)
        except BaseException as error:  # noqa: BLE001 - told to every run that it served
            why = error
        with self._lock:
            is_lost = self._running is not None and self._running.loop is loop
            told = tuple(self._listeners) if is_lost else ()
            if is_lost:
                self._running, self._why = None, why
                self._lost += 1
        for on_loss in told:
            with contextlib.suppress(MachineError, OSError):  # its owner is told of that, too
                on_loss()


class ServedRun:
    """One run's gateway while it listens."""

    def __init__(self, loop: GatewayLoop, server: RunServer) -> None:
        self._loop = loop
        self._server = server

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong in the harness itself: exceptions of a supervisor, in order."""
        return tuple(self._server.problems)

    def cut(self, detail: str) -> None:
        """End the exchanges that are under way; each is closed as `cut`. New ones are still answered."""
        self._loop.run(self._server.cut(detail))


def _keep_running(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    try:
        loop.run_forever()
    finally:
        try:
            loop.run_until_complete(_end_all(loop))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
        finally:
            asyncio.set_event_loop(None)
            loop.close()


async def _end_all(loop: asyncio.AbstractEventLoop) -> None:
    """End tasks and connections without an owner; ending one may begin another, so this is repeated."""
    for _ in range(_MOST_ROUNDS):
        # An accepted connection has a transport only now; its task, cancelled before, would forget it.
        await settle_accepted()
        tasks = asyncio.all_tasks(loop) - {asyncio.current_task(loop)}
        transports = _list_transports(loop)
        if not tasks and all(transport.is_closing() for transport in transports):
            return
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for transport in _list_transports(loop):
            transport.abort()


def _list_transports(loop: asyncio.AbstractEventLoop) -> tuple[asyncio.WriteTransport, ...]:
    # Only the loop itself knows of these; where it does not say so, they end with the process.
    return tuple(getattr(loop, "_transports", {}).values())


_shared = GatewayLoop()
