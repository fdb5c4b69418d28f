"""The harness's own small request to an upstream: what comes of it, no agent can bring about (P5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Final

import msgspec

from repotrial.gateway._model import Upstream, UpstreamRequest
from repotrial.wire import AnswerReader, Dialect, find_route, parse_request

_QUESTION: Final = "Answer with the one word: ok"
_SECONDS: Final = 30.0
_MOST_BYTES: Final = 1024 * 1024
_NO_ANSWER: Final = 502
_FIRST_ERROR: Final = 400
_MOST_DETAIL: Final = 500


class ControlResult(msgspec.Struct, frozen=True, kw_only=True):
    """What became of such a request."""

    status: int
    """Of the answer; 502 where there was none, or none that can be read."""
    detail: str = ""
    """What the upstream said in its place."""

    @property
    def is_answered(self) -> bool:
        return self.status < _FIRST_ERROR

    @property
    def is_rejected(self) -> bool:
        """The request itself was refused: a key, a name or a parameter is wrong."""
        return _FIRST_ERROR <= self.status < _NO_ANSWER - 2 and self.status not in {408, 429}


async def ask_control(upstream: Upstream, dialect: Dialect, model: str) -> ControlResult:
    """Ask for one word; never raises but for being cancelled."""
    request = _build_request(dialect, model)
    try:
        async with asyncio.timeout(_SECONDS):
            return await _ask(upstream, request)
    except Exception as error:  # noqa: BLE001 - whatever it was, there was no answer
        return ControlResult(status=_NO_ANSWER, detail=f"{type(error).__name__}: {error}"[:_MOST_DETAIL])


async def _ask(upstream: Upstream, request: UpstreamRequest) -> ControlResult:
    answer = await upstream.send(request)
    body = bytearray()
    try:
        async for chunk in answer.chunks:
            body += chunk
            if len(body) > _MOST_BYTES:
                break
    finally:
        if isinstance(answer.chunks, AsyncGenerator):
            await answer.chunks.aclose()
    if answer.status >= _FIRST_ERROR:
        return ControlResult(status=answer.status, detail=body.decode(errors="replace")[:_MOST_DETAIL])
    reader = AnswerReader(request.parsed, content_type=answer.headers.get("content-type"))
    reader.feed(bytes(body))
    if not reader.finish().is_complete:
        return ControlResult(status=_NO_ANSWER, detail="the answer has no end, or none that can be read")
    return ControlResult(status=answer.status)


def _build_request(dialect: Dialect, model: str) -> UpstreamRequest:
    said = {"role": "user", "content": _QUESTION}
    forms: dict[Dialect, tuple[str, dict[str, Any]]] = {
        "openai-chat": ("/v1/chat/completions", {"model": model, "messages": [said]}),
        "openai-responses": ("/v1/responses", {"model": model, "input": [said], "store": False}),
        "anthropic-messages": ("/v1/messages", {"model": model, "messages": [said], "max_tokens": 16}),
        "gemini": (
            f"/v1beta/models/{model}:generateContent",
            {"contents": [{"role": "user", "parts": [{"text": _QUESTION}]}]},
        ),
    }
    target, body = forms[dialect]
    data = msgspec.json.encode(body)
    route = find_route("POST", target)
    assert route is not None
    headers = {"content-type": "application/json"}
    if dialect == "anthropic-messages":
        headers["anthropic-version"] = "2023-06-01"
    return UpstreamRequest(
        method="POST", target=target, headers=headers, body=data, parsed=parse_request(route, data)
    )
