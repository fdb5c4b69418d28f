"""Programs that want no trace: requests that outlive their run, answers and addresses that are no text."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from repotrial.gateway import NetworkAttempt, RunAuthority
from repotrial.gateway._model import GatewayLimits
from repotrial.gateway._proxy._fetch import LiveFetcher, RecordingFetcher, ReplayFetcher
from repotrial.gateway._proxy._tape import TapeWriter, load_tape
from support.gateways import send_raw
from support.providers import RawOrigin, open_raw_origin
from support.proxies import LOOPBACK, FakeResolver, Proxy, allow_loopback, fetch, open_proxy
from support.waiting import wait_until

HOST = "origin.example"
SECRET = b"SECRET"


def _say(client: socket.socket, origin: RawOrigin, *, body: bytes = SECRET, path: str = "/out") -> None:
    head = (
        f"POST http://{HOST}:{origin.port}{path} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(SECRET)}\r\n\r\n"
    )
    client.sendall(head.encode() + body)


def _open_live(resolver: FakeResolver | None = None) -> LiveFetcher:
    return LiveFetcher(resolver=resolver or FakeResolver(origin_example=[LOOPBACK]), check=allow_loopback)


def _tell(attempt: NetworkAttempt) -> tuple[str, str, str, int]:
    return attempt.verdict, attempt.reason, attempt.path, attempt.sent_bytes


@pytest.mark.parametrize("who", ["stays", "leaves"])
def test_a_request_that_is_under_way_when_the_run_ends_is_on_record(who: str) -> None:
    with open_raw_origin() as origin, open_proxy([f"{HOST}:{origin.port}"]) as proxy:
        with socket.create_connection((LOOPBACK, proxy.port), 90) as client:
            _say(client, origin)
            assert wait_until(lambda: origin.heard)
            if who == "stays":
                proxy.loop.run(proxy.service.close())
        assert origin.heard[0].endswith(SECRET)
    assert [_tell(attempt) for attempt in proxy.attempts] == [
        ("failed", "the run ended", "/out", len(SECRET))
    ]
    assert proxy.attempts[0].host == HOST
    assert proxy.service.problems == []


def test_many_requests_that_are_under_way_when_the_run_ends_are_on_record_once_each() -> None:
    with (
        open_raw_origin() as origin,
        open_proxy([f"{HOST}:{origin.port}"]) as proxy,
        contextlib.ExitStack() as stack,
    ):
        for number in range(6):
            client = stack.enter_context(socket.create_connection((LOOPBACK, proxy.port), 90))
            _say(client, origin, path=f"/{number}")
            if number % 2:
                client.close()
        assert wait_until(lambda: len(origin.heard) == 6)
        proxy.loop.run(proxy.service.close())
        before = list(proxy.attempts)
    assert proxy.attempts == before
    assert sorted(attempt.path for attempt in before) == [f"/{number}" for number in range(6)]
    assert {attempt.reason for attempt in before} == {"the run ended"}


def test_a_request_within_tls_that_is_under_way_when_the_run_ends_is_on_record() -> None:
    run, outside = RunAuthority(), RunAuthority()
    own = outside.find_context(HOST)
    assert own is not None
    trusted = ssl.create_default_context(cadata=outside.certificate_pem.decode())
    resolver = FakeResolver(origin_example=[LOOPBACK])
    live = LiveFetcher(resolver=resolver, check=allow_loopback, tls=trusted)
    with (
        open_raw_origin(tls=own) as origin,
        open_proxy([f"{HOST}:{origin.port}"], fetcher=live, authority=run) as proxy,
        socket.create_connection((LOOPBACK, proxy.port), 90) as client,
    ):
        client.sendall(f"CONNECT {HOST}:{origin.port} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        context = ssl.create_default_context(cadata=run.certificate_pem.decode())
        with context.wrap_socket(client, server_hostname=HOST) as inner:
            head = (
                f"POST /out HTTP/1.1\r\nhost: {HOST}:{origin.port}\r\ncontent-length: {len(SECRET)}\r\n\r\n"
            )
            inner.sendall(head.encode() + SECRET)
            assert wait_until(lambda: origin.heard)
            proxy.loop.run(proxy.service.close())
    assert [_tell(attempt) for attempt in proxy.attempts] == [
        ("failed", "the run ended", "/out", len(SECRET))
    ]
    assert proxy.attempts[0].way == "https"


def test_an_answer_that_is_under_way_when_the_run_ends_is_on_record() -> None:
    part = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n1234567"
    with (
        open_raw_origin(part) as origin,
        open_proxy([f"{HOST}:{origin.port}"]) as proxy,
        socket.create_connection((LOOPBACK, proxy.port), 90) as client,
    ):
        _say(client, origin)
        received = b""
        while not received.endswith(b"1234567"):
            received += client.recv(1000)
        proxy.loop.run(proxy.service.close())
        assert client.recv(1) == b""
    (attempt,) = proxy.attempts
    assert _tell(attempt) == ("failed", "the run ended", "/out", len(SECRET))
    assert (attempt.status, attempt.received_bytes) == (200, 7)


def test_a_body_that_never_comes_whole_is_on_record_as_not_sent() -> None:
    with (
        open_raw_origin() as origin,
        open_proxy([f"{HOST}:{origin.port}"]) as proxy,
        socket.create_connection((LOOPBACK, proxy.port), 90) as client,
    ):
        _say(client, origin, body=SECRET[:2])
        assert wait_until(lambda: _count_open(proxy))
        proxy.loop.run(proxy.service.close())
    assert [_tell(attempt) for attempt in proxy.attempts] == [("failed", "the run ended", "/out", 0)]
    assert origin.heard == []


def _count_open(proxy: Proxy) -> int:
    return len(proxy.service._log)


def test_a_program_that_leaves_before_its_body_is_whole_is_on_record() -> None:
    with open_raw_origin() as origin, open_proxy([f"{HOST}:{origin.port}"]) as proxy:
        with socket.create_connection((LOOPBACK, proxy.port), 90) as client:
            _say(client, origin, body=SECRET[:2])
            assert wait_until(lambda: _count_open(proxy))
        assert wait_until(lambda: proxy.attempts)
    (attempt,) = proxy.attempts
    assert (attempt.verdict, attempt.host, attempt.sent_bytes) == ("failed", HOST, 0)


class _Undecided(FakeResolver):
    """Never comes back."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        await super().resolve(host, port)
        await asyncio.Event().wait()
        return ()


