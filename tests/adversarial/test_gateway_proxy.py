"""Ways around an allow-list: other names for addresses, names that change, requests that say two things."""

from __future__ import annotations

import contextlib
import ipaddress
import socket

import pytest
from aiohttp import web

from repotrial.gateway import GatewayLoop, RunAuthority
from repotrial.gateway._model import GatewayLimits
from repotrial.gateway._proxy._fetch import LiveFetcher
from repotrial.gateway._proxy._hosts import find_address_problem, parse_allow_list, parse_authority
from repotrial.gateway._proxy._proxy import AllowListProxy
from support.gateways import send_raw
from support.providers import open_provider
from support.proxies import LOOPBACK, FakeResolver, allow_loopback, fetch, fetch_in_tunnel, open_proxy
from support.waiting import wait_until

HOST = "origin.example"


async def _say(_: web.BaseRequest) -> web.StreamResponse:
    return web.Response(text="reached")


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "127.255.0.1",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "192.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "203.0.113.9",
        "224.0.0.1",
        "240.0.0.1",
        "255.255.255.255",
        "::1",
        "::",
        "fe80::1",
        "fe80::1%eth0",
        "fc00::1",
        "fd12:3456::1",
        "ff02::1",
        "2001:db8::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "::ffff:169.254.169.254",
        "::127.0.0.1",
        "64:ff9b::a00:1",
        "2002:a00:1::",
        "2001:0:a00:1::",
    ],
)
def test_addresses_that_are_not_of_the_public_internet_are_refused(address: str) -> None:
    assert find_address_problem(ipaddress.ip_address(address)) is not None


@pytest.mark.parametrize("address", ["93.184.215.14", "1.1.1.1", "2606:4700::1111", "::ffff:1.1.1.1"])
def test_public_addresses_are_not_refused(address: str) -> None:
    assert find_address_problem(ipaddress.ip_address(address)) is None


@pytest.mark.parametrize(
    "host",
    [
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0x7f000001",
        "0177.0.0.1",
        "127.0.0.1.",
        "[::1%lo]",
        "user@origin.example",
        "origin.example\\@evil.example",
        "origin.example%00.evil.example",
        "\N{CYRILLIC SMALL LETTER O}rigin.example",
        "origin.example:80:90",
        "[::1",
        "",
    ],
)
def test_odd_spellings_of_hosts_are_none(host: str) -> None:
    parsed = parse_authority(host, default_port=80)
    assert parsed is None or (parsed.is_address and find_address_problem(ipaddress.ip_address(parsed.host)))


@pytest.mark.parametrize(
    "answers",
    [
        ["127.0.0.1"],
        ["10.0.0.1"],
        ["1.1.1.1", "169.254.169.254"],
        ["169.254.169.254", "1.1.1.1"],
        ["::ffff:127.0.0.1"],
        ["not an address"],
        [],
    ],
)
@pytest.mark.parametrize("way", ["plain", "tunnel"])
def test_a_name_with_a_private_address_among_its_addresses_is_not_reached(
    answers: list[str], way: str
) -> None:
    resolver = FakeResolver(origin_example=answers)
    with open_provider(_say) as origin:
        entries = [f"{HOST}:{origin.port}"]
        with open_proxy(entries, resolver=resolver, check=find_address_problem) as proxy:
            if way == "plain":
                reply = fetch(proxy.port, f"http://{HOST}:{origin.port}/")
            else:
                reply = fetch(proxy.port, f"{HOST}:{origin.port}", method="CONNECT")
    assert reply.status == 403
    assert origin.asked == []
    (attempt,) = proxy.attempts
    assert (attempt.verdict, attempt.host) == ("refused", HOST)


@pytest.mark.parametrize("way", ["plain", "tunnel"])
def test_a_name_that_changes_after_it_was_checked_changes_nothing(way: str) -> None:
    """DNS rebinding: the first answer may be reached, every later one may not."""
    resolver = FakeResolver(origin_example=lambda asked: [LOOPBACK] if asked == 1 else ["127.0.0.2"])
    with open_provider(_say) as origin, open_proxy([f"{HOST}:{origin.port}"], resolver=resolver) as proxy:
        if way == "plain":
            replies = [fetch(proxy.port, f"http://{HOST}:{origin.port}/") for _ in range(2)]
            assert [reply.status for reply in replies] == [200, 403]
        else:
            first = _open_tunnel(proxy.port, f"{HOST}:{origin.port}")
            second = _open_tunnel(proxy.port, f"{HOST}:{origin.port}")
            assert (first, second) == (b"200", b"403")
    # Once for each request: what was checked is what was used.
    assert resolver.asked == [HOST, HOST]


