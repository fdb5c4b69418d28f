"""Which hosts and ports a contract lets through, by name (P9)."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from typing import Final

import msgspec

from repotrial.gateway._errors import HOST_PATTERN

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
    """Read `host`, `host:port`, `[address]:port`; null where it is none of these."""
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
    # `127.1`, `0x7f.1` and `2130706433` are addresses to a resolver, and names to everybody else.
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
