"""Hosts that may be reached: names of the allow-list, resolved outside, at public addresses only."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeAlias

import msgspec

from repotrial._core.errors import ContractError, ErrorCode

HOST_PATTERN = ErrorCode(
    "host-pattern",
    ContractError,
    "An entry of a network allow-list is no host name, or a wildcard that would allow too much.",
    hint="write example.org, example.org:8443 or *.example.org",
)


DEFAULT_PORTS: Final = frozenset({80, 443})
"""Where an entry names no port of its own."""

_LABEL: Final = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME: Final = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_PORT: Final = re.compile(r"[1-9][0-9]{0,4}")
_MAX_NAME: Final = 253
_MAX_PORT: Final = 65535
_MIN_WILDCARD_LABELS: Final = 2


class Authority(msgspec.Struct, frozen=True, kw_only=True):
    """A host and a port, as a request names them."""

    host: str
    """In lower case, without a final dot; an IPv6 address without brackets."""
    port: int

    @property
    def is_address(self) -> bool:
        """Whether it is an address and needs no resolving."""
        try:
            ipaddress.ip_address(self.host)
        except ValueError:
            return False
        return True

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class _Entry(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    is_suffix: bool
    ports: frozenset[int]

    def matches(self, authority: Authority) -> bool:
        if authority.port not in self.ports:
            return False
        if self.is_suffix:
            return authority.host.endswith(f".{self.host}") and not authority.is_address
        return authority.host == self.host


class AllowList(msgspec.Struct, frozen=True, kw_only=True):
    """The entries of a contract's allow-list."""

    entries: tuple[_Entry, ...]

    def allows(self, authority: Authority) -> bool:
        return any(entry.matches(authority) for entry in self.entries)


def parse_allow_list(hosts: Iterable[str]) -> AllowList:
    """Read a contract's `hosts`.

    Raises:
        HOST_PATTERN: an entry is no host name, or a wildcard over a whole top-level domain.
    """
    return AllowList(entries=tuple(_parse_entry(text) for text in hosts))


def _parse_entry(text: str) -> _Entry:
    is_suffix = text.startswith("*.")
    authority = parse_authority(text.removeprefix("*."), default_port=0)
    if authority is None:
        raise HOST_PATTERN.error(f"expected a host name, found {text[:100]!r}")
    if is_suffix and (authority.is_address or authority.host.count(".") + 1 < _MIN_WILDCARD_LABELS):
        raise HOST_PATTERN.error(f"expected a wildcard below a domain, found {text[:100]!r}")
    ports = frozenset({authority.port}) if authority.port else DEFAULT_PORTS
    return _Entry(host=authority.host, is_suffix=is_suffix, ports=ports)


def parse_authority(text: str, *, default_port: int) -> Authority | None:
    """Read `host`, `host:port`, `[address]:port`; None if it is none of these."""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or not _is_version_6(host):
            return None
        mark, port_text = rest[:1], rest[1:]
    else:
        host, mark, port_text = text.partition(":")
    if mark not in {"", ":"} or (mark and not _PORT.fullmatch(port_text)):
        return None
    port = int(port_text) if mark else default_port
    host = host.lower().removesuffix(".")
    if port > _MAX_PORT or len(host) > _MAX_NAME or not (_is_version_6(host) or _NAME.fullmatch(host)):
        return None
    # `127.1`, `0x7f.1` and `2130706433` are addresses to a resolver, and names to other programs.
    if _is_odd_address(host):
        return None
    return Authority(host=host, port=port)


def _is_version_6(host: str) -> bool:
    try:
        return ipaddress.IPv6Address(host).scope_id is None
    except ValueError:
        return False


def _is_odd_address(host: str) -> bool:
    last = host.rpartition(".")[2]
    if ":" in host or not re.fullmatch(r"[0-9]+|0x[0-9a-f]*", last):
        return False
    try:
        ipaddress.IPv4Address(host)
    except ValueError:
        return True
    return False


IpAddress: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressCheck: TypeAlias = Callable[[IpAddress], str | None]
"""Why an address must not be reached; None if it may be."""

_RESOLVE_SECONDS: Final = 20.0
# Version 6 addresses that carry a version 4 address somewhere inside, to be reached by a relay.
_TRANSLATED: Final = tuple(
    ipaddress.IPv6Network(text)
    for text in ("64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", "2001::/32", "::/96")
)


class Resolver(Protocol):
    """Turns names into addresses, outside of the sandbox."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Addresses of a name; none where there is no such name."""
        ...


class SystemResolver:
    """As the host does it."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError:
            return ()
        return tuple(dict.fromkeys(str(answer[4][0]) for answer in answers))


class RefusedAddressError(Exception):
    """A name has no address that may be reached; the message says why."""


async def resolve_checked(
    authority: Authority, *, resolver: Resolver, check: AddressCheck
) -> tuple[IpAddress, ...]:
    """Addresses to connect to, now: what is checked is what is used, whatever the name says a moment later.

    Raises:
        RefusedAddressError: there is none, or one of them is not public. A name with a private address among
            its addresses is suspicious, so the others do not count either.
    """
    if authority.is_address:
        texts: Sequence[str] = (authority.host,)
    else:
        try:
            async with asyncio.timeout(_RESOLVE_SECONDS):
                texts = await resolver.resolve(authority.host, authority.port)
        except TimeoutError as error:
            raise RefusedAddressError(f"{authority.host}: no answer in time") from error
    addresses = tuple(_parse(text) for text in texts)
    if not addresses:
        raise RefusedAddressError(f"{authority.host}: no such name")
    for address in addresses:
        problem = check(address)
        if problem is not None:
            raise RefusedAddressError(f"{authority.host}: {address} is {problem}")
    return addresses


def find_address_problem(address: IpAddress) -> str | None:
    """Why an address is not one of the public internet; None if it is."""
    if isinstance(address, ipaddress.IPv6Address):
        if address.ipv4_mapped is not None:
            return find_address_problem(address.ipv4_mapped)
        if address.scope_id is not None:
            return "bound to an interface"
        if any(address in network for network in _TRANSLATED):
            return "translated to another"
    for is_it, problem in (
        (address.is_loopback, "this machine itself"),
        (address.is_link_local, "link-local"),
        (address.is_multicast, "multicast"),
        (address.is_unspecified, "unspecified"),
        (address.is_reserved, "reserved"),
        (not address.is_global, "private"),
    ):
        if is_it:
            return problem
    return None


def _parse(text: str) -> IpAddress:
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise RefusedAddressError(f"expected an address, found {text[:80]!r}") from error