def _open_tunnel(port: int, target: str) -> bytes:
    with socket.create_connection((LOOPBACK, port), 90) as client:
        client.sendall(f"CONNECT {target} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
        return client.recv(100).split(b" ")[1]


def test_a_redirect_to_a_private_address_leads_nowhere() -> None:
    async def redirect(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=302, headers={"location": "http://169.254.169.254/latest/"})

    with open_provider(redirect) as origin, open_proxy([f"{HOST}:{origin.port}", "169.254.169.254"]) as proxy:
        reply = fetch(proxy.port, f"http://{HOST}:{origin.port}/")
        assert reply.status == 302
        assert fetch(proxy.port, reply.headers["location"]).status == 403
    assert [attempt.verdict for attempt in proxy.attempts] == ["passed", "refused"]


@pytest.mark.parametrize(
    "target",
    [
        "/path",
        "https://origin.example/",
        "http://user:pass@origin.example/",
        "http://origin.example@evil.example/",
        "http://",
        "ftp://origin.example/",
        "http://origin.example:99999/",
        "http://evil.example/http://origin.example/",
        "http://2130706433/",
        "http://[::1]/",
        "*",
    ],
)
def test_targets_that_are_not_on_the_list_or_cannot_be_read_are_refused(target: str) -> None:
    resolver = FakeResolver(origin_example=[LOOPBACK], evil_example=[LOOPBACK])
    with open_proxy([HOST], resolver=resolver) as proxy:
        received = send_raw(
            proxy.port, f"GET {target} HTTP/1.1\r\nhost: origin.example\r\nconnection: close\r\n\r\n".encode()
        )
        assert wait_until(lambda: proxy.attempts)
    assert received.split(b" ")[1] in {b"400", b"403"}
    assert {attempt.verdict for attempt in proxy.attempts} == {"refused"}
    assert resolver.asked == []


def test_the_host_header_does_not_choose_another_host() -> None:
    resolver = FakeResolver(origin_example=[LOOPBACK])
    with open_provider(_say) as origin, open_proxy([f"{HOST}:{origin.port}"], resolver=resolver) as proxy:
        url = f"http://{HOST}:{origin.port}/"
        assert fetch(proxy.port, url, headers={"host": "evil.example"}).status == 200
    assert origin.asked[0].headers["host"] == f"{HOST}:{origin.port}"


def test_within_tls_another_host_is_not_asked_for() -> None:
    run = RunAuthority()
    fetcher = LiveFetcher(resolver=FakeResolver(origin_example=[LOOPBACK]), check=allow_loopback)
    with open_proxy(["origin.example", "other.example"], fetcher=fetcher, authority=run) as proxy:
        reply = _ask_in_tunnel(proxy.port, run, "other.example")
        assert reply.startswith(b"HTTP/1.1 421 ")
    assert [attempt.verdict for attempt in proxy.attempts] == ["refused"]


def _ask_in_tunnel(port: int, run: RunAuthority, host_header: str) -> bytes:
    import ssl

    context = ssl.create_default_context(cadata=run.certificate_pem.decode())
    with socket.create_connection((LOOPBACK, port), 90) as client:
        client.sendall(b"CONNECT origin.example:443 HTTP/1.1\r\nhost: x\r\n\r\n")
        assert client.recv(1000).startswith(b"HTTP/1.1 200 ")
        with context.wrap_socket(client, server_hostname=HOST) as inner:
            inner.sendall(f"GET / HTTP/1.1\r\nhost: {host_header}\r\nconnection: close\r\n\r\n".encode())
            return inner.recv(1000)


@pytest.mark.parametrize(
    "head",
    [
        b"CONNECT  HTTP/1.1\r\n\r\n",
        b"CONNECT origin.example HTTP/1.1\r\n\r\n",
        b"CONNECT origin.example:443 HTTP/9.9\r\n\r\n",
        b"CONNECT origin.example:443\r\n\r\n",
        b"CONNECT http://origin.example/ HTTP/1.1\r\n\r\n",
        b"CONNECT evil.example:443 HTTP/1.1\r\nhost: origin.example:443\r\n\r\n",
        b"CONNECT origin.example:22 HTTP/1.1\r\n\r\n",
        b"CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n",
        b"GARBAGE\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    ],
)
def test_what_is_no_request_of_ours_gets_no_tunnel(head: bytes) -> None:
    resolver = FakeResolver(origin_example=[LOOPBACK])
    limits = GatewayLimits(idle_seconds=0.5)
    with open_proxy([HOST], resolver=resolver, limits=limits) as proxy:
        received = send_raw(proxy.port, head)
    assert b" 200 " not in received
    assert resolver.asked == []


def test_an_endless_head_is_cut_off() -> None:
    with open_proxy([HOST], limits=GatewayLimits(line_bytes=1000)) as proxy:
        assert send_raw(proxy.port, b"CONNECT " + b"x" * 5000) == b""
    with open_proxy([HOST], limits=GatewayLimits(idle_seconds=0.2)) as proxy:
        assert send_raw(proxy.port, b"CONNECT ") == b""


def test_an_answer_that_is_too_long_is_cut_and_said_so() -> None:
    async def flood(_: web.BaseRequest) -> web.StreamResponse:
        return web.Response(body=b"x" * 100_000)

    limits = GatewayLimits(answer_bytes=1000)
    with open_provider(flood) as origin, open_proxy([f"{HOST}:{origin.port}"], limits=limits) as proxy:
        head = f"GET http://{HOST}:{origin.port}/ HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        received = send_raw(proxy.port, head.encode())
        assert wait_until(lambda: proxy.attempts)
    assert not received.endswith(b"0\r\n\r\n")
    assert proxy.attempts[0].verdict == "refused"


def test_the_end_of_a_run_ends_its_tunnels_and_reports_them() -> None:
    with open_provider(_say) as origin:
        with open_proxy([f"{HOST}:{origin.port}"]) as proxy:
            client = socket.create_connection((LOOPBACK, proxy.port), 90)
            client.sendall(f"CONNECT {HOST}:{origin.port} HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            assert client.recv(100).startswith(b"HTTP/1.1 200 ")
            client.sendall(b"GET / HT")
        with client:
            assert client.recv(1) == b""
    (attempt,) = proxy.attempts
    assert (attempt.way, attempt.verdict) == ("tunnel", "passed")


def test_a_connection_that_said_nothing_yet_is_not_answered_after_the_end() -> None:
    resolver = FakeResolver(origin_example=[LOOPBACK])
    fetcher = LiveFetcher(resolver=resolver, check=allow_loopback)
    with (
        open_provider(_say) as origin,
        GatewayLoop() as loop,
        socket.create_server((LOOPBACK, 0)) as listener,
    ):
        port, url = listener.getsockname()[1], f"http://{HOST}:{origin.port}/"
        allowed = parse_allow_list([f"{HOST}:{origin.port}"])
        with loop.attach(listener, AllowListProxy(allowed, fetcher=fetcher, sink=lambda _: None)):
            client = socket.create_connection((LOOPBACK, port), 90)
            # Later ones are answered: so this one was accepted.
            assert fetch(port, url).status == 200
        with client, contextlib.suppress(ConnectionError):
            client.sendall(f"GET {url}late HTTP/1.1\r\nhost: x\r\n\r\n".encode())
            assert client.recv(1) == b""
    assert [asked.target for asked in origin.asked] == ["/"]


def test_an_authority_vouches_for_hosts_only_and_not_for_ever() -> None:
    from cryptography import x509

    run = RunAuthority()
    own = x509.load_pem_x509_certificate(run.certificate_pem)
    constraints = own.extensions.get_extension_for_class(x509.BasicConstraints).value
    assert (constraints.ca, constraints.path_length) == (True, 0)
    assert (own.not_valid_after_utc - own.not_valid_before_utc).days <= 8
    assert b"PRIVATE" not in run.certificate_pem
    assert RunAuthority().certificate_pem != run.certificate_pem
    with open_proxy([HOST], authority=run) as proxy, pytest.raises(OSError, match=r"."):
        fetch_in_tunnel(proxy.port, HOST, 443, "/", trusted=RunAuthority().certificate_pem)
