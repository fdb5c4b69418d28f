"""Programs that want more of the proxy than the harness has, and a harness that fails itself."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from repotrial.gateway import GatewayLoop, NetworkAttempt, RunAuthority
from repotrial.gateway._model import GatewayLimits
from repotrial.gateway._proxy._fetch import LiveFetcher, RecordingFetcher
from repotrial.gateway._proxy._hosts import parse_allow_list
from repotrial.gateway._proxy._proxy import AllowListProxy
from repotrial.gateway._proxy._tape import TapeWriter, load_tape
from support.providers import open_provider
from support.proxies import LOOPBACK, FakeResolver, allow_loopback, fetch, open_proxy
from support.waiting import wait_until

HOST = "origin.example"


async def _say(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="reached")


def _is_closed(client: socket.socket) -> bool:
    client.settimeout(90)
    with contextlib.suppress(ConnectionError):
        return client.recv(1) == b""
    return True


def test_connections_that_say_nothing_do_not_take_the_harness_files() -> None:
    with open_proxy([HOST], limits=GatewayLimits(connections=4)) as proxy, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(socket.create_connection((LOOPBACK, proxy.port))) for _ in range(12)]
        # In the order in which they came: those beyond the limit are closed unread.
        assert all(_is_closed(client) for client in clients[4:])
        clients[0].sendall(b"GET http://other.example/ HTTP/1.1\r\nhost: x\r\n\r\n")
        assert clients[0].recv(100).startswith(b"HTTP/1.1 403 ")


def _has_more(items: Sized, count: int) -> bool:
    return len(items) > count


def test_failed_handshakes_do_not_lift_the_number_of_connections() -> None:
    limits = GatewayLimits(connections=4)
    with (
        open_proxy([HOST], authority=RunAuthority(), limits=limits) as proxy,
        contextlib.ExitStack() as stack,
    ):
        for number in range(12):
            with socket.create_connection((LOOPBACK, proxy.port), 90) as client:
                client.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nhost: x\r\n\r\n".encode())
                if number % 3:
                    assert client.recv(100).startswith(b"HTTP/1.1 200 ")
                if number % 3 == 1:
                    client.sendall(b"garbage")
            assert wait_until(partial(_has_more, proxy.attempts, number))
        server = proxy.service._server
        assert server is not None
        assert wait_until(lambda: server._open == 0)
        # A piece of a head: these are beyond the lobby.
        clients = [stack.enter_context(socket.create_connection((LOOPBACK, proxy.port))) for _ in range(4)]
        for client in clients:
            client.sendall(b"GET http://")
        assert wait_until(lambda: server._open == 4)
        beyond = stack.enter_context(socket.create_connection((LOOPBACK, proxy.port)))
        beyond.sendall(b"GET http://")
        assert _is_closed(beyond)
        assert server._open == 4
    assert {attempt.verdict for attempt in proxy.attempts} == {"failed"}


def test_tunnels_have_a_number() -> None:
    with (
        open_provider(_say) as origin,
        open_proxy([f"{HOST}:{origin.port}"], limits=GatewayLimits(connections=3)) as proxy,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(3):
            client = stack.enter_context(socket.create_connection((LOOPBACK, proxy.port), 90))
            client.sendall(f"CONNECT {HOST}:{origin.port} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
        assert _is_closed(stack.enter_context(socket.create_connection((LOOPBACK, proxy.port))))


def test_long_bodies_at_once_take_turns() -> None:
    under_way = most = 0

    async def count(_: web.BaseRequest) -> web.StreamResponse:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        return web.Response(text="taken")

    limits = GatewayLimits(request_bytes=100_000, held_bytes=100_000)
    with (
        open_provider(count) as origin,
        open_proxy([f"{HOST}:{origin.port}"], limits=limits) as proxy,
        ThreadPoolExecutor(8) as programs,
    ):
        url = f"http://{HOST}:{origin.port}/"
        sent = [programs.submit(fetch, proxy.port, url, method="POST", body=b"x" * 60_000) for _ in range(8)]
        assert [future.result().status for future in sent] == [200] * 8
    assert most == 1


def test_an_answer_for_which_there_is_no_memory_passes_and_is_not_kept(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"x" * (100_000 if request.path == "/long" else 100))

    live = LiveFetcher(resolver=FakeResolver(origin_example=[LOOPBACK]), check=allow_loopback)
    fetcher = RecordingFetcher(live, TapeWriter(tmp_path), most_bytes=10_000)
    with open_provider(answer) as origin, open_proxy([f"{HOST}:{origin.port}"], fetcher=fetcher) as proxy:
        url = f"http://{HOST}:{origin.port}"
        sizes = [len(fetch(proxy.port, f"{url}{path}").body) for path in ("/long", "/short", "/long")]
    assert sizes == [100_000, 100, 100_000]
    lines = (tmp_path / "web.jsonl").read_text(encoding="utf-8").splitlines()
    assert [("/short" in line) for line in lines[1:]] == [True]
    load_tape(tmp_path)
    assert fetcher._held_bytes == 0


@contextlib.contextmanager
def _attach(proxy: AllowListProxy) -> Iterator[int]:
    with GatewayLoop() as loop, socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        with loop.attach(listener, proxy):
            yield port


def test_an_attempt_that_cannot_be_put_on_record_is_known() -> None:
    def fail(_: NetworkAttempt) -> None:
        raise OSError("no space left")

    live = LiveFetcher(resolver=FakeResolver(), check=allow_loopback)
    proxy = AllowListProxy(parse_allow_list([HOST]), fetcher=live, sink=fail)
    with _attach(proxy) as port:
        assert fetch(port, "http://other.example/").status == 403
    assert proxy.problems == ["OSError: no space left"]


def test_a_tunnel_that_our_own_mistake_prevents_is_closed_and_the_mistake_known(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(_: RunAuthority, __: str) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(RunAuthority, "find_context", fail)
    attempts: list[NetworkAttempt] = []
    live = LiveFetcher(resolver=FakeResolver(), check=allow_loopback)
    proxy = AllowListProxy(
        parse_allow_list([HOST]), fetcher=live, sink=attempts.append, authority=RunAuthority()
    )
    with _attach(proxy) as port, socket.create_connection((LOOPBACK, port)) as client:
        client.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert _is_closed(client)
        assert wait_until(lambda: attempts)
    assert [attempt.verdict for attempt in attempts] == ["failed"]
    assert proxy.problems == ["RuntimeError: a mistake of ours"]
