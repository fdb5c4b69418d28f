"""What a program in the sandbox may send to its only way out, and what must not come of it."""

from __future__ import annotations

import contextlib
import json
import socket
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from fakes.exchanges import FakeSupervisor, FakeUpstream
from repotrial.gateway._model import GatewayLimits
from support.gateways import KEY, Gateway, ask, build_chat, build_text_stream, open_gateway, send_raw
from support.waiting import wait_until

CHAT = "/v1/chat/completions"
BODY = msgspec.json.encode(build_chat())


def _build_head(*lines: str, target: str = CHAT, method: str = "POST") -> bytes:
    every = (f"{method} {target} HTTP/1.1", "host: gateway", f"authorization: Bearer {KEY}", *lines)
    return "\r\n".join((*every, "", "")).encode()


def _make_upstream() -> FakeUpstream:
    return FakeUpstream(build_text_stream("x"))


def _assert_only_refused(gateway: Gateway, upstream: FakeUpstream, kind: str) -> None:
    assert upstream.requests == []
    assert gateway.supervisor.exchanges == []
    assert wait_until(lambda: gateway.supervisor.refusals)
    assert {refusal.kind for refusal, *_ in gateway.supervisor.refusals} == {kind}


@pytest.mark.parametrize("key", [None, "", "x", KEY[:-1], KEY + "x", "ключ", KEY.upper()])
def test_another_key_asks_nobody_anything(key: str | None) -> None:
    upstream = _make_upstream()
    with open_gateway(upstream) as gateway:
        headers = {} if key is None else {"x-api-key": key.encode().decode("latin-1")}
        reply = ask(gateway.port, CHAT, build_chat(), headers=headers, key=None)
        _assert_only_refused(gateway, upstream, "key")
    assert reply.status == 401
    assert KEY not in reply.body.decode()


def test_a_key_in_the_target_is_not_recorded() -> None:
    with open_gateway(_make_upstream()) as gateway:
        ask(gateway.port, "/v1/unknown?a=1&key=somebody-elses-key&b=2", b"{}", key=None)
        ask(gateway.port, f"/v1/unknown?key={KEY}", b"{}", key=None)
    shown = repr(gateway.supervisor.refusals)
    assert "somebody-elses-key" not in shown
    assert KEY not in shown
    assert [refusal.kind for refusal, *_ in gateway.supervisor.refusals] == ["key", "unknown-path"]


SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: gateway\r\n\r\n"


@pytest.mark.parametrize(
    "lines",
    [
        ("content-length: 5", "transfer-encoding: chunked"),
        ("transfer-encoding: chunked", "content-length: 5"),
        ("content-length: 5", "content-length: 6"),
        ("transfer-encoding: identity, chunked", "transfer-encoding: identity"),
        ("transfer-encoding: xchunked",),
        ("content-length: +5",),
        ("content-length: -1",),
        ("content-length: 5, 5",),
        ("content-length : 5",),
        ("transfer-encoding:\x0bchunked",),
        ("x: a\r\n folded",),
        ("x: a\nauthorization: b",),
        ("x: nul\x00",),
        ("bad name: x",),
        (": nameless",),
    ],
)
def test_a_request_whose_end_is_in_doubt_is_refused_with_all_that_follows(lines: tuple[str, ...]) -> None:
    upstream = _make_upstream()
    with open_gateway(upstream) as gateway:
        received = send_raw(gateway.port, _build_head(*lines) + b"0\r\n\r\n" + SMUGGLED + BODY)
        assert upstream.requests == []
        assert gateway.supervisor.exchanges == []
    assert received.count(b"HTTP/1.1 ") + received.count(b"HTTP/1.0 ") <= 1
    assert b" 200 " not in received
    assert b"smuggled" not in repr(gateway.supervisor.refusals).encode()


def test_requests_behind_one_another_are_answered_each_in_its_turn() -> None:
    upstream = _make_upstream()
    one = _build_head(f"content-length: {len(BODY)}") + BODY
    last = _build_head(f"content-length: {len(BODY)}", "connection: close") + BODY
    with open_gateway(upstream) as gateway:
        received = send_raw(gateway.port, one + one + last)
    assert received.count(b"HTTP/1.1 200 OK") == 3
    assert [exchange.end.cause for exchange in gateway.supervisor.exchanges] == ["complete"] * 3


