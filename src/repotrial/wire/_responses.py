"""OpenAI Responses: requests are read, answers are read and built."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from itertools import count
from typing import Any, Final

import msgspec

from repotrial.trace import RawMessage
from repotrial.wire._common import (
    FREE_TEXT_SCHEMA,
    MALFORMED_MODEL_REQUEST,
    SHELL_SCHEMA,
    ParsedBody,
    add_tool,
    find_free_text,
    iter_messages,
    join_parts,
    read_bound,
    read_list,
    wrap_text,
)
from repotrial.wire._draft import AnswerDraft
from repotrial.wire._json import Members, find_count, find_items, find_members, find_text, is_null
from repotrial.wire._model import ToolCall, ToolResult, WireRequest
from repotrial.wire._turn import CREATED, EVENTS, BuiltAnswer, Turn, encode_event, encode_json, halve
from repotrial.wire._usage import build_responses_usage

_CALL: Final = "_call"
_OUTPUT: Final = "_call_output"

_MAX_GROUP_DEPTH: Final = 8
_CLIENT_CALLS: Final = frozenset(
    {
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "tool_search_call",
    }
)
_PLAIN_ITEMS: Final = frozenset(
    {"message", "reasoning", "compaction", "compaction_summary", "context_compaction", "tool_search_output"}
)


def read_responses(body: Members) -> ParsedBody:
    """A request: what `instructions` and `input` say; groups of tools are flattened."""
    parsed = ParsedBody(tools={}, max_output_tokens=read_bound(body, ("max_output_tokens",)))
    _add_tools(parsed.tools, body.get("tools"), _MAX_GROUP_DEPTH)
    instructions = body.get("instructions")
    if instructions is not None and not is_null(instructions):
        parsed.messages.append(RawMessage("system", bytes(instructions)))
    given = body.get("input")
    if given is not None and find_text(given) is not None:
        parsed.messages.append(RawMessage("user", bytes(given)))
        return parsed
    for raw, item in iter_messages(read_list(given, "input"), "input"):
        kind = find_text(item.get("type")) or "message"
        parsed.messages.append(RawMessage(_find_role(kind, item), bytes(raw)))
        call = find_item_call(item)
        if call is not None:
            parsed.calls.append(call)
        elif kind.endswith(_OUTPUT):
            parsed.results.append(
                ToolResult(call_id=find_text(item.get("call_id")), content=join_parts(item.get("output")))
            )
    return parsed


def find_item_call(item: Members) -> ToolCall | None:
    """The call that an item is; None for anything else, and for calls that the provider runs itself."""
    kind = find_text(item.get("type")) or ""
    identifier = find_text(item.get("call_id"))
    if kind not in _CLIENT_CALLS or (
        identifier is None and kind not in {"function_call", "custom_tool_call"}
    ):
        return None
    if kind == "custom_tool_call":
        arguments = wrap_text(find_text(item.get("input")) or "")
    elif kind == "function_call":
        text = find_text(item.get("arguments"))
        arguments = text.encode() if text is not None else bytes(item.get("arguments") or b"{}")
    else:
        arguments = bytes(item.get("action") or item.get("operation") or b"{}")
    return ToolCall(
        id=identifier, name=find_text(item.get("name")) or kind.removesuffix(_CALL), arguments=arguments
    )


def _find_role(kind: str, item: Members) -> str:
    role = find_text(item.get("role"))
    if role is not None:
        return role
    return "tool" if kind.endswith("_output") else "assistant"


def _add_tools(tools: dict[str, bytes], given: msgspec.Raw | None, levels: int) -> None:
    if not levels:
        raise MALFORMED_MODEL_REQUEST.error(f"tools: expected at most {_MAX_GROUP_DEPTH} levels of groups")
    for _, tool in iter_messages(read_list(given, "tools"), "tools"):
        kind = find_text(tool.get("type"))
        name = find_text(tool.get("name"))
        schema = tool.get("parameters")
        if kind == "namespace":
            _add_tools(tools, tool.get("tools"), levels - 1)
        elif kind == "custom":
            add_tool(tools, name, FREE_TEXT_SCHEMA)
        elif kind in {"local_shell", "shell"} and name is None:
            add_tool(tools, kind, SHELL_SCHEMA)
        elif kind == "function" or schema is not None:
            add_tool(tools, name, None if schema is None or is_null(schema) else schema)


_ENDS: Final = frozenset(
    {"response.completed", "response.incomplete", "response.failed", "response.cancelled"}
)
_ARGUMENTS: Final = frozenset(
    {"response.function_call_arguments.delta", "response.custom_tool_call_input.delta"}
)
_REASONING: Final = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
_TEXTS: Final = frozenset({"response.output_text.delta", "response.refusal.delta"})


class ResponsesReader:
    """Typed events; what an item is at its end counts, deltas where the end did not come."""

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        kind = find_text(event.get("type")) or ""
        index = find_count(event.get("output_index")) or 0
        delta = find_text(event.get("delta"))
        if kind in _TEXTS and delta is not None:
            draft.add_text((index, find_count(event.get("content_index"))), delta)
        elif kind in _REASONING and delta is not None:
            draft.add_reasoning((index, find_count(event.get("summary_index"))), delta)
        elif kind in _ARGUMENTS and delta is not None:
            draft.open_call(index, identifier=None, name=None, is_free_text="custom" in kind)
            draft.add_arguments(index, delta)
        elif kind == "response.output_item.added":
            self._open_item(draft, index, find_members(event.get("item")) or {})
        elif kind == "response.output_item.done":
            self._take_item(draft, index, find_members(event.get("item")) or {})
        elif kind == "error":
            draft.has_error = True
        response = find_members(event.get("response"))
        if response is not None:
            self._take_response(draft, response, is_end=kind in _ENDS)

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        if find_items(body.get("output")) is None:
            draft.has_error |= find_members(body.get("error")) is not None
            return
        self._take_response(draft, body, is_end=find_text(body.get("status")) != "in_progress")

    def _take_response(self, draft: AnswerDraft, response: Members, *, is_end: bool) -> None:
        draft.model = find_text(response.get("model")) or draft.model
        draft.usage = find_members(response.get("usage")) or draft.usage
        draft.has_error |= find_members(response.get("error")) is not None
        # The end says again what was streamed, not always in the same places.
        told = {call.id for call in draft.build_calls()}
        has_said = draft.has_said
        for index, item in enumerate(find_items(response.get("output")) or ()):
            members = find_members(item) or {}
            call = find_item_call(members)
            if (not has_said) if call is None else (call.id not in told):
                self._take_item(draft, ("end", index), members)
        if is_end:
            draft.is_ended = True
            details = find_members(response.get("incomplete_details")) or {}
            draft.stop_reason = find_text(details.get("reason")) or find_text(response.get("status"))

    def _take_hosted(self, draft: AnswerDraft, item: Members) -> None:
        """What the provider did by itself, or an item that is not known here."""
        kind = find_text(item.get("type")) or "none"
        if kind in _PLAIN_ITEMS:
            for part in find_items(item.get("content")) or ():
                if find_items((find_members(part) or {}).get("annotations")):
                    draft.add_hosted(("hosted", "annotations"), _build_hosted("annotations", part))
        elif kind.endswith((_CALL, _OUTPUT)) or kind.startswith("mcp_"):
            identifier = find_text(item.get("id"))
            draft.add_hosted(
                ("hosted", kind, identifier),
                _build_hosted(kind.removesuffix(_CALL), msgspec.json.encode(item), identifier),
            )
        else:
            draft.add_unread(f"item {kind}")

    def _open_item(self, draft: AnswerDraft, index: int, item: Members) -> None:
        call = find_item_call(item)
        if call is None:
            self._take_hosted(draft, item)
        else:
            draft.open_call(
                index,
                identifier=call.id,
                name=call.name,
                is_free_text=find_text(item.get("type")) == "custom_tool_call",
            )

    def _take_item(self, draft: AnswerDraft, index: Hashable, item: Members) -> None:
        call = find_item_call(item)
        if call is not None:
            draft.set_call(index, call)
            return
        self._take_hosted(draft, item)
        kind = find_text(item.get("type"))
        if kind == "message":
            for number, part in enumerate(find_items(item.get("content")) or ()):
                members = find_members(part) or {}
                text = find_text(members.get("text")) or find_text(members.get("refusal"))
                if text is not None:
                    draft.set_text((index, number), text)
        elif kind == "reasoning":
            for name in ("summary", "content"):
                for number, part in enumerate(find_items(item.get(name)) or ()):
                    text = find_text((find_members(part) or {}).get("text"))
                    if text is not None:
                        draft.set_reasoning((index, number), text)


def _build_hosted(name: str, data: bytes | msgspec.Raw, identifier: str | None = None) -> ToolCall:
    return ToolCall(id=identifier, name=name, arguments=bytes(data))


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
            yield {
                "type": "custom_tool_call",
                "id": f"ctc_{name}",
                "name": call.name,
                "input": text,
                **shared,
            }
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
