"""One asyncio loop in one thread serves the gateways of all runs of a process (ADR 0011)."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import threading
from collections.abc import Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from repotrial._core.closing import Closing
from repotrial.gateway._concurrency import settle_accepted
from repotrial.gateway._model import ExchangeSupervisor, GatewayLimits, Upstream

if TYPE_CHECKING:
    from repotrial.gateway._server import RunServer

Value = TypeVar("Value")

_THREAD_NAME: Final = "repotrial-gateway"
_MOST_ROUNDS: Final = 20


class LoopService(Protocol):
    """What listens on a socket of the loop."""

    async def start(self, listener: socket.socket) -> None: ...

    async def close(self) -> None: ...


class GatewayLoop(Closing):
    """Starts its thread when it is first needed; every method may be called from any thread but its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

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
        """Let any service listen on a socket until the block ends."""
        self.run(service.start(listener))
        try:
            yield
        finally:
            self.run(service.close())

    def run(self, work: Coroutine[Any, Any, Value]) -> Value:
        """Do something on the loop and wait for it."""
        if threading.current_thread() is self._thread:
            work.close()
            raise RuntimeError("the gateway's own thread cannot wait for itself")
        return asyncio.run_coroutine_threadsafe(work, self._start()).result()

    def close(self) -> None:
        """End the thread; services that were not closed are cut. The next use starts it again."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=_keep_running, args=(self._loop,), name=_THREAD_NAME, daemon=True
                )
                self._thread.start()
            return self._loop


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
