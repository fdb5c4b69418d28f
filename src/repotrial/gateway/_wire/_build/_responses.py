"""Answers in the form of OpenAI Responses."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec

from repotrial.gateway._model import WireRequest
from repotrial.gateway._wire._build._turn import CREATED, EVENTS, BuiltAnswer, Turn, encode_event, encode_json, halve
from repotrial.gateway._wire._build._usage import build_responses_usage
from repotrial.gateway._wire._json import find_members
from repotrial.gateway._wire._requests._common import FREE_TEXT_SCHEMA, SHELL_SCHEMA, find_free_text

def build_responses(request: WireRequest, turn: Turn) -> BuiltAnswer:
    """A response, whole or as its events."""
    items = list(_iter_items(request, turn))
    response: dict[str, Any] = {
        "id": f"resp_{turn.number:04d}",
        "object": "response",
        "created_at": CREATED,
        "status": "completed",
        "model": turn.model or request.model,
        "output": items,
        "parallel_tool_calls": False,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "usage": build_responses_usage(turn.usage),
    }
    if not request.is_streamed:
        return encode_json(response)
    return BuiltAnswer(headers=dict(EVENTS), chunks=tuple(_iter_events(response, items)))


def _iter_items(request: WireRequest, turn: Turn) -> Iterator[dict[str, Any]]:
    if turn.text or not turn.calls:
        yield {
            "type": "message",
            "id": f"msg_{turn.number:04d}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": turn.text, "annotations": []}],
        }
    for index, call in enumerate(turn.calls):
        shared = {"call_id": turn.call_id(index, "call_"), "status": "completed"}
        name = f"{turn.number:04d}{index:02d}"
        schema = request.tools.get(call.name)
        if schema == FREE_TEXT_SCHEMA:
            text = find_free_text(call)
            yield {"type": "custom_tool_call", "id": f"ctc_{name}", "name": call.name, "input": text, **shared}
        elif schema == SHELL_SCHEMA:
            action = {"type": "exec", **(find_members(msgspec.Raw(call.arguments)) or {})}
            yield {"type": f"{call.name}_call", "id": f"lsh_{name}", "action": action, **shared}
        else:
            arguments = call.arguments.decode(errors="replace")
            yield {
                "type": "function_call",
                "id": f"fc_{name}",
                "name": call.name,
                "arguments": arguments,
                **shared,
            }


def _iter_events(response: dict[str, Any], items: list[dict[str, Any]]) -> Iterator[bytes]:
    numbers = count()

    def build(kind: str, **members: object) -> bytes:
        return encode_event({"type": kind, "sequence_number": next(numbers), **members}, kind)

    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    yield build("response.created", response=begun)
    yield build("response.in_progress", response=begun)
    for index, item in enumerate(items):
        place = {"output_index": index, "item_id": item["id"]}
        yield build("response.output_item.added", output_index=index, item=_empty(item))
        match item["type"]:
            case "message":
                part = item["content"][0]
                spot = {**place, "content_index": 0}
                yield build("response.content_part.added", part={**part, "text": ""}, **spot)
                for piece in halve(part["text"]):
                    yield build("response.output_text.delta", delta=piece, **spot)
                yield build("response.output_text.done", text=part["text"], **spot)
                yield build("response.content_part.done", part=part, **spot)
            case "function_call":
                for piece in halve(item["arguments"]):
                    yield build("response.function_call_arguments.delta", delta=piece, **place)
                yield build("response.function_call_arguments.done", arguments=item["arguments"], **place)
            case "custom_tool_call":
                for piece in halve(item["input"]):
                    yield build("response.custom_tool_call_input.delta", delta=piece, **place)
                yield build("response.custom_tool_call_input.done", input=item["input"], **place)
            case _:
                pass
        yield build("response.output_item.done", output_index=index, item=item)
    yield build("response.completed", response=response)


def _empty(item: dict[str, Any]) -> dict[str, Any]:
    emptied: dict[str, dict[str, Any]] = {
        "message": {"content": []},
        "function_call": {"arguments": ""},
        "custom_tool_call": {"input": ""},
    }
    return {**item, "status": "in_progress", **emptied.get(item["type"], {})}
