"""Answers in the form of OpenAI Chat Completions."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.gateway._model import ToolCall, WireRequest
from repotrial.gateway._wire._build._turn import CREATED, EVENTS, BuiltAnswer, Turn, encode_event, encode_json, halve
from repotrial.gateway._wire._build._usage import build_chat_usage
from repotrial.gateway._wire._json import find_flag, find_members, read_members
from repotrial.gateway._wire._requests._common import FREE_TEXT_SCHEMA, find_free_text

def build_chat(request: WireRequest, turn: Turn) -> BuiltAnswer:
    """A completion, whole or in chunks."""
    base: dict[str, object] = {
        "id": f"chatcmpl-{turn.number:04d}",
        "object": "chat.completion.chunk" if request.is_streamed else "chat.completion",
        "created": CREATED,
        "model": turn.model or request.model,
    }
    if request.is_streamed:
        return BuiltAnswer(headers=dict(EVENTS), chunks=tuple(_iter_chunks(request, turn, base)))
    message: dict[str, object] = {"role": "assistant", "content": turn.text or None}
    if turn.calls:
        message["tool_calls"] = [_describe(request, turn, index) for index in range(len(turn.calls))]
    choice = {"index": 0, "message": message, "finish_reason": _reason(turn)}
    return encode_json({**base, "choices": [choice], "usage": build_chat_usage(turn.usage)})


def _iter_chunks(request: WireRequest, turn: Turn, base: dict[str, object]) -> Iterator[bytes]:
    def build(delta: dict[str, object], reason: str | None = None) -> bytes:
        return encode_event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    yield build({"role": "assistant", "content": ""})
    for piece in halve(turn.text):
        yield build({"content": piece})
    for index, call in enumerate(turn.calls):
        described = _describe(request, turn, index)
        form, field = ("custom", "input") if "custom" in described else ("function", "arguments")
        first, *rest = halve(_argument_text(request, call)) or ("",)
        opened = {**described, "index": index, form: {"name": call.name, field: first}}
        yield build({"tool_calls": [opened]})
        for piece in rest:
            yield build({"tool_calls": [{"index": index, form: {field: piece}}]})
    yield build({}, _reason(turn))
    if _wants_usage(request):
        yield encode_event({**base, "choices": [], "usage": build_chat_usage(turn.usage)})
    yield b"data: [DONE]\n\n"


def _reason(turn: Turn) -> str:
    return "tool_calls" if turn.calls else "stop"


def _wants_usage(request: WireRequest) -> bool:
    # Clients that did not ask stumble over a chunk without choices.
    options = find_members(read_members(request.envelope).get("stream_options")) or {}
    return bool(find_flag(options.get("include_usage")))


def _argument_text(request: WireRequest, call: ToolCall) -> str:
    if request.tools.get(call.name) == FREE_TEXT_SCHEMA:
        return find_free_text(call)
    return call.arguments.decode(errors="replace")


def _describe(request: WireRequest, turn: Turn, index: int) -> dict[str, object]:
    call = turn.calls[index]
    text = _argument_text(request, call)
    identifier = turn.call_id(index, "call_")
    if request.tools.get(call.name) == FREE_TEXT_SCHEMA:
        return {"id": identifier, "type": "custom", "custom": {"name": call.name, "input": text}}
    return {"id": identifier, "type": "function", "function": {"name": call.name, "arguments": text}}
