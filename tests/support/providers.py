"""A provider on a loopback port: says what it is told to, and remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import threading
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple, TypeAlias

from aiohttp import web

from repotrial.gateway import GatewayLoop
from repotrial.gateway._concurrency import stop_listening

Answer: TypeAlias = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Asked(NamedTuple):
    """A request as it arrived."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes


class Provider:
    """Answers every request with `answer`; a service of a gateway's loop."""

    def __init__(self, answer: Answer, tls: ssl.SSLContext | None = None) -> None:
        self._tls = tls
        self.asked: list[Asked] = []
        self.port = 0
        self.connections = 0
        self._answer = answer
        self._server: web.Server | None = None
        self._listening: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        self._server = server = web.Server(self._take, access_log=None)

        def accept() -> asyncio.BaseProtocol:
            self.connections += 1
            return server()

        self._listening = await asyncio.get_running_loop().create_server(accept, sock=listener, ssl=self._tls)

    async def close(self) -> None:
        if self._listening is not None and self._server is not None:
            await stop_listening(self._listening)
            await self._server.shutdown(timeout=1)

    async def _take(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append(Asked(request.method, request.raw_path, headers, await request.read()))
        return await self._answer(request)


@contextlib.contextmanager
def open_provider(answer: Answer, *, tls: ssl.SSLContext | None = None) -> Iterator[Provider]:
    """A provider on a thread of its own."""
    provider = Provider(answer, tls)
    with GatewayLoop() as loop, socket.create_server(("127.0.0.1", 0)) as listener:
        provider.port = listener.getsockname()[1]
        with loop.attach(listener, provider):
            yield provider


class RawOrigin(NamedTuple):
    """Says the same bytes to whoever asks; without any, it hears and never answers."""

    port: int
    heard: list[bytes]


@contextlib.contextmanager
def open_raw_origin(
    answer: bytes = b"", *, then_close: bool = False, tls: ssl.SSLContext | None = None
) -> Iterator[RawOrigin]:
    """An origin that need not keep to HTTP; it holds its connections to the end, unless it is to close."""
    with contextlib.ExitStack() as held, socket.create_server(("127.0.0.1", 0)) as listener:
        origin = RawOrigin(listener.getsockname()[1], [])

        def serve() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                held.callback(connection.close)
                threading.Thread(target=talk, args=(connection,), daemon=True).start()

        def talk(connection: socket.socket) -> None:
            with contextlib.suppress(OSError):
                if tls is not None:
                    connection = tls.wrap_socket(connection, server_side=True)
                    held.callback(connection.close)
                origin.heard.append(_hear(connection))
                connection.sendall(answer)
                if then_close:
                    connection.close()

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield origin
        finally:
            listener.shutdown(socket.SHUT_RDWR)  # wakes whoever waits in accept
            thread.join()


def _hear(connection: socket.socket) -> bytes:
    """A head, and a body of the length that it states."""
    heard = b""
    while b"\r\n\r\n" not in heard:
        piece = connection.recv(65536)
        if not piece:
            return heard
        heard += piece
    head, _, body = heard.partition(b"\r\n\r\n")
    length = next(
        (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
    )
    while len(body) < length and (piece := connection.recv(65536)):
        body += piece
    return head + b"\r\n\r\n" + body
