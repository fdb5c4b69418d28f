"""The allow-list proxy: plain requests, tunnels, requests within TLS, recordings of them."""

from __future__ import annotations

import gzip
import socket
import ssl
from pathlib import Path

import pytest
from aiohttp import web

from repotrial._core.digest import digest_bytes
from repotrial.contract import AllowListNetwork, ReplayNetwork
from repotrial.gateway import GatewayLoop, NetworkAttempt, RunAuthority, build_network_proxy
from support.errors import raises_code
from support.gateways import HttpAnswer, Reply
from support.providers import Provider, open_provider
from support.proxies import (
    LOOPBACK,
    AllowListProxy,
    FakeResolver,
    LiveFetcher,
    RecordingFetcher,
    ReplayFetcher,
    Tape,
    TapeWriter,
    allow_loopback,
    fetch,
    fetch_in_tunnel,
    load_tape,
    open_proxy,
    parse_allow_list,
    parse_authority,
)
from support.waiting import wait_until

HOST = "origin.example"
URL = f"http://{HOST}/file"


async def _echo(request: web.BaseRequest) -> web.StreamResponse:
    body = f"{request.method} {request.raw_path} {request.headers['host']} ".encode() + await request.read()
    return web.Response(body=body, headers={"x-origin": "1", "set-cookie": "a=b"})


def _open_tls_provider(vouching: RunAuthority) -> ssl.SSLContext:
    context = vouching.find_context(HOST)
    assert context is not None
    return context


def _trust(vouching: RunAuthority) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=vouching.certificate_pem.decode())


def test_a_plain_request_reaches_a_host_on_the_list() -> None:
    with open_provider(_echo) as origin, open_proxy([f"{HOST}:{origin.port}"]) as proxy:
        url = f"http://{HOST}:{origin.port}/a/../b?q=%2F"
        reply = fetch(
            proxy.port,
            url,
            method="POST",
            body=b"data",
            headers={"authorization": "Basic x", "proxy-authorization": "p"},
        )
        assert wait_until(lambda: proxy.attempts)
    assert reply.body == f"POST /a/../b?q=%2F {HOST}:{origin.port} data".encode()
    assert reply.headers["x-origin"] == "1"
    assert "set-cookie" not in reply.headers
    assert origin.asked[0].headers["authorization"] == "Basic x"
    assert "proxy-authorization" not in origin.asked[0].headers
    (attempt,) = proxy.attempts
    assert (attempt.host, attempt.port, attempt.way, attempt.verdict, attempt.status) == (
        HOST,
        origin.port,
        "http",
        "passed",
        200,
    )
    assert (attempt.sent_bytes, attempt.received_bytes) == (4, len(reply.body))


def test_lengths_and_encodings_pass_as_they_are(tmp_path: Path) -> None:
    packed = gzip.compress(b"x" * 1000)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.method == "HEAD":
            return web.Response(headers={"content-length": "12345"})
        return web.Response(body=packed, headers={"content-encoding": "gzip"})

    with open_provider(answer) as origin:
        url = f"http://{HOST}:{origin.port}/"
        live = LiveFetcher(resolver=FakeResolver(origin_example=[LOOPBACK]), check=allow_loopback)
        recording = RecordingFetcher(live, TapeWriter(tmp_path))
        with open_proxy([f"{HOST}:{origin.port}"], fetcher=recording) as proxy:
            before = [fetch(proxy.port, url, method=method) for method in ("HEAD", "GET")]
    with open_proxy(None, fetcher=ReplayFetcher(load_tape(tmp_path))) as proxy:
        after = [fetch(proxy.port, url, method=method) for method in ("HEAD", "GET")]
    for head, whole in (before, after):
        assert (head.body, head.headers["content-length"]) == (b"", "12345")
        assert (whole.body, whole.headers["content-encoding"]) == (packed, "gzip")
        assert whole.headers["content-length"] == str(len(packed))


