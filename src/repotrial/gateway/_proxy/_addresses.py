"""Names are resolved outside, and only public addresses count: a name is no way into the host's networks."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeAlias

from repotrial.gateway._proxy._hosts import Authority

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
AddressCheck: TypeAlias = Callable[[Address], str | None]
"""Why an address must not be reached; null where it may be."""

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
) -> tuple[Address, ...]:
    """Addresses to connect to, now: what is checked is what is used, whatever the name says a moment later.

    Raises:
        RefusedAddressError: there is none, or one of them is not public. A name with a private address among
            its addresses is somebody's trick, so the others do not count either.
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


def find_address_problem(address: Address) -> str | None:
    """Why an address is not one of the public internet; null where it is."""
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


def _parse(text: str) -> Address:
    try:
        return ipaddress.ip_address(text)
    except ValueError as error:
        raise RefusedAddressError(f"expected an address, found {text[:80]!r}") from error
