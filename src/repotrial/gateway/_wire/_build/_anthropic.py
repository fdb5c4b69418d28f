"""Answers in the form of Anthropic Messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from repotrial.gateway._model import WireRequest
from repotrial.gateway._wire._build._turn import EVENTS, BuiltAnswer, Turn, encode_event, encode_json, halve
from repotrial.gateway._wire._build._usage import build_anthropic_usage

def build_anthropic(request: WireRequest, turn: Turn) -> BuiltAnswer:
    """A message, whole or as its events."""
    blocks: list[dict[str, Any]] = []
    if turn.text or not turn.calls:
        blocks.append({"type": "text", "text": turn.text})
    blocks += [
        {
            "type": "tool_use",
            "id": turn.call_id(index, "toolu_"),
            "name": call.name,
            "input": msgspec.Raw(call.arguments),
        }
        for index, call in enumerate(turn.calls)
    ]
    message: dict[str, Any] = {
        "id": f"msg_{turn.number:04d}",
        "type": "message",
        "role": "assistant",
        "model": turn.model or request.model,
        "content": blocks,
        "stop_reason": "tool_use" if turn.calls else "end_turn",
        "stop_sequence": None,
        "usage": build_anthropic_usage(turn.usage),
    }
    if not request.is_streamed:
        return encode_json(message)
    return BuiltAnswer(headers=dict(EVENTS), chunks=tuple(_iter_events(message, blocks)))


def _iter_events(message: dict[str, Any], blocks: list[dict[str, Any]]) -> Iterator[bytes]:
    def build(kind: str, **members: object) -> bytes:
        return encode_event({"type": kind, **members}, kind)

    # What comes out is not known yet; providers say 1 here.
    usage = {**message["usage"], "output_tokens": 1}
    begun = {**message, "content": [], "stop_reason": None, "usage": usage}
    yield build("message_start", message=begun)
    for index, block in enumerate(blocks):
        is_text = block["type"] == "text"
        opened = {**block, "text": ""} if is_text else {**block, "input": {}}
        yield build("content_block_start", index=index, content_block=opened)
        for piece in halve(block["text"] if is_text else bytes(block["input"]).decode(errors="replace")):
            delta = (
                {"type": "text_delta", "text": piece}
                if is_text
                else {"type": "input_json_delta", "partial_json": piece}
            )
            yield build("content_block_delta", index=index, delta=delta)
        yield build("content_block_stop", index=index)
    yield build(
        "message_delta",
        delta={"stop_reason": message["stop_reason"], "stop_sequence": None},
        usage={"output_tokens": message["usage"]["output_tokens"]},
    )
    yield build("message_stop")