def test_a_host_that_is_not_on_the_list_is_not_even_resolved() -> None:
    resolver = FakeResolver(origin_example=[LOOPBACK], other_example=[LOOPBACK])
    with open_provider(_echo) as origin, open_proxy([f"{HOST}:{origin.port}"], resolver=resolver) as proxy:
        assert fetch(proxy.port, f"http://other.example:{origin.port}/").status == 403
        assert fetch(proxy.port, f"http://{HOST}:{origin.port + 1}/").status == 403
        assert fetch(proxy.port, f"http://{HOST}/").status == 403
    assert resolver.asked == []
    assert origin.asked == []
    assert [attempt.verdict for attempt in proxy.attempts] == ["refused"] * 3


def test_a_tunnel_passes_bytes_that_nobody_reads() -> None:
    vouching = RunAuthority()
    with (
        open_provider(_echo, tls=_open_tls_provider(vouching)) as origin,
        open_proxy([f"{HOST}:{origin.port}"]) as proxy,
    ):
        reply = fetch_in_tunnel(proxy.port, HOST, origin.port, "/x", trusted=vouching.certificate_pem)
        assert wait_until(lambda: proxy.attempts)
    assert reply.body.startswith(b"GET /x ")
    (attempt,) = proxy.attempts
    assert (attempt.way, attempt.verdict, attempt.method, attempt.path) == ("tunnel", "passed", "CONNECT", "")
    assert attempt.sent_bytes > 100
    assert attempt.received_bytes > len(reply.body)


def test_with_the_runs_authority_requests_within_tls_are_read() -> None:
    outside, run = RunAuthority(), RunAuthority()
    fetcher = LiveFetcher(
        resolver=FakeResolver(origin_example=[LOOPBACK]), check=allow_loopback, tls=_trust(outside)
    )
    with (
        open_provider(_echo, tls=_open_tls_provider(outside)) as origin,
        open_proxy([f"{HOST}:{origin.port}"], fetcher=fetcher, authority=run) as proxy,
    ):
        reply = fetch_in_tunnel(proxy.port, HOST, origin.port, "/x?y", trusted=run.certificate_pem)
        with pytest.raises(ssl.SSLCertVerificationError):
            fetch_in_tunnel(proxy.port, HOST, origin.port, "/x", trusted=outside.certificate_pem)
        assert wait_until(lambda: len(proxy.attempts) == 2)
    assert reply.body == f"GET /x?y {HOST}:{origin.port} ".encode()
    first, second = proxy.attempts
    assert (first.way, first.path, first.verdict) == ("https", "/x?y", "passed")
    assert (second.way, second.verdict) == ("https", "failed")


def test_a_host_whose_certificate_is_not_trusted_is_not_vouched_for() -> None:
    run = RunAuthority()
    with (
        open_provider(_echo, tls=_open_tls_provider(RunAuthority())) as origin,
        open_proxy([f"{HOST}:{origin.port}"], authority=run) as proxy,
    ):
        reply = fetch_in_tunnel(proxy.port, HOST, origin.port, "/", trusted=run.certificate_pem)
    assert reply.status == 502
    assert origin.asked == []


def _record(tmp_path: Path, origin: Provider, paths: list[str]) -> list[bytes]:
    live = LiveFetcher(resolver=FakeResolver(origin_example=[LOOPBACK]), check=allow_loopback)
    fetcher = RecordingFetcher(live, TapeWriter(tmp_path))
    with open_proxy([f"{HOST}:{origin.port}"], fetcher=fetcher) as proxy:
        return [fetch(proxy.port, f"http://{HOST}:{origin.port}{path}").body for path in paths]


def test_what_was_recorded_is_replayed_without_reaching_anything(tmp_path: Path) -> None:
    count = 0

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        nonlocal count
        count += 1
        return web.Response(text=f"{request.raw_path} {count}", headers={"set-cookie": "secret=1"})

    with open_provider(answer) as origin:
        before = _record(tmp_path, origin, ["/a", "/a", "/b"])
    assert b"secret" not in (tmp_path / "web.jsonl").read_bytes()
    with open_proxy(None, fetcher=ReplayFetcher(load_tape(tmp_path))) as proxy:
        url = f"http://{HOST}:{origin.port}"
        after = [fetch(proxy.port, f"{url}{path}") for path in ("/b", "/a", "/a", "/a", "/c")]
        tunnel = fetch(proxy.port, "127.0.0.1:443", method="CONNECT")
    assert [reply.body for reply in after[:4]] == [before[2], before[0], before[1], before[1]]
    assert after[4].status == 504
    assert tunnel.status == 403
    verdicts = [attempt.verdict for attempt in proxy.attempts]
    assert verdicts == ["replayed"] * 4 + ["refused"] * 2


