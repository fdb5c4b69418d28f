"""The HTTP side of one run's gateway: which requests are answered, and how long they may be."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import socket
from collections.abc import Coroutine
from http import HTTPStatus
from typing import Any, Final
from urllib.parse import unquote

import msgspec
from aiohttp import web

from repotrial._core.errors import AgentError
from repotrial.gateway._concurrency import run_in_thread_if_large, stop_listening
from repotrial.gateway._connections import BodyRoom, ConnectionServer, notice_leaving, read_body
from repotrial.gateway._flow import Flow, FlowPorts, build_response
from repotrial.gateway._headers import build_upstream_headers, find_key, strip_key
from repotrial.gateway._model import ExchangeSupervisor, GatewayLimits, Upstream, UpstreamRequest
from repotrial.wire import (
    Dialect,
    Refusal,
    RefusalKind,
    Route,
    build_model_list,
    build_refusal,
    find_route,
    parse_stripped,
)

_PLAIN_DIALECT: Final[Dialect] = "openai-chat"
"""The form in which a request is refused if its path names no dialect."""
_MAX_PROBLEMS: Final = 100
_SHUTDOWN_SECONDS: Final = 1.0


class _Refused(Exception):  # noqa: N818 - a way out, not a mistake
    def __init__(self, status: HTTPStatus, kind: RefusalKind, message: str) -> None:
        super().__init__(message)
        self.refusal = Refusal(status=int(status), kind=kind, message=message)


class RunServer:
    """Answers one run's agent on one socket. Lives on the gateway's loop."""

    def __init__(
        self,
        *,
        key: str,
        supervisor: ExchangeSupervisor,
        upstream: Upstream,
        limits: GatewayLimits,
        models: tuple[str, ...] = (),
        stripped: frozenset[str] = frozenset(),
    ) -> None:
        if not key:
            raise ValueError("expected a key, found none: every client of the socket would be let in")
        self.problems: list[str] = []
        self._key = key.encode()
        self._models = models
        self._stripped = stripped
        self._ports = FlowPorts(supervisor=supervisor, upstream=upstream, limits=limits, note=self._note)
        self._limits = limits
        self._flows: set[Flow] = set()
        self._is_idle = asyncio.Event()
        self._room = BodyRoom(limits)
        self._chores: set[asyncio.Task[None]] = set()
        self._connections: ConnectionServer | None = None
        self._listening: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        """Accept from a socket that listens already."""
        self._connections = ConnectionServer(
            self._answer, report=self._report_unreadable, limits=self._limits
        )
        loop = asyncio.get_running_loop()
        self._listening = await loop.create_server(self._connections.accept, sock=listener)

    async def cut(self, detail: str) -> None:
        """End what is under way."""
        for flow in self._flows:
            flow.leave("cut", detail)
        if self._flows:
            self._is_idle.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._is_idle.wait(), self._limits.closing_seconds)

    async def close(self) -> None:
        """Accept nothing more, end what is under way, wait until all of it is recorded."""
        if self._listening is not None:
            await stop_listening(self._listening)
        await self.cut("the run has ended")
        if self._chores:
            await asyncio.wait(self._chores, timeout=self._limits.closing_seconds)
        if self._connections is not None:
            # What is still busy by now is cancelled.
            await self._connections.shutdown(timeout=_SHUTDOWN_SECONDS)

    async def _answer(self, request: web.BaseRequest) -> web.StreamResponse:
        target = strip_key(request.raw_path)
        route = find_route(request.method, target)
        dialect = _PLAIN_DIALECT if route is None or route.dialect is None else route.dialect
        body = b""
        try:
            if route is not None and route.kind == "health":
                return web.Response(status=HTTPStatus.OK)
            self._check_key(request)
            known = _check_route(request, target, route)
            if known.kind == "models":
                return self._list_models(target, dialect)
            async with self._room.hold(request) as room:
                body = await self._read(request)
                room.shrink(len(body))
                return await self._exchange(request, target, body, known)
        except _Refused as refused:
            refusal = refused.refusal
        await self._record(refusal, method=request.method, target=target, body=body)
        response = build_response(build_refusal(dialect, refusal))
        response.force_close()  # an unread body may follow
        return response

    def _check_key(self, request: web.BaseRequest) -> None:
        key = find_key(request.headers, request.raw_path)
        if key is None or not hmac.compare_digest(key.encode(errors="replace"), self._key):
            found = "none" if key is None else "another"
            raise _Refused(HTTPStatus.UNAUTHORIZED, "key", f"expected this run's key, found {found}")

    def _list_models(self, target: str, dialect: Dialect) -> web.Response:
        """What the run was declared to use; agents ask before they begin."""
        named = unquote(target.partition("?")[0]).rpartition("/models")[2].removeprefix("/")
        if named and named not in self._models:
            raise _Refused(
                HTTPStatus.NOT_FOUND, "unknown-model", f"expected another model, found {named[:200]}"
            )
        answer = build_model_list(dialect, (named,) if named else self._models)
        if not named:
            return build_response(answer)
        (entries,) = (value for value in msgspec.json.decode(answer.body).values() if isinstance(value, list))
        return web.json_response(entries[0])

    async def _read(self, request: web.BaseRequest) -> bytes:
        if request.headers.get("content-encoding", "identity").lower() != "identity":
            raise _Refused(
                HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "malformed", "expected an uncompressed body, found another"
            )
        try:
            async with asyncio.timeout(self._limits.body_seconds):
                body = await read_body(request, max_bytes=self._limits.request_bytes)
        except TimeoutError as error:
            raise _Refused(
                HTTPStatus.REQUEST_TIMEOUT, "malformed", "expected a whole body in time, found a part"
            ) from error
        except web.RequestPayloadError as error:
            raise _Refused(
                HTTPStatus.BAD_REQUEST, "malformed", f"expected a body that can be read, found: {error}"
            ) from error
        if body is None:
            raise _Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "malformed",
                f"expected a body of at most {self._limits.request_bytes} bytes, found more",
            )
        return body

    async def _exchange(
        self, request: web.BaseRequest, target: str, body: bytes, route: Route
    ) -> web.StreamResponse:
        try:
            parsed, body = await run_in_thread_if_large(
                len(body), parse_stripped, route, body, self._stripped
            )
        except AgentError as error:  # `malformed-model-request`
            raise _Refused(HTTPStatus.BAD_REQUEST, "malformed", str(error)) from error
        if len(parsed.messages) > self._limits.request_messages:
            raise _Refused(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "malformed",
                f"expected at most {self._limits.request_messages} messages, found {len(parsed.messages)}",
            )
        asked = UpstreamRequest(
            method=request.method,
            target=target,
            headers=build_upstream_headers(request.headers.items()),
            body=body,
            parsed=parsed,
        )
        flow = Flow(self._ports, request, asked)
        self._flows.add(flow)
        try:
            with notice_leaving(request, flow.notice_leaving):
                return await flow.conduct()
        finally:
            self._flows.discard(flow)
            if not self._flows:
                self._is_idle.set()

    async def _record(self, refusal: Refusal, *, method: str, target: str, body: bytes) -> None:
        try:
            await self._ports.supervisor.refuse(refusal, method=method, target=target, body=body)
        except Exception as error:  # noqa: BLE001 - noted; the agent still gets its answer
            self._note(f"supervisor.refuse: {type(error).__name__}: {error}")

    def _report_unreadable(self, status: int, message: str) -> web.Response:
        refusal = Refusal(status=status, kind="malformed", message=message)
        self._do_later(self._record(refusal, method="", target="", body=b""))
        return build_response(build_refusal(_PLAIN_DIALECT, refusal))

    def _do_later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    def _note(self, problem: str) -> None:
        if len(self.problems) < _MAX_PROBLEMS:
            self.problems.append(problem[:500])


def _check_route(request: web.BaseRequest, target: str, route: Route | None) -> Route:
    if route is None or request.headers.get("upgrade"):
        found = f"{request.method} {target[:200]}"
        raise _Refused(
            HTTPStatus.NOT_FOUND, "unknown-path", f"expected a path of a model's interface, found {found}"
        )
    return route
