"""The allow-list proxy: the network of contracts that declare one (P9)."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import AsyncGenerator
from http import HTTPStatus
from typing import Any, Final, Literal

from aiohttp import ClientError, web

from repotrial.gateway._concurrency import stop_listening
from repotrial.gateway._connections import BodyRoom, ConnectionServer, TurnedAway, find_label, read_body
from repotrial.gateway._headers import build_web_answer_headers, build_web_request_headers
from repotrial.gateway._model import GatewayLimits, UpstreamAnswer
from repotrial.gateway._proxy._attempts import NOWHERE, AttemptLog, AttemptSink, AttemptVerdict, OpenAttempt
from repotrial.gateway._proxy._authority import RunAuthority
from repotrial.gateway._proxy._fetch import Fetcher, NotKeptError, NotRecordedError, WebRequest, find_refusal
from repotrial.gateway._proxy._hosts import (
    AddressCheck,
    AllowList,
    Authority,
    RefusedAddressError,
    Resolver,
    SystemResolver,
    find_address_problem,
    parse_authority,
    resolve_checked,
)
from repotrial.gateway._proxy._tunnel import (
    PendingConnections,
    ProxyAcceptor,
    Tunnel,
    TunnelRequest,
    open_outside,
)

_ABSOLUTE: Final = re.compile(
    r"http://([^/?#@\s]+)(/[^#\s\ud800-\udfff]*|\?[^#\s\ud800-\udfff]*)?", re.IGNORECASE
)
_ORIGIN: Final = re.compile(r"/[^#\s\ud800-\udfff]*")
_HTTPS_PORT: Final = 443
_HTTP_PORT: Final = 80
_TUNNEL_BYTES: Final = 4 * 1024**3
_SHUTDOWN_SECONDS: Final = 1.0
_MOST_PROBLEMS: Final = 100


def build_proxy_limits() -> GatewayLimits:
    """Packages are larger than answers of models."""
    return GatewayLimits(answer_bytes=1024**3)


class _Refused(Exception):  # noqa: N818 - a way out, not a mistake
    def __init__(self, status: HTTPStatus, reason: str, verdict: AttemptVerdict = "refused") -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.verdict: AttemptVerdict = verdict


class AllowListProxy:
    """Listens inside the sandbox and reaches outside, for the hosts of a list; a service of a gateway's loop.

    With an authority, what is said over TLS is read, and can be recorded and replayed; without one, bytes
    pass through a tunnel, unread.

    Args:
        allowed: Hosts and ports; None if a replay decides by what it holds.
        fetcher: Makes requests, or looks them up. It is closed with the proxy.
        sink: Told about every attempt when it is over.
        authority: Of this run; the sandbox has to trust its certificate.
        resolver: Turns names into addresses, for tunnels.
        check: Which addresses may be reached, by tunnels.
        limits: Bounds.
    """

    def __init__(
        self,
        allowed: AllowList | None,
        *,
        fetcher: Fetcher,
        sink: AttemptSink,
        authority: RunAuthority | None = None,
        resolver: Resolver | None = None,
        check: AddressCheck = find_address_problem,
        limits: GatewayLimits | None = None,
    ) -> None:
        self._allowed = allowed
        self._fetcher = fetcher
        self._authority = authority
        self._resolver = resolver or SystemResolver()
        self._check = check
        self._limits = limits or build_proxy_limits()
        self._room = BodyRoom(self._limits)
        self.problems: list[str] = []
        """Attempts that could not be reported, answers that could not be kept, and mistakes of our own."""
        self._log = AttemptLog(sink, self._note)
        self._pending = PendingConnections()
        self._tunnels: set[Tunnel] = set()
        self._deciding: set[asyncio.Task[Any]] = set()
        self._answering: set[asyncio.Task[Any]] = set()
        self._server: ConnectionServer | None = None
        self._listening: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Accept from a socket that listens already."""
        self._server = server = ConnectionServer(
            self._answer, report=self._report_unreadable, limits=self._limits
        )

        def accept() -> asyncio.Protocol:
            # Attempts outlive the connections of those who leave, and hold others outside.
            if len(self._pending) + len(self._log) >= self._limits.connections:
                return TurnedAway()
            return ProxyAcceptor(
                server.accept,
                self._begin_connect,
                pending=self._pending,
                max_bytes=self._limits.line_bytes,
                seconds=self._limits.idle_seconds,
            )

        self._listening = await asyncio.get_running_loop().create_server(accept, sock=listener)

    async def close(self) -> None:
        """End everything that is open, report what was under way, and close the fetcher."""
        try:
            await self._end_connections()
        finally:
            self._log.close()
            await self._fetcher.close()

    async def _end_connections(self) -> None:
        if self._listening is not None:
            await stop_listening(self._listening)
        self._pending.close()
        for task in self._deciding:
            task.cancel()
        for tunnel in tuple(self._tunnels):
            tunnel.end()
        if self._server is not None:
            await self._server.shutdown(timeout=_SHUTDOWN_SECONDS)
        # The server knows nothing of requests whose connections are gone.
        for task in self._answering:
            task.cancel()
        if tasks := self._deciding | self._answering:
            await asyncio.wait(tasks, timeout=_SHUTDOWN_SECONDS)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer a request that can be read: plain, or within TLS that ends here."""
        _keep(asyncio.current_task(), self._answering)
        attempt = self._log.begin(OpenAttempt(way="http", method=request.method, path=request.raw_path))
        try:
            return await self._conduct(request, attempt)
        except _Refused as refused:
            ended = refused
            self._log.end(attempt, ended.verdict, ended.reason)
        except Exception as error:  # a mistake of ours must not leave the attempt open
            ended = self._fail(attempt, error)
            if request.writer.output_size > 0:
                raise ConnectionError("the head of an answer is out already") from error
        response = web.Response(status=ended.status, text=f"{ended.reason}\n")
        response.force_close()
        return response

    async def _conduct(self, request: web.BaseRequest, attempt: OpenAttempt) -> web.StreamResponse:
        authority, path, way = _read_target(request)
        attempt.authority, attempt.path, attempt.way = authority, path, way
        self._check_allowed(authority)
        async with self._room.hold(request) as room:
            body = await self._read(request)
            room.shrink(len(body))
            asked = WebRequest(
                scheme=way,
                authority=authority,
                method=request.method,
                path=path,
                headers=build_web_request_headers(request.headers.items()),
                body=body,
                on_sent=attempt.count_sent,
            )
            fetched = await self._fetch(asked)
            attempt.status, attempt.sent_bytes = fetched.status, len(body)
            return await self._deliver(request, attempt, fetched)

    def _check_allowed(self, authority: Authority) -> None:
        if self._allowed is not None and not self._allowed.allows(authority):
            raise _Refused(HTTPStatus.FORBIDDEN, f"{authority} is not on the allow-list")

    async def _read(self, request: web.BaseRequest) -> bytes:
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await read_body(request, max_bytes=self._limits.request_bytes)
        except TimeoutError as error:
            raise _Refused(HTTPStatus.REQUEST_TIMEOUT, "the body did not come in time") from error
        except web.RequestPayloadError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, f"the body cannot be read: {error}") from error
        except ConnectionError as error:
            raise _Refused(HTTPStatus.BAD_REQUEST, "the program left", "failed") from error
        if body is None:
            raise _Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too long")
        return body

    async def _fetch(self, asked: WebRequest) -> UpstreamAnswer:
        try:
            return await self._fetcher.fetch(asked)
        except NotRecordedError as error:
            raise _Refused(HTTPStatus.GATEWAY_TIMEOUT, f"not recorded: {error}") from error
        except Exception as error:
            refusal = find_refusal(error)
            if refusal is not None:
                raise _Refused(HTTPStatus.FORBIDDEN, str(refusal)) from error
            reason = f"{asked.authority}: {type(error).__name__}: {error}"
            raise _Refused(HTTPStatus.BAD_GATEWAY, reason[:500], "failed") from error

    async def _deliver(
        self, request: web.BaseRequest, attempt: OpenAttempt, fetched: UpstreamAnswer
    ) -> web.StreamResponse:
        headers = build_web_answer_headers(fetched.headers.items())
        response = web.StreamResponse(status=fetched.status, headers=headers)
        verdict: AttemptVerdict = "failed"
        reason = ""
        try:
            await response.prepare(request)
            async for chunk in fetched.chunks:
                attempt.received_bytes += len(chunk)
                if attempt.received_bytes > self._limits.answer_bytes:
                    raise _Refused(HTTPStatus.OK, "the answer is too long")  # noqa: TRY301
                await response.write(chunk)
            verdict = self._passed
        except _Refused as refused:
            verdict, reason = refused.verdict, refused.reason
        except NotKeptError as error:
            self._note(error)
            verdict = self._passed
        except (OSError, ClientError) as error:  # either side may break off at any time
            reason = f"broke off: {type(error).__name__}"
        finally:
            if isinstance(fetched.chunks, AsyncGenerator):
                await fetched.chunks.aclose()
        self._log.end(attempt, verdict, reason)
        if reason and request.transport is not None:
            request.transport.close()  # without an end of the body, so that it is not taken for all of it
        return response

    @property
    def _passed(self) -> AttemptVerdict:
        return "passed" if self._fetcher.is_live else "replayed"

    def _begin_connect(self, wanted: TunnelRequest) -> None:
        authority = parse_authority(wanted.target, default_port=0) or NOWHERE
        attempt = self._log.begin(OpenAttempt(authority=authority, way="tunnel", method="CONNECT"))
        _keep(asyncio.create_task(self._connect(wanted, attempt)), self._deciding)

    async def _connect(self, wanted: TunnelRequest, attempt: OpenAttempt) -> None:
        """Decide about a tunnel."""
        try:
            if not attempt.authority.port:
                raise _Refused(HTTPStatus.BAD_REQUEST, "expected host:port")  # noqa: TRY301
            self._check_allowed(attempt.authority)
            if self._authority is not None:
                await self._intercept(wanted, attempt, self._authority)
            else:
                await self._open_tunnel(wanted, attempt)
        except _Refused as refused:
            wanted.refuse(f"{refused.status.value} {refused.status.phrase}", refused.reason)
            self._log.end(attempt, refused.verdict, refused.reason)
        except asyncio.CancelledError:
            wanted.transport.abort()
            raise
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not hang the program
            wanted.transport.abort()
            self._fail(attempt, error)

    async def _intercept(self, wanted: TunnelRequest, attempt: OpenAttempt, vouching: RunAuthority) -> None:
        """End the TLS here, and read the requests within."""
        assert self._server is not None
        context = vouching.find_context(attempt.authority.host)
        if context is None or wanted.rest:
            raise _Refused(HTTPStatus.FORBIDDEN, "too many hosts, or bytes ahead of the answer")
        attempt.way = "https"
        reader = self._server.accept(attempt.authority)
        wanted.accept()
        loop = asyncio.get_running_loop()
        transport: asyncio.Transport | None = None
        reason = "no TLS with the run's authority"
        try:
            transport = await loop.start_tls(
                wanted.transport,
                reader,
                context,
                server_side=True,
                ssl_handshake_timeout=self._limits.idle_seconds,
            )
        except OSError as error:  # TLS errors are such, too: the program does not trust the run's authority
            reason = f"{reason}: {error}"
        finally:
            if transport is None:
                wanted.transport.close()
                reader.connection_lost(None)
        if transport is None:
            self._log.end(attempt, "failed", reason)
        else:
            reader.connection_made(transport)
            self._log.drop(attempt)

    async def _open_tunnel(self, wanted: TunnelRequest, attempt: OpenAttempt) -> None:
        authority = attempt.authority
        if not self._fetcher.is_live:
            raise _Refused(HTTPStatus.FORBIDDEN, "a replay has no tunnels; it needs the run's authority")
        try:
            addresses = await resolve_checked(authority, resolver=self._resolver, check=self._check)
        except RefusedAddressError as error:
            raise _Refused(HTTPStatus.FORBIDDEN, str(error)) from error
        tunnel = Tunnel(
            lambda sent, received: self._end_tunnel(tunnel, attempt, sent, received),
            max_bytes=_TUNNEL_BYTES,
        )
        try:
            await open_outside(addresses, authority.port, tunnel.outside)
        except OSError as error:
            raise _Refused(HTTPStatus.BAD_GATEWAY, f"{authority}: {error}"[:300], "failed") from error
        self._tunnels.add(tunnel)
        wanted.hand_over(tunnel.inside)
        wanted.accept()
        if wanted.rest:
            tunnel.inside.data_received(wanted.rest)
        if wanted.transport.is_closing():
            tunnel.end()
        else:
            wanted.transport.resume_reading()

    def _end_tunnel(self, tunnel: Tunnel, attempt: OpenAttempt, sent: int, received: int) -> None:
        self._tunnels.discard(tunnel)
        attempt.sent_bytes, attempt.received_bytes = sent, received
        self._log.end(attempt, "passed")

    def _fail(self, attempt: OpenAttempt, error: Exception) -> _Refused:
        self._note(error)
        failed = _Refused(HTTPStatus.BAD_GATEWAY, f"the harness failed: {type(error).__name__}", "failed")
        self._log.end(attempt, failed.verdict, failed.reason)
        return failed

    def _note(self, error: Exception) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"{type(error).__name__}: {error}"[:500])

    def _report_unreadable(self, status: int, message: str) -> web.Response:
        self._log.end(self._log.begin(OpenAttempt(way="http")), "refused", f"no HTTP: {message}")
        return web.Response(status=status, text="expected HTTP\n")


def _keep(task: asyncio.Task[Any] | None, tasks: set[asyncio.Task[Any]]) -> None:
    """Among those that end with the proxy, for as long as it runs."""
    assert task is not None
    tasks.add(task)
    task.add_done_callback(tasks.discard)


def _read_target(request: web.BaseRequest) -> tuple[Authority, str, Literal["http", "https"]]:
    """Where a request wants to go: in full for plain ones, by their connection for those within TLS."""
    label, target = find_label(request), request.raw_path
    if isinstance(label, Authority):
        if not _ORIGIN.fullmatch(target):
            raise _Refused(HTTPStatus.BAD_REQUEST, "expected a path")
        if parse_authority(request.headers.get("host", ""), default_port=_HTTPS_PORT) != label:
            raise _Refused(HTTPStatus.MISDIRECTED_REQUEST, "expected the host that the connection is for")
        return label, target, "https"
    match = _ABSOLUTE.fullmatch(target)
    authority = None if match is None else parse_authority(match[1], default_port=_HTTP_PORT)
    if match is None or authority is None:
        raise _Refused(HTTPStatus.BAD_REQUEST, "expected a full address of plain HTTP; TLS needs CONNECT")
    path = match[2] or "/"
    return authority, path if path.startswith("/") else f"/{path}", "http"