def test_recordings_within_tls_are_replayed_by_another_authority(tmp_path: Path) -> None:
    outside, run, later = RunAuthority(), RunAuthority(), RunAuthority()
    live = LiveFetcher(
        resolver=FakeResolver(origin_example=[LOOPBACK]), check=allow_loopback, tls=_trust(outside)
    )
    recording = RecordingFetcher(live, TapeWriter(tmp_path))
    with open_provider(_echo, tls=_open_tls_provider(outside)) as origin:
        with open_proxy([f"{HOST}:{origin.port}"], fetcher=recording, authority=run) as proxy:
            before = fetch_in_tunnel(proxy.port, HOST, origin.port, "/x", trusted=run.certificate_pem)
        port = origin.port
    with open_proxy(None, fetcher=ReplayFetcher(load_tape(tmp_path)), authority=later) as proxy:
        after = fetch_in_tunnel(proxy.port, HOST, port, "/x", trusted=later.certificate_pem)
    assert after.body == before.body


def _tape(tmp_path: Path, *answers: tuple[str, int, bytes]) -> None:
    writer = TapeWriter(tmp_path)
    for asked, status, body in answers:
        answer = HttpAnswer(status=status, headers={}, body=body)
        writer.append(method="GET", url=URL, request_digest=digest_bytes(b""), part=asked, answer=answer)
    writer.close()


def _find(tape: Tape, asked: str = "") -> bytes | None:
    answer = tape.find(method="GET", url=URL, request_digest=digest_bytes(b""), part=asked)
    return None if answer is None else answer.body


def test_parts_of_a_file_are_replayed_by_what_was_asked_for(tmp_path: Path) -> None:
    _tape(tmp_path, ("bytes=0-4", 206, b"hello"), ("bytes=5-9", 206, b"world"))
    tape = load_tape(tmp_path)
    found = [_find(tape, asked) for asked in ("bytes=5-9", "bytes=0-4", "bytes=5-9", "bytes=5-6", "")]
    assert found == [b"world", b"hello", b"world", None, None]


def test_who_asks_for_a_part_may_be_given_the_whole(tmp_path: Path) -> None:
    _tape(tmp_path, ("", 200, b"helloworld"))
    assert _find(load_tape(tmp_path), "bytes=0-4") == b"helloworld"


def test_tapes_without_ranges_are_read_as_before(tmp_path: Path) -> None:
    _tape(tmp_path, ("", 206, b"hello"), ("", 206, b"world"))
    assert b"part" not in (tmp_path / "web.jsonl").read_bytes()
    tape = load_tape(tmp_path)
    assert [_find(tape, "bytes=0-4"), _find(tape, "bytes=5-9")] == [b"hello", b"world"]


def test_ranges_pass_and_are_recorded(tmp_path: Path) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        asked = request.headers.get("range", "")
        return web.Response(status=206 if asked else 200, text=asked or "whole")

    live = LiveFetcher(resolver=FakeResolver(origin_example=[LOOPBACK]), check=allow_loopback)
    asked = [{"range": "bytes=0-4"}, {}, {"range": "bytes=5-9"}]
    with open_provider(answer) as origin:
        url = f"http://{HOST}:{origin.port}/file"
        recording = RecordingFetcher(live, TapeWriter(tmp_path))
        with open_proxy([f"{HOST}:{origin.port}"], fetcher=recording) as proxy:
            before = [fetch(proxy.port, url, headers=headers).body for headers in asked]
    with open_proxy(None, fetcher=ReplayFetcher(load_tape(tmp_path))) as proxy:
        after = [fetch(proxy.port, url, headers=headers).body for headers in reversed(asked)]
    assert after == [*reversed(before)]


