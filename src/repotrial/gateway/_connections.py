"""Connections from inside a sandbox: bounded in number, size and time before anything is looked at."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Final, TypeAlias

from aiohttp import web

from repotrial.gateway._model import GatewayLimits

Handler: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]
Report: TypeAlias = Callable[[int, str], web.Response]

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_FIRST_ERROR: Final = 400

# What an agent sends wrongly goes on the run's record; it is no business of the harness's own log.
_SILENT: Final = logging.Logger("repotrial.gateway", level=logging.CRITICAL + 1)  # noqa: LOG001 - has no parent


class ConnectionServer(web.Server):
    """Hands each request to one function.

    Args:
        handler: Answers. It is not interrupted when the other side leaves; `notice_leaving` tells it.
        report: Takes what could not even be read as HTTP, with the status; its answer is sent.
        limits: Hold for each connection, and for their number.
    """

    def __init__(self, handler: Handler, *, report: Report, limits: GatewayLimits) -> None:
        super().__init__(handler)
        self._report = report
        self._limits = limits
        self._open = 0

    def accept(self, label: object = None) -> asyncio.Protocol:
        """The protocol of a new connection; `find_label` finds the label again."""
        if self._open >= self._limits.connections:
            return TurnedAway()
        self._open += 1
        return _Connection(self, self._report, self._limits, label)

    def release(self) -> None:
        """A connection that was accepted is gone."""
        self._open -= 1


class _Connection(web.RequestHandler):
    __slots__ = ("_is_counted", "_report", "_server", "label", "on_leaving")

    def __init__(
        self, server: ConnectionServer, report: Report, limits: GatewayLimits, label: object
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            logger=_SILENT,
            access_log=_SILENT,
            # Counts from the last answer to the next whole head, so that it bounds slow heads, too.
            keepalive_timeout=limits.idle_seconds,
            max_line_size=limits.line_bytes,
            max_field_size=limits.line_bytes,
            max_headers=limits.header_lines,
            lingering_time=limits.lingering_seconds,
            auto_decompress=False,
        )
        self._report = report
        self._server = server
        self._is_counted = True
        self.label = label
        self.on_leaving: Callable[[], None] | None = None

    def connection_lost(self, exc: BaseException | None) -> None:
        super().connection_lost(exc)
        if self._is_counted:  # TLS that fails is lost twice: by asyncio, and by its caller
            self._is_counted = False
            self._server.release()
        if self.on_leaving is not None:
            self.on_leaving()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        if request.writer.output_size > 0:
            raise ConnectionError("the head of an answer is out already")
        response = self._report(max(status, _FIRST_ERROR), message or f"{type(exc).__name__}: {exc}")
        response.force_close()
        return response


class TurnedAway(asyncio.Protocol):
    """One connection too many."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()


def find_label(request: web.BaseRequest) -> object:
    """What the request's connection was accepted as."""
    assert isinstance(request.protocol, _Connection)
    return request.protocol.label


@contextlib.contextmanager
def notice_leaving(request: web.BaseRequest, notice: Callable[[], None]) -> Iterator[None]:
    """Be told when the other side leaves while its request is answered."""
    connection = request.protocol
    assert isinstance(connection, _Connection)
    connection.on_leaving = notice
    if request.transport is None:
        notice()
    try:
        yield
    finally:
        connection.on_leaving = None


class _Share:
    """What one body may take; a length that was not announced is known only when all of it is there."""

    def __init__(self, size: int, give: Callable[[int], None]) -> None:
        self._size = size
        self._give = give

    def shrink(self, size: int) -> None:
        """Less is enough."""
        if size < self._size:
            self._give(self._size - size)
            self._size = size


class BodyRoom:
    """Memory for the bodies of one run: many long ones at once must not fill the harness's."""

    def __init__(self, limits: GatewayLimits) -> None:
        self._limits = limits
        self._held_bytes = 0
        self._freed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def hold(self, request: web.BaseRequest) -> AsyncIterator[_Share]:
        """Wait until there is room for a body, and keep it for as long as it is under way."""
        most = min(self._limits.request_bytes, self._limits.held_bytes)
        size = min(most if request.content_length is None else request.content_length, most)
        while self._held_bytes + size > self._limits.held_bytes:
            await self._freed.wait()
        self._held_bytes += size
        share = _Share(size, self._give)
        try:
            yield share
        finally:
            share.shrink(0)

    def _give(self, size: int) -> None:
        self._held_bytes -= size
        self._freed.set()
        self._freed = asyncio.Event()


async def read_body(request: web.BaseRequest, *, max_bytes: int) -> bytes | None:
    """All of a request's body; None if it is longer, or says that it will be."""
    if request.content_length is not None and request.content_length > max_bytes:
        return None
    if request.headers.get("expect", "").lower() == "100-continue":
        await request.writer.write(_CONTINUE)
        request.writer.output_size = 0
    parts: list[bytes] = []
    size = 0
    while chunk := await request.content.readany():
        size += len(chunk)
        if size > max_bytes:
            return None
        parts.append(chunk)
    return b"".join(parts)
