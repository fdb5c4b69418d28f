"""Bytes in both directions between a program in the sandbox and a host outside; read by nobody."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from repotrial.gateway._proxy._addresses import Address

_CONNECT_SECONDS: Final = 30.0


class Tunnel:
    """Two ends, joined; each stops reading while the other cannot write.

    Args:
        on_end: Called once, with the bytes that went out and those that came in.
        max_bytes: In both directions together; the tunnel ends there.
    """

    def __init__(self, on_end: Callable[[int, int], None], *, max_bytes: int) -> None:
        self.inside = _End(self)
        self.outside = _End(self)
        self._on_end = on_end
        self._max_bytes = max_bytes
        self._is_over = False

    def pass_on(self, source: _End, data: bytes) -> None:
        target = self.outside if source is self.inside else self.inside
        source.taken_bytes += len(data)
        if self.inside.taken_bytes + self.outside.taken_bytes > self._max_bytes:
            self.end()
        elif target.transport is not None:
            target.transport.write(data)

    def pause(self, blocked: _End, *, is_paused: bool) -> None:
        other = self.outside if blocked is self.inside else self.inside
        if other.transport is not None and not other.transport.is_closing():
            if is_paused:
                other.transport.pause_reading()
            else:
                other.transport.resume_reading()

    def finish(self, source: _End) -> None:
        """One end has no more to say; the other may still have."""
        source.is_finished = True
        target = self.outside if source is self.inside else self.inside
        if target.is_finished or target.transport is None or target.transport.is_closing():
            self.end()
        elif target.transport.can_write_eof():
            target.transport.write_eof()

    def end(self) -> None:
        if self._is_over:
            return
        self._is_over = True
        for end in (self.inside, self.outside):
            if end.transport is not None:
                end.transport.close()
        self._on_end(self.inside.taken_bytes, self.outside.taken_bytes)


class _End(asyncio.Protocol):
    def __init__(self, tunnel: Tunnel) -> None:
        self._tunnel = tunnel
        self.transport: asyncio.Transport | None = None
        self.taken_bytes = 0
        self.is_finished = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._tunnel.pass_on(self, data)

    def eof_received(self) -> bool:
        self._tunnel.finish(self)
        return True

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._tunnel.end()

    def pause_writing(self) -> None:
        self._tunnel.pause(self, is_paused=True)

    def resume_writing(self) -> None:
        self._tunnel.pause(self, is_paused=False)


async def open_outside(addresses: tuple[Address, ...], port: int, protocol: asyncio.Protocol) -> None:
    """Connect to the first address that answers.

    Raises:
        OSError: none does.
    """
    loop = asyncio.get_running_loop()
    problem: OSError = OSError("no address")
    for address in addresses:
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                await loop.create_connection(lambda: protocol, str(address), port)
        except OSError as error:  # a time-out is one, too
            problem = error
        else:
            return
    raise problem