def test_a_contract_says_which_network_there_is(tmp_path: Path) -> None:
    resolver = FakeResolver(origin_example=[LOOPBACK])
    attempts: list[NetworkAttempt] = []
    with open_provider(_echo) as origin:
        declared = AllowListNetwork(hosts=(f"{HOST}:{origin.port}",))
        first = build_network_proxy(
            declared, sink=attempts.append, record_to=tmp_path, resolver=resolver, check=allow_loopback
        )
        url = f"http://{HOST}:{origin.port}/x"
        before = _fetch_from(first, url)
    for network, tape in ((declared, tmp_path), (ReplayNetwork(recording=str(tmp_path)), None)):
        later = build_network_proxy(network, sink=attempts.append, tape=tape)
        assert _fetch_from(later, url).body == before.body
    assert [attempt.verdict for attempt in attempts] == ["passed", "replayed", "replayed"]
    with raises_code("recording-unreadable"):
        build_network_proxy(ReplayNetwork(recording=str(tmp_path / "none")), sink=attempts.append)


def _fetch_from(proxy: AllowListProxy, url: str) -> Reply:
    with GatewayLoop() as loop, socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        with loop.attach(listener, proxy):
            return fetch(port, url)


def test_a_tape_that_is_none_is_refused(tmp_path: Path) -> None:
    with raises_code("recording-unreadable"):
        load_tape(tmp_path)
    (tmp_path / "web.jsonl").write_text('{"format":"repotrial-web/1"}\n{"x":1}\n', encoding="utf-8")
    with raises_code("recording-unreadable"):
        load_tape(tmp_path)


@pytest.mark.parametrize(
    ("entries", "authority", "is_allowed"),
    [
        (["example.org"], "example.org:443", True),
        (["example.org"], "example.org:80", True),
        (["Example.ORG"], "example.org:443", True),
        (["example.org"], "EXAMPLE.org.:443", True),
        (["example.org"], "example.org:8080", False),
        (["example.org:8080"], "example.org:8080", True),
        (["example.org:8080"], "example.org:443", False),
        (["example.org"], "www.example.org:443", False),
        (["example.org"], "evilexample.org:443", False),
        (["example.org"], "example.org.evil:443", False),
        (["*.example.org"], "a.b.example.org:443", True),
        (["*.example.org"], "example.org:443", False),
        (["*.example.org"], "evilexample.org:443", False),
        (["192.0.2.7:80"], "192.0.2.7:80", True),
        (["[2001:db8::1]:80"], "[2001:db8::1]:80", True),
    ],
)
def test_names_match_whole_and_ports_too(entries: list[str], authority: str, *, is_allowed: bool) -> None:
    parsed = parse_authority(authority, default_port=443)
    assert parsed is not None
    assert parse_allow_list(entries).allows(parsed) is is_allowed


@pytest.mark.parametrize(
    "entry",
    [
        "*",
        "*.org",
        "*.",
        "",
        "a b",
        "http://example.org",
        "example.org/x",
        "x:0",
        "x:99999",
        "*.10.0.0.1",
        "-a.org",
        "a..b",
    ],
)
def test_entries_that_are_no_hosts_are_refused(entry: str) -> None:
    with raises_code("host-pattern"):
        parse_allow_list([entry])


def test_programs_are_told_in_every_way_they_know() -> None:
    variables = RunAuthority().build_variables(8080, certificate="/run/authority.pem")
    assert variables["https_proxy"] == variables["HTTPS_PROXY"] == "http://127.0.0.1:8080"
    assert variables["SSL_CERT_FILE"] == variables["NODE_EXTRA_CA_CERTS"] == "/run/authority.pem"


def test_a_connection_that_never_said_anything_ends_with_the_loop() -> None:
    with open_proxy(("origin.example",)) as proxy:
        silent = socket.create_connection((LOOPBACK, proxy.port), timeout=60)
        assert (
            fetch(proxy.port, "http://elsewhere.example/").status == 403
        )  # by now the other one is accepted
    with silent:
        try:
            rest = silent.recv(1)
        except ConnectionResetError:
            rest = b""
    assert rest == b""
