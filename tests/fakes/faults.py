"""Faults on purpose, in front of any upstream: an error status, a late answer, a cut, garbage."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Final, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial.gateway._model import Upstream, UpstreamAnswer, UpstreamRequest
from repotrial.wire import Refusal
from repotrial.wire._refusals import build_refusal

_GARBAGE: Final = b'data: {"choices": [{"delta": \xff\xfe}\n\n'
_GARBAGE_BYTES: Final = 16


class StatusFault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="status"):
    """An error in the dialect's own form; the upstream behind is not asked."""

    status: int
    """429, 500, 503, 529 …"""
    retry_after_seconds: Count | None = None
    """With a `Retry-After` header."""


class SlowFault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="slow"):
    """The answer comes late."""

    head_ms: Count = 0
    """Before it begins."""
    chunk_ms: Count = 0
    """Before each piece of it."""


class CutFault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="cut"):
    """The connection breaks in the middle of the answer."""

    after_bytes: Count
    """How much of the body still comes."""


class MalformedFault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="malformed"):
    """The answer's beginning is replaced by what no client can read."""


Fault: TypeAlias = StatusFault | SlowFault | CutFault | MalformedFault


class FaultPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Which requests meet the fault; they are counted from zero, over all conversations."""

    fault: Fault
    """What goes wrong."""
    start: Count = 0
    """The first request that meets it."""
    requests: Count | None = None
    """How many meet it; null is all from there on."""

    def is_due(self, number: int) -> bool:
        """Whether the request of that number meets the fault."""
        if number < self.start:
            return False
        return self.requests is None or number < self.start + self.requests


class UpstreamCutError(ConnectionError):
    """A connection that was broken on purpose."""


class FaultUpstream:
    """An upstream that fails as planned; where several plans are due, the first counts."""

    def __init__(self, upstream: Upstream, *plans: FaultPlan) -> None:
        self._upstream = upstream
        self._plans = plans
        self._asked = 0

    @property
    def description(self) -> str:
        kinds = ", ".join(type(plan.fault).__name__ for plan in self._plans)
        return f"{self._upstream.description}, with faults on purpose: {kinds}"

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        number = self._asked
        self._asked += 1
        fault = next((plan.fault for plan in self._plans if plan.is_due(number)), None)
        match fault:
            case None:
                return await self._upstream.send(request)
            case StatusFault():
                return _build_error(request, fault)
            case SlowFault():
                await asyncio.sleep(fault.head_ms / 1000)
                return _with_chunks(await self._upstream.send(request), _iter_slowly, fault.chunk_ms)
            case CutFault():
                return _with_chunks(await self._upstream.send(request), _iter_cut, fault.after_bytes)
            case MalformedFault():
                return _with_chunks(await self._upstream.send(request), _iter_garbled, _GARBAGE_BYTES)

    async def close(self) -> None:
        await self._upstream.close()


def _build_error(request: UpstreamRequest, fault: StatusFault) -> UpstreamAnswer:
    refusal = Refusal(status=fault.status, kind="upstream", message="a fault on purpose")
    answer = build_refusal(request.parsed.dialect, refusal)
    headers = dict(answer.headers)
    if fault.retry_after_seconds is not None:
        headers["retry-after"] = str(fault.retry_after_seconds)
    return UpstreamAnswer(status=fault.status, headers=headers, chunks=_iter_once(answer.body))


def _with_chunks(
    answer: UpstreamAnswer, change: Callable[[AsyncIterator[bytes], int], AsyncIterator[bytes]], amount: int
) -> UpstreamAnswer:
    return UpstreamAnswer(status=answer.status, headers=answer.headers, chunks=change(answer.chunks, amount))


async def _iter_once(body: bytes) -> AsyncIterator[bytes]:
    yield body


async def _iter_slowly(chunks: AsyncIterator[bytes], pause_ms: int) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        await asyncio.sleep(pause_ms / 1000)
        yield chunk


async def _iter_cut(chunks: AsyncIterator[bytes], left: int) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        if left:
            yield chunk[:left]
        left -= min(left, len(chunk))
        if not left:
            break
    raise UpstreamCutError("the connection was broken on purpose")


async def _iter_garbled(chunks: AsyncIterator[bytes], skipped: int) -> AsyncIterator[bytes]:
    yield _GARBAGE
    async for chunk in chunks:
        yield chunk[skipped:]
        skipped -= min(skipped, len(chunk))
