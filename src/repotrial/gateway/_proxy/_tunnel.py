"""CONNECT: the first bytes of a connection, and tunnels of unread bytes to a host outside."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final

from repotrial.gateway._proxy._hosts import IpAddress

_CONNECT: Final = b"CONNECT "
_HEAD_END: Final = b"\r\n\r\n"
_REQUEST_LINE: Final = re.compile(rb"CONNECT ([!-~]{1,400}) HTTP/1\.[01]\r\n")


class TunnelRequest:
    """A connection that wants a tunnel, held still until it is decided."""

    def __init__(self, transport: asyncio.Transport, target: str, rest: bytes) -> None:
        self.transport = transport
        self.target = target
        self.rest = rest
        """What was sent ahead, before the tunnel stood."""

    def accept(self) -> None:
        self.transport.write(b"HTTP/1.1 200 Connection established\r\n\r\n")

    def refuse(self, status: str, message: str) -> None:
        body = message.encode("ascii", "replace") + b"\n"
        head = f"HTTP/1.1 {status}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
        self.transport.write(head.encode("ascii") + body)
        self.transport.close()

    def hand_over(self, protocol: asyncio.Protocol) -> None:
        """Let another protocol go on with the connection."""
        self.transport.set_protocol(protocol)
        protocol.connection_made(self.transport)


class PendingConnections:
    """Connections about which nothing was decided yet; once it is closed, further ones are aborted."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Transport] = set()
        self._expected = 0
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._waiting) + self._expected

    def expect(self) -> None:
        """One more comes: several are accepted before the first of them is connected."""
        self._expected += 1

    def enter(self, transport: asyncio.Transport) -> None:
        self._expected -= 1
        self._waiting.add(transport)
        if self._is_closed:
            transport.abort()

    def leave(self, transport: asyncio.Transport) -> None:
        self._waiting.discard(transport)

    def close(self) -> None:
        """End them all: one that sent nothing yet would else be answered after the end."""
        self._is_closed = True
        for transport in tuple(self._waiting):
            transport.abort()


class ProxyAcceptor(asyncio.Protocol):
    """Looks at the first bytes only; everything that is no tunnel goes to an HTTP server.

    Args:
        accept: Makes the protocol that reads requests.
        tunnel: Decides about a tunnel.
        pending: Holds the connection for as long as nothing was decided about it.
        max_bytes: Of the head that asks for one.
        seconds: Until that head must be there.
    """

    def __init__(
        self,
        accept: Callable[[], asyncio.Protocol],
        tunnel: Callable[[TunnelRequest], None],
        *,
        pending: PendingConnections,
        max_bytes: int,
        seconds: float,
    ) -> None:
        self._accept = accept
        self._tunnel = tunnel
        self._pending = pending
        pending.expect()
        self._max_bytes = max_bytes
        self._seconds = seconds
        self._data = b""
        self._transport: asyncio.Transport | None = None
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._pending.enter(transport)
        self._timer = asyncio.get_running_loop().call_later(self._seconds, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self._leave()

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        self._data += data
        if not _CONNECT.startswith(self._data[: len(_CONNECT)]):
            self._leave()
            reader = self._accept()
            TunnelRequest(self._transport, "", b"").hand_over(reader)
            reader.data_received(self._data)
        elif _HEAD_END in self._data:
            self._leave()
            self._transport.pause_reading()
            head, _, rest = self._data.partition(_HEAD_END)
            line = _REQUEST_LINE.match(head + b"\r\n")
            self._tunnel(TunnelRequest(self._transport, line[1].decode("ascii") if line else "", rest))
        elif len(self._data) > self._max_bytes:
            self._transport.abort()

    def _leave(self) -> None:
        if self._transport is not None:
            self._pending.leave(self._transport)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


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


async def open_outside(addresses: tuple[IpAddress, ...], port: int, protocol: asyncio.Protocol) -> None:
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
