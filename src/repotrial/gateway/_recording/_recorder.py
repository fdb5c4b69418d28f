"""An upstream that keeps what another one answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial.gateway._concurrency import run_in_thread_if_large
from repotrial.gateway._headers import build_answer_headers
from repotrial.gateway._model import Upstream, UpstreamAnswer, UpstreamRequest
from repotrial.gateway._recording._files import (
    INDEX_NAME,
    NO_ANSWER,
    LinesWriter,
    RecordedExchange,
    RecordedRequest,
    RecordingHead,
)
from repotrial.gateway._recording._identity import build_lane, redact_body
from repotrial.redaction import NO_REDACTION, Redactor

# What depends on the connection or on the moment says nothing to a replayed client.
_KEPT_HEADERS: Final = frozenset({"content-type", "retry-after", "x-should-retry", "anthropic-version"})

_MOST_KEPT: Final = 64 * 1024 * 1024
"""Bytes of earlier requests that later ones are held against: an agent can open any number of lanes."""


class _Asked(msgspec.Struct, frozen=True, kw_only=True):
    index: int
    request: UpstreamRequest
    stored: RecordedRequest


class Recorder:
    """Passes everything through, and writes it down as it goes.

    Args:
        upstream: Whose answers are kept. `close` closes it, too; `finish` does not, so that it can go on to
            serve other runs.
        directory: Where the recording is made: a run directory, or any other.
        redactor: Takes secrets out of what is kept: the run's key among them.
    """

    def __init__(self, upstream: Upstream, directory: Path, *, redactor: Redactor = NO_REDACTION) -> None:
        self._upstream = upstream
        self._redactor = redactor
        self._file = LinesWriter(directory / INDEX_NAME, RecordingHead(upstream=upstream.description))
        self._asked = 0
        self._last: dict[str, tuple[int, bytes]] = {}

    @property
    def description(self) -> str:
        return self._upstream.description

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        body = await run_in_thread_if_large(len(request.body), redact_body, request.body, self._redactor)
        asked = self._keep_request(request, body)
        try:
            answer = await self._upstream.send(request)
        except BaseException:
            self._keep_answer(asked, NO_ANSWER, {}, b"", is_whole=False)
            raise
        return UpstreamAnswer(
            status=answer.status, headers=answer.headers, chunks=self._iter_kept(asked, answer)
        )

    def finish(self) -> None:
        """Make what was kept a recording; nothing is kept any more."""
        self._file.close()

    async def close(self) -> None:
        try:
            await self._upstream.close()
        finally:
            await asyncio.to_thread(self.finish)  # waits for the disk

    def _keep_request(self, request: UpstreamRequest, body: bytes) -> _Asked:
        index = self._asked
        self._asked += 1
        lane = build_lane(request.parsed)
        base, earlier = self._last.pop(lane, (None, b""))
        self._last[lane] = (index, body)
        while len(self._last) > 1 and sum(len(kept) for _, kept in self._last.values()) > _MOST_KEPT:
            del self._last[next(iter(self._last))]  # its next request is stored whole
        prefix = _count_shared(earlier, body)
        limit = min(len(earlier), len(body)) - prefix
        suffix = _count_shared(earlier[len(earlier) - limit :][::-1], body[len(body) - limit :][::-1])
        return _Asked(
            index=index,
            request=request,
            stored=RecordedRequest(
                digest=digest_bytes(body),
                size_bytes=len(body),
                base=base,
                prefix_bytes=prefix,
                suffix_bytes=suffix,
                middle=self._file.blobs.put(body[prefix : len(body) - suffix]),
            ),
        )

    async def _iter_kept(self, asked: _Asked, answer: UpstreamAnswer) -> AsyncIterator[bytes]:
        body = bytearray()
        is_whole = False
        try:
            async for chunk in answer.chunks:
                body += chunk
                yield chunk
            is_whole = True
        finally:
            if isinstance(answer.chunks, AsyncGenerator):
                await answer.chunks.aclose()
            kept = await run_in_thread_if_large(len(body), redact_body, bytes(body), self._redactor)
            self._keep_answer(asked, answer.status, answer.headers, kept, is_whole=is_whole)

    def _keep_answer(
        self, asked: _Asked, status: int, headers: Mapping[str, str], body: bytes, *, is_whole: bool
    ) -> None:
        kept = build_answer_headers(headers.items())
        self._file.append(
            RecordedExchange(
                index=asked.index,
                dialect=asked.request.parsed.dialect,
                method=asked.request.method,
                target=asked.request.target,
                lane=build_lane(asked.request.parsed),
                request=asked.stored,
                status=status,
                headers={name: value for name, value in kept.items() if name in _KEPT_HEADERS},
                answer=self._file.blobs.put(body),
                is_whole=is_whole,
            )
        )


def _count_shared(one: bytes, other: bytes) -> int:
    """How long the common beginning is; halving compares long runs of bytes at once."""
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low