@pytest.mark.parametrize(
    "target",
    [
        "/v1/../v1/chat/completions",
        "/v1/%2e%2e/v1/chat/completions",
        "/v1//chat/completions",
        "//evil.example/v1/chat/completions",
        "/v1/chat/completions/../../files",
        "/v1/chat/completions%00",
        "/v1/files",
        "/v1beta/models/../../x:generateContent",
        "/v1beta/models/%2e%2e%2fx:generateContent",
        "http://evil.example/v1/chat/completions",
        "https://evil.example/v1/chat/completions",
        "http://evil.example:1/",
        "*",
        "file:///etc/passwd",
        "/v1/chat/completions#x/../y",
        "/v1\\chat\\completions",
    ],
)
def test_a_target_that_means_another_place_goes_nowhere(target: str) -> None:
    upstream = _make_upstream()
    with open_gateway(upstream) as gateway:
        head = _build_head(f"content-length: {len(BODY)}", "connection: close", target=target)
        received = send_raw(gateway.port, head + BODY)
        assert wait_until(lambda: gateway.supervisor.refusals)
    assert upstream.requests == []
    assert received.split(b" ", 2)[1] in {b"400", b"404"}


@pytest.mark.parametrize("method", ["CONNECT", "GET", "PUT", "DELETE", "TRACE", "OPTIONS", "PATCH", "BREW"])
def test_other_methods_ask_nobody_anything(method: str) -> None:
    upstream = _make_upstream()
    target = "evil.example:443" if method == "CONNECT" else CHAT
    with open_gateway(upstream) as gateway:
        received = send_raw(gateway.port, _build_head("connection: close", method=method, target=target))
    assert upstream.requests == []
    assert received.split(b" ", 2)[1] in {b"400", b"404"}


@pytest.mark.parametrize("protocol", ["websocket", "h2c", "TLS/1.2"])
def test_a_connection_is_not_upgraded(protocol: str) -> None:
    upstream = _make_upstream()
    lines = ("connection: upgrade", f"upgrade: {protocol}", f"content-length: {len(BODY)}")
    more = ("sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==")
    with open_gateway(upstream) as gateway:
        received = send_raw(gateway.port, _build_head(*lines, *more) + BODY)
    assert not received.startswith(b"HTTP/1.1 101")
    assert upstream.requests == []


def test_bodies_and_heads_have_bounds() -> None:
    upstream = _make_upstream()
    limits = GatewayLimits(request_bytes=1000, line_bytes=500, header_lines=20, lingering_seconds=0.1)
    with open_gateway(upstream, limits=limits) as gateway:
        declared = send_raw(gateway.port, _build_head("content-length: 99999999999"))
        chunk = b"3e8\r\n" + b"x" * 1000 + b"\r\n"
        chunked = send_raw(gateway.port, _build_head("transfer-encoding: chunked") + chunk * 3)
        long_line = send_raw(gateway.port, _build_head(f"x: {'y' * 2000}", "content-length: 0"))
        many = send_raw(
            gateway.port, _build_head(*(f"x{index}: 1" for index in range(50)), "content-length: 0")
        )
        target = send_raw(gateway.port, _build_head("content-length: 0", target=f"{CHAT}?{'q' * 2000}"))
    assert [answer.split(b" ", 2)[1] for answer in (declared, chunked, long_line, many, target)] == [
        b"413",
        b"413",
        b"400",
        b"400",
        b"400",
    ]
    assert upstream.requests == []
    assert len(gateway.supervisor.refusals) == 5


def test_a_compressed_body_is_not_unpacked() -> None:
    upstream = _make_upstream()
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, CHAT, b"\x1f\x8b" + b"\0" * 100, headers={"content-encoding": "gzip"})
        _assert_only_refused(gateway, upstream, "malformed")
    assert reply.status == 415


def test_whoever_sends_a_head_byte_by_byte_is_cut_off() -> None:
    limits = GatewayLimits(idle_seconds=0.3)
    with open_gateway(_make_upstream(), limits=limits) as gateway:
        client = socket.create_connection(("127.0.0.1", gateway.port), 90)
        # Where this is slow, the connection may be gone already.
        with client, contextlib.suppress(ConnectionError):
            client.sendall(b"POST /v1/chat")
            assert client.recv(1) == b"", "closed although more could come"
        with socket.create_connection(("127.0.0.1", gateway.port), 90) as client:
            assert client.recv(1) == b"", "closed although nothing came"


