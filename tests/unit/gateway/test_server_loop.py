"""The loop behind all runs: nothing is left behind when a service or the loop itself ends."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import threading
import warnings
from collections.abc import Callable, Iterator

import pytest
from aiohttp import web

from fakes.exchanges import FakeSupervisor, FakeUpstream
from repotrial.gateway import GatewayLoop
from repotrial.gateway._server import RunServer
from support.gateways import GatewayLimits, LoopService
from support.providers import Provider
from support.proxies import AllowListProxy, LiveFetcher, parse_allow_list
from support.waiting import wait_until

ADDRESS = "127.0.0.1"


async def _say(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="reached")


def _build_proxy() -> LoopService:
    return AllowListProxy(parse_allow_list(["a.example"]), fetcher=LiveFetcher(), sink=lambda _: None)


def _build_server() -> LoopService:
    return RunServer(key="k", supervisor=FakeSupervisor(), upstream=FakeUpstream(), limits=GatewayLimits())


SERVICES = [_build_proxy, _build_server, lambda: Provider(_say)]


@contextlib.contextmanager
def _leave_nothing() -> Iterator[None]:
    """Fails where a socket or a transport is forgotten before it is closed."""
    gc.collect()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ResourceWarning)
        yield
        gc.collect()
    assert [str(warning.message) for warning in caught] == []


@contextlib.contextmanager
def _hold_still(loop: GatewayLoop) -> Iterator[None]:
    """While the loop can do nothing, things happen that it finds all at once afterwards."""
    is_held, go_on = threading.Event(), threading.Event()

    async def wait() -> None:
        is_held.set()
        assert go_on.wait(90)

    held = asyncio.run_coroutine_threadsafe(wait(), loop._start().loop)
    assert is_held.wait(90)
    try:
        yield
    finally:
        go_on.set()
        held.result(90)


def _is_closed(client: socket.socket) -> bool:
    with contextlib.suppress(ConnectionError):
        return client.recv(1) == b""
    return True


@pytest.mark.parametrize("build", SERVICES)
def test_connections_that_come_while_a_service_closes_are_closed_with_it(
    build: Callable[[], LoopService],
) -> None:
    with _leave_nothing(), GatewayLoop() as loop, contextlib.ExitStack() as clients:
        listener = socket.create_server((ADDRESS, 0))
        service = build()
        loop.run(service.start(listener))
        with _hold_still(loop):
            # In this order the loop begins to close before it meets those whom it accepted.
            closing = asyncio.run_coroutine_threadsafe(service.close(), loop._start().loop)
            came = [
                clients.enter_context(socket.create_connection(listener.getsockname(), 90)) for _ in range(3)
            ]
        closing.result(90)
        assert all(_is_closed(client) for client in came)


@pytest.mark.parametrize("build", SERVICES)
def test_connections_that_come_as_the_loop_ends_are_closed_with_it(
    build: Callable[[], LoopService],
) -> None:
    with _leave_nothing(), contextlib.ExitStack() as clients:
        listener = clients.enter_context(socket.create_server((ADDRESS, 0)))
        loop = GatewayLoop()
        loop.run(build().start(listener))
        ending = threading.Thread(target=loop.close)
        with _hold_still(loop):
            ending.start()
            assert wait_until(lambda: loop._running is None)
            came = [
                clients.enter_context(socket.create_connection(listener.getsockname(), 90)) for _ in range(3)
            ]
        ending.join()
        assert all(_is_closed(client) for client in came)
