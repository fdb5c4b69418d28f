"""A supervisor that admits and keeps everything, and an upstream that says what it was told to say."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from repotrial.cost import TokenUsage
from repotrial.gateway import ExchangeEnd
from repotrial.gateway._model import Exchange, UpstreamAnswer, UpstreamRequest
from repotrial.wire import Refusal, WireAnswer, WireRequest


class FakeExchange:
    """Notes what it is told; refuses where the supervisor was told to."""

    def __init__(self, supervisor: FakeSupervisor, request: WireRequest, body: bytes) -> None:
        self._supervisor = supervisor
        self.request = request
        self.body = body
        self.counts: list[tuple[TokenUsage, int]] = []
        self.released: list[WireAnswer] = []
        self.ends: list[ExchangeEnd] = []

    def count(self, usage: TokenUsage, sent_bytes: int) -> Refusal | None:
        self.counts.append((usage, sent_bytes))
        return self._supervisor.on_count(usage, sent_bytes)

    async def release(self, end: ExchangeEnd) -> Refusal | None:
        answer = end.answer
        assert answer is not None
        self.released.append(answer)
        if self._supervisor.hold is not None:
            await self._supervisor.hold.wait()
        return self._supervisor.on_release(answer)

    async def close(self, end: ExchangeEnd) -> None:
        self.ends.append(end)
        self._supervisor.on_close(end)

    @property
    def end(self) -> ExchangeEnd:
        assert len(self.ends) == 1, "closed exactly once"
        return self.ends[0]


class FakeSupervisor:
    """Admits every request unless `on_open` refuses."""

    def __init__(
        self,
        *,
        on_open: Callable[[WireRequest], Refusal | None] = lambda _: None,
        on_count: Callable[[TokenUsage, int], Refusal | None] = lambda _usage, _bytes: None,
        on_release: Callable[[WireAnswer], Refusal | None] = lambda _: None,
        on_close: Callable[[ExchangeEnd], None] = lambda _: None,
    ) -> None:
        self.on_open = on_open
        self.on_count = on_count
        self.on_release = on_release
        self.on_close = on_close
        self.hold: asyncio.Event | None = None
        self.exchanges: list[FakeExchange] = []
        self.refusals: list[tuple[Refusal, str, str, bytes]] = []

    async def open(self, request: WireRequest, body: bytes) -> Exchange | Refusal:
        refusal = self.on_open(request)
        if refusal is not None:
            return refusal
        exchange = FakeExchange(self, request, body)
        self.exchanges.append(exchange)
        return exchange

    async def refuse(self, refusal: Refusal, *, method: str, target: str, body: bytes) -> None:
        self.refusals.append((refusal, method, target, body))

    @property
    def exchange(self) -> FakeExchange:
        assert len(self.exchanges) == 1
        return self.exchanges[0]


class FakeUpstream:
    """Answers every request with the same pieces.

    Args:
        chunks: The body.
        status: Of every answer.
        headers: Of every answer.
        error: Raised behind the last piece, or in place of an answer where there are no pieces.
    """

    def __init__(
        self,
        chunks: Sequence[bytes] = (),
        *,
        status: int = 200,
        headers: dict[str, str] | None = None,
        error: Exception | None = None,
    ) -> None:
        self.chunks = chunks
        self.status = status
        self.headers = {"content-type": "text/event-stream"} if headers is None else headers
        self.error = error
        self.requests: list[UpstreamRequest] = []
        self.is_closed = False
        self.ended: list[int] = []
        self.pause: Callable[[int], Any] | None = None

    @property
    def description(self) -> str:
        return "fake"

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        self.requests.append(request)
        if self.error is not None and not self.chunks:
            raise self.error
        return UpstreamAnswer(
            status=self.status, headers=self.headers, chunks=self._iter_chunks(len(self.requests) - 1)
        )

    async def _iter_chunks(self, number: int) -> AsyncIterator[bytes]:
        try:
            for index, chunk in enumerate(self.chunks):
                if self.pause is not None:
                    await self.pause(index)
                yield chunk
            if self.error is not None:
                raise self.error
        finally:
            self.ended.append(number)

    async def close(self) -> None:
        self.is_closed = True