def test_whoever_never_ends_a_body_is_cut_off() -> None:
    upstream = _make_upstream()
    limits = GatewayLimits(body_seconds=0.3, lingering_seconds=0.1)
    with open_gateway(upstream, limits=limits) as gateway:
        received = send_raw(gateway.port, _build_head("content-length: 100") + b'{"model"')
        _assert_only_refused(gateway, upstream, "malformed")
    assert received.startswith(b"HTTP/1.1 408 ")


def test_connections_beyond_the_limit_are_closed_and_the_others_served() -> None:
    upstream = _make_upstream()
    limits = GatewayLimits(connections=4)
    with open_gateway(upstream, limits=limits) as gateway, contextlib.ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port), 90)) for _ in range(4)
        ]
        # Connections are accepted in order, so once one too many is closed the others stand.
        with socket.create_connection(("127.0.0.1", gateway.port), 90) as extra:
            assert extra.recv(1) == b""
        held[0].sendall(_build_head(f"content-length: {len(BODY)}", "connection: close") + BODY)
        received = b""
        while piece := held[0].recv(65536):
            received += piece
    assert received.startswith(b"HTTP/1.1 200 ")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"null",
        b"{",
        b'{"model":1}',
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"a":' * 5000,
    ],
)
def test_a_malformed_body_is_refused_in_the_dialect_and_kept(body: bytes) -> None:
    upstream = _make_upstream()
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, CHAT, body)
        _assert_only_refused(gateway, upstream, "malformed")
    assert reply.status == 400
    assert json.loads(reply.body)["error"]["type"] == "invalid_request_error"
    assert gateway.supervisor.refusals[0][3] == body


@pytest.mark.parametrize(
    "headers",
    [
        {"x-evil": "a\r\nset-cookie: b=c"},
        {"x-evil": "a\nlocation: http://evil.example"},
        {"x-evil\r\nset-cookie": "b=c"},
        {"x evil": "1"},
        {"transfer-encoding": "chunked", "content-length": "3"},
        {"connection": "close, content-type", "upgrade": "websocket"},
        {"content-encoding": "gzip"},
    ],
)
def test_headers_from_upstream_do_not_split_an_answer(headers: dict[str, str]) -> None:
    upstream = FakeUpstream(build_text_stream("x"), headers={"content-type": "text/event-stream", **headers})
    with open_gateway(upstream) as gateway:
        reply = ask(gateway.port, CHAT, build_chat())
        raw = send_raw(gateway.port, _build_head(f"content-length: {len(BODY)}", "connection: close") + BODY)
    assert reply.body == b"".join(upstream.chunks)
    head = raw.partition(b"\r\n\r\n")[0].lower()
    assert b"evil" not in head
    assert b"set-cookie" not in head
    assert b"content-encoding" not in head
    assert head.count(b"transfer-encoding") == 1
    assert b"content-length" not in head


def test_an_endless_answer_is_cut_at_its_bound() -> None:
    upstream = FakeUpstream([b": wait\n\n"] * 1000)
    limits = GatewayLimits(answer_bytes=2000)
    supervisor = FakeSupervisor()
    with open_gateway(upstream, supervisor=supervisor, limits=limits) as gateway:
        received = send_raw(
            gateway.port, _build_head(f"content-length: {len(BODY)}", "connection: close") + BODY
        )
    assert not received.endswith(b"0\r\n\r\n")
    assert supervisor.exchange.end.cause == "cut"
    assert len(supervisor.exchange.end.body) < 3000


def test_long_requests_at_once_take_turns_instead_of_the_harness_memory() -> None:
    upstream = FakeUpstream(build_text_stream("a"))
    most = 0

    async def look(_: int) -> None:
        nonlocal most
        most = max(most, len(upstream.requests) - len(upstream.ended))

    upstream.pause = look
    limits = GatewayLimits(request_bytes=100_000, held_bytes=100_000)
    with open_gateway(upstream, limits=limits) as gateway, ThreadPoolExecutor(8) as agents:
        asked = [agents.submit(ask, gateway.port, CHAT, build_chat("x" * 60_000)) for _ in range(8)]
        assert [future.result().status for future in asked] == [200] * 8
    assert most == 1