def test_a_tunnel_that_is_being_decided_when_the_run_ends_is_on_record() -> None:
    resolver = _Undecided()
    with (
        open_proxy([HOST], resolver=resolver) as proxy,
        socket.create_connection((LOOPBACK, proxy.port), 90) as client,
    ):
        client.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert wait_until(lambda: resolver.asked)
        proxy.loop.run(proxy.service.close())
    (attempt,) = proxy.attempts
    assert (attempt.way, attempt.verdict, attempt.reason) == ("tunnel", "failed", "the run ended")


def test_a_handshake_that_is_under_way_when_the_run_ends_is_on_record() -> None:
    with (
        open_proxy([HOST], authority=RunAuthority()) as proxy,
        socket.create_connection((LOOPBACK, proxy.port), 90) as client,
    ):
        client.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        proxy.loop.run(proxy.service.close())
    (attempt,) = proxy.attempts
    assert (attempt.host, attempt.verdict, attempt.reason) == (HOST, "failed", "the run ended")


def test_a_host_that_takes_a_body_and_says_nothing_is_on_record_with_what_it_took() -> None:
    with open_raw_origin(then_close=True) as origin, open_proxy([f"{HOST}:{origin.port}"]) as proxy:
        reply = fetch(proxy.port, f"http://{HOST}:{origin.port}/out", method="POST", body=SECRET)
    assert reply.status == 502
    (attempt,) = proxy.attempts
    assert (attempt.verdict, attempt.sent_bytes) == ("failed", len(SECRET))


def test_a_body_for_which_nobody_listens_is_on_record_as_not_sent() -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
    with open_proxy([f"{HOST}:{port}"]) as proxy:
        assert fetch(proxy.port, f"http://{HOST}:{port}/", method="POST", body=SECRET).status == 502
    (attempt,) = proxy.attempts
    assert (attempt.verdict, attempt.sent_bytes) == ("failed", 0)


def test_requests_whose_programs_left_still_count() -> None:
    """Each holds a connection outside: whoever leaves early would have any number of them."""
    limits = GatewayLimits(connections=4)
    with open_raw_origin() as origin, open_proxy([f"{HOST}:{origin.port}"], limits=limits) as proxy:
        for _ in range(4):
            with socket.create_connection((LOOPBACK, proxy.port), 90) as client:
                _say(client, origin)
                assert wait_until(lambda: origin.heard)
                origin.heard.clear()
        with socket.create_connection((LOOPBACK, proxy.port), 90) as client:
            assert client.recv(1) == b""
    assert [attempt.reason for attempt in proxy.attempts] == ["the run ended"] * 4


ODD = (
    b"HTTP/1.1 200 OK\r\ncontent-disposition: attachment; filename=\xe9.txt\r\n"
    b"x-plain: 1\r\ncontent-length: 5\r\n\r\nhello"
)


def test_an_answer_with_a_header_that_is_no_text_is_recorded_and_replayed(tmp_path: Path) -> None:
    with open_raw_origin(ODD, then_close=True) as origin:
        url = f"http://{HOST}:{origin.port}/x"
        recording = RecordingFetcher(_open_live(), TapeWriter(tmp_path))
        with open_proxy([f"{HOST}:{origin.port}"], fetcher=recording) as proxy:
            before = fetch(proxy.port, url)
    assert [attempt.verdict for attempt in proxy.attempts] == ["passed"]
    assert proxy.service.problems == []
    with open_proxy(None, fetcher=ReplayFetcher(load_tape(tmp_path))) as later:
        after = fetch(later.port, url)
    for reply in (before, after):
        assert (reply.body, reply.headers["x-plain"]) == (b"hello", "1")
        assert "content-disposition" not in reply.headers


def test_an_answer_that_passed_and_cannot_be_kept_is_a_problem_of_the_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(TapeWriter, "append", fail)
    with open_raw_origin(ODD, then_close=True) as origin:
        recording = RecordingFetcher(_open_live(), TapeWriter(tmp_path))
        with open_proxy([f"{HOST}:{origin.port}"], fetcher=recording) as proxy:
            assert fetch(proxy.port, f"http://{HOST}:{origin.port}/x").body == b"hello"
    assert [(attempt.verdict, attempt.received_bytes) for attempt in proxy.attempts] == [("passed", 5)]
    (problem,) = proxy.service.problems
    assert "no space left" in problem
    assert "/x" in problem


@pytest.mark.parametrize("authority", [None, "run"])
def test_an_address_that_is_no_text_is_refused_and_can_be_written(authority: str | None) -> None:
    head = b"GET http://origin.example/\xff HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    with open_proxy([HOST], authority=RunAuthority() if authority else None) as proxy:
        assert b" 400 " in send_raw(proxy.port, head).partition(b"\r\n")[0]
        assert wait_until(lambda: proxy.attempts)
    assert [attempt.verdict for attempt in proxy.attempts] == ["refused"]
    assert (
        msgspec.json.decode(msgspec.json.encode(proxy.attempts), type=list[NetworkAttempt]) == proxy.attempts
    )
