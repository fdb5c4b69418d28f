"""One exchange on its way: admitted, asked, metered, held back where it must be, closed exactly once."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable
from typing import Final, Literal

import msgspec
from aiohttp import web

from repotrial.cost import TokenUsage
from repotrial.gateway._headers import build_answer_headers
from repotrial.gateway._model import (
    EndCause,
    Exchange,
    ExchangeEnd,
    ExchangeSupervisor,
    GatewayLimits,
    Upstream,
    UpstreamAnswer,
    UpstreamRequest,
)
from repotrial.wire import AnswerReader, HttpAnswer, Refusal, WireAnswer, build_break, build_refusal

_FIRST_ERROR: Final = 400
_NOT_SEEN: Final = 499
"""Status of an exchange whose agent left before it saw one."""


_FAILED: Final = Refusal(status=500, kind="upstream", message="the harness failed; see its own record")
_GARBLED: Final = Refusal(
    status=502, kind="upstream", message="the provider's stream is no JSON in one event"
)
_CLOSED: Final = Refusal(status=403, kind="ended", message="the gateway was closed")
_BYTES_PER_TOKEN: Final = 4


class FlowPorts(msgspec.Struct, frozen=True, kw_only=True):
    """Whom an exchange deals with."""

    supervisor: ExchangeSupervisor
    upstream: Upstream
    limits: GatewayLimits
    note: Callable[[str], None]
    """Takes what went wrong in the harness itself."""


class _Ended(Exception):  # noqa: N818 - a way out, not a mistake
    """The exchange goes no further."""

    def __init__(self, cause: EndCause, detail: str, refusal: Refusal | None = None) -> None:
        super().__init__(detail)
        self.cause: EndCause = cause
        self.detail = detail
        self.refusal = refusal


class Flow:
    """Is interrupted where it only waits, and never in the middle of bookkeeping."""

    def __init__(self, ports: FlowPorts, request: web.BaseRequest, asked: UpstreamRequest) -> None:
        self._ports = ports
        self._request = request
        self._asked = asked
        self._task: asyncio.Task[object] | None = None
        self._is_interruptible = False
        self._is_sent = False
        self._left: _Ended | None = None
        self._response: web.StreamResponse | None = None
        self._status = _NOT_SEEN
        self._headers: dict[str, str] = {}
        self._body = bytearray()
        self._sent_bytes = 0
        self._answer: WireAnswer | None = None
        self._started_ns = time.monotonic_ns()

    def leave(self, cause: Literal["cut", "agent-left"], detail: str) -> None:
        """The rest is not wanted: stop as soon as nothing is left half done."""
        if self._left is None:
            refusal = Refusal(status=403, kind="ended", message=detail) if cause == "cut" else None
            self._left = _Ended(cause, detail, refusal)
            if self._is_interruptible and self._task is not None:
                self._task.cancel()

    def notice_leaving(self) -> None:
        """The agent closed the connection."""
        self.leave("agent-left", "the agent closed the connection")

    async def conduct(self) -> web.StreamResponse:
        """Ask, forward, close; the response that the agent gets, or got as far as it went."""
        self._task = asyncio.current_task()
        opened = await self._open()
        if isinstance(opened, Refusal):
            return self._refuse(opened)
        rest = b""
        try:
            rest = await self._receive(opened)
            ended = _Ended("complete", "")
        except _Ended as reason:
            ended = reason
        except asyncio.CancelledError:
            ended = self._left or _Ended("cut", _CLOSED.message, _CLOSED)
            if self._left is not None and self._task is not None:
                self._task.uncancel()
        except Exception as error:  # noqa: BLE001 - whatever fails outside, the agent gets an answer
            message = f"no answer from upstream: {_describe(error)}"
            ended = _Ended("upstream-failed", message, Refusal(status=502, kind="upstream", message=message))
        self._is_interruptible = False
        self._settle_status(ended)
        # The record comes before the end of the answer, so the agent's next step cannot overtake it.
        await self._close(opened, ended)
        return await self._deliver(ended, rest)

    async def _open(self) -> Exchange | Refusal:
        try:
            return await self._ports.supervisor.open(self._asked.parsed, self._asked.body)
        except Exception as error:  # noqa: BLE001 - a mistake of ours must not hang the agent
            self._ports.note(f"supervisor.open: {_describe(error)}")
            await self._record(_FAILED)
            return _FAILED

    async def _record(self, refusal: Refusal) -> None:
        asked = self._asked
        try:
            await self._ports.supervisor.refuse(
                refusal, method=asked.method, target=asked.target, body=asked.body
            )
        except Exception as error:  # noqa: BLE001 - noted; the refusal still goes out
            self._ports.note(f"supervisor.refuse: {_describe(error)}")

    async def _close(self, exchange: Exchange, ended: _Ended) -> None:
        end = self._build_end(ended.cause, ended.detail)
        try:
            await exchange.close(end)
        except Exception as error:  # noqa: BLE001 - noted; the next exchange is none the worse for it
            self._ports.note(f"exchange.close: {_describe(error)}")

    def _build_end(self, cause: EndCause, detail: str) -> ExchangeEnd:
        return ExchangeEnd(
            status=self._status,
            answer=self._answer,
            body=bytes(self._body),
            wall_us=(time.monotonic_ns() - self._started_ns) // 1000,
            cause=cause,
            detail=detail,
            is_sent=self._is_sent,
        )

    async def _receive(self, exchange: Exchange) -> bytes:
        """Take the answer in, forward what may pass at once, and return the rest."""
        self._interrupt_from_here()
        self._started_ns = time.monotonic_ns()
        self._is_sent = True
        answer = await self._ports.upstream.send(self._asked)
        self._status = answer.status
        self._headers = build_answer_headers(answer.headers.items())
        try:
            if answer.status >= _FIRST_ERROR:
                async for chunk in answer.chunks:
                    self._take(chunk)
            else:
                await self._read(answer, exchange)
        finally:
            if isinstance(answer.chunks, AsyncGenerator):
                await answer.chunks.aclose()
        return bytes(self._body[self._sent_bytes :])

    async def _read(self, answer: UpstreamAnswer, exchange: Exchange) -> None:
        reader = AnswerReader(self._asked.parsed, content_type=answer.headers.get("content-type"))
        try:
            await self._pass_on(answer, reader, exchange)
        finally:
            self._answer = reader.finish()
        await self._release(exchange)

    async def _pass_on(self, answer: UpstreamAnswer, reader: AnswerReader, exchange: Exchange) -> None:
        """Forward a stream up to its first tool call or its end; what follows is held back."""
        async for chunk in answer.chunks:
            self._take(chunk)
            reader.feed(chunk)
            refusal = exchange.count(_build_live_usage(reader), len(self._body))
            if refusal is not None:
                raise _Ended("cut", refusal.message, refusal)
            if reader.is_garbled:  # the agent would wait for an end that may not come
                raise _Ended("upstream-failed", _GARBLED.message, _GARBLED)
            if not reader.is_complete and reader.safe_bytes > self._sent_bytes:
                await self._send(bytes(self._body[self._sent_bytes : reader.safe_bytes]))

    async def _release(self, exchange: Exchange) -> None:
        self._is_interruptible = False
        try:
            refusal = await exchange.release(self._build_end("complete", ""))
        except Exception as error:  # noqa: BLE001 - nothing that was not looked at goes on
            self._ports.note(f"exchange.release: {_describe(error)}")
            refusal = _FAILED
        if refusal is not None:
            raise _Ended("refused", refusal.message, refusal)
        self._interrupt_from_here()

    def _interrupt_from_here(self) -> None:
        if self._left is not None:
            raise self._left
        self._is_interruptible = True

    def _take(self, chunk: bytes) -> None:
        self._body += chunk
        if len(self._body) > self._ports.limits.answer_bytes:
            message = f"expected an answer of at most {self._ports.limits.answer_bytes} bytes, found more"
            raise _Ended("cut", message, Refusal(status=502, kind="upstream", message=message))

    async def _send(self, chunk: bytes) -> None:
        response = self._open_response()
        try:
            await response.prepare(self._request)
            await response.write(chunk)
            self._sent_bytes += len(chunk)
        except ConnectionError as error:
            raise _Ended("agent-left", "the agent closed the connection") from error

    def _open_response(self) -> web.StreamResponse:
        if self._response is None:
            self._response = web.StreamResponse(status=self._status, headers=self._headers)
        return self._response

    def _settle_status(self, ended: _Ended) -> None:
        """What the agent sees first, if it has not seen it yet."""
        if ended.cause != "complete" and self._response is None:
            self._status = _NOT_SEEN if ended.refusal is None else ended.refusal.status

    async def _deliver(self, ended: _Ended, rest: bytes) -> web.StreamResponse:
        """Say what is left to say to the agent."""
        if ended.cause == "complete":
            return await self._deliver_rest(rest)
        if self._response is None:
            return web.Response(status=_NOT_SEEN) if ended.refusal is None else self._refuse(ended.refusal)
        # The head is out. An error as the last event, and no end of the body: a client that reads either
        # knows that this was not the whole answer.
        if ended.refusal is not None and ended.refusal.kind != "upstream":
            with contextlib.suppress(_Ended):
                await self._send(build_break(self._asked.parsed.dialect, ended.refusal))
        if self._request.transport is not None:
            self._request.transport.close()
        return self._response

    async def _deliver_rest(self, rest: bytes) -> web.StreamResponse:
        is_error = self._status >= _FIRST_ERROR
        if self._response is None and (is_error or not self._asked.parsed.is_streamed):
            return web.Response(status=self._status, headers=self._headers, body=rest)
        response = self._open_response()
        with contextlib.suppress(_Ended):
            await self._send(rest)
        return response

    def _refuse(self, refusal: Refusal) -> web.StreamResponse:
        return build_response(build_refusal(self._asked.parsed.dialect, refusal))


def _build_live_usage(reader: AnswerReader) -> TokenUsage:
    """What is known while a stream goes on: most providers count at its end only, so bytes stand in."""
    said = reader.usage
    seen = -(-reader.seen_output_bytes // _BYTES_PER_TOKEN)
    if said.output is not None and said.output >= seen:
        return said
    return msgspec.structs.replace(said, output=seen, basis="estimated")


def build_response(answer: HttpAnswer) -> web.Response:
    return web.Response(
        status=answer.status, headers=build_answer_headers(answer.headers.items()), body=answer.body
    )


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:500]
