"""An allow-list proxy on a loopback port, names that a test makes up, and clients that use them."""

from __future__ import annotations

import contextlib
import http.client
import ipaddress
import socket
import ssl
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from repotrial.gateway import GatewayLoop, NetworkAttempt, RunAuthority
from repotrial.gateway._model import GatewayLimits
from repotrial.gateway._proxy._fetch import Fetcher, LiveFetcher, RecordingFetcher, ReplayFetcher
from repotrial.gateway._proxy._hosts import IpAddress, find_address_problem, parse_allow_list, parse_authority
from repotrial.gateway._proxy._proxy import AllowListProxy
from repotrial.gateway._proxy._tape import Tape, TapeWriter, load_tape
from support.gateways import SECONDS, Reply

__all__ = [
    "LOOPBACK",
    "AllowListProxy",
    "FakeResolver",
    "LiveFetcher",
    "Proxy",
    "RecordingFetcher",
    "ReplayFetcher",
    "Tape",
    "TapeWriter",
    "allow_loopback",
    "fetch",
    "fetch_in_tunnel",
    "load_tape",
    "open_proxy",
    "parse_allow_list",
    "parse_authority",
]


LOOPBACK = "127.0.0.1"


class FakeResolver:
    """Knows the names that it is told; an answer may change with each question."""

    def __init__(self, **names: Sequence[str] | Callable[[int], Sequence[str]]) -> None:
        self._names = {name.replace("_", "."): answer for name, answer in names.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        assert port
        self.asked.append(host)
        answer = self._names.get(host, ())
        return answer(self.asked.count(host)) if callable(answer) else answer


def allow_loopback(address: IpAddress) -> str | None:
    """As always, but for the address at which the test itself listens."""
    return None if address == ipaddress.ip_address(LOOPBACK) else find_address_problem(address)


class Proxy(NamedTuple):
    """A proxy that listens."""

    port: int
    attempts: list[NetworkAttempt]
    loop: GatewayLoop
    service: AllowListProxy


@contextlib.contextmanager
def open_proxy(
    hosts: Sequence[str] | None,
    *,
    resolver: FakeResolver | None = None,
    fetcher: Fetcher | None = None,
    authority: RunAuthority | None = None,
    check: Callable[[IpAddress], str | None] = allow_loopback,
    limits: GatewayLimits | None = None,
) -> Iterator[Proxy]:
    """A proxy on a loop of its own; without a fetcher, one that reaches out."""
    attempts: list[NetworkAttempt] = []
    names = resolver or FakeResolver(origin_example=[LOOPBACK])
    proxy = AllowListProxy(
        None if hosts is None else parse_allow_list(hosts),
        fetcher=fetcher or LiveFetcher(resolver=names, check=check),
        sink=attempts.append,
        authority=authority,
        resolver=names,
        check=check,
        limits=limits,
    )
    with GatewayLoop() as loop, socket.create_server((LOOPBACK, 0)) as listener:
        port = listener.getsockname()[1]
        with loop.attach(listener, proxy):
            yield Proxy(port, attempts, loop, proxy)


def fetch(
    port: int,
    url: str,
    *,
    method: str = "GET",
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """A plain request through the proxy."""
    connection = http.client.HTTPConnection(LOOPBACK, port, timeout=SECONDS)
    with contextlib.closing(connection):
        connection.request(method, url, body=body, headers=headers or {})
        return _read(connection)


def fetch_in_tunnel(port: int, host: str, host_port: int, path: str, *, trusted: bytes) -> Reply:
    """A request over TLS, through CONNECT; raises where the certificate is not vouched for by `trusted`."""
    context = ssl.create_default_context(cadata=trusted.decode())
    connection = http.client.HTTPSConnection(LOOPBACK, port, timeout=SECONDS, context=context)
    connection.set_tunnel(host, host_port)
    with contextlib.closing(connection):
        connection.request("GET", path)
        return _read(connection)


def _read(connection: http.client.HTTPConnection) -> Reply:
    response = connection.getresponse()
    headers = {name.lower(): value for name, value in response.getheaders()}
    return Reply(response.status, headers, response.read())
