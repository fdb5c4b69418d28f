"""Anthropic Messages: requests are read, answers are read and built."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from repotrial.trace import RawMessage
from repotrial.wire._common import (
    ParsedBody,
    add_tool,
    iter_messages,
    join_parts,
    read_bound,
    read_list,
)
from repotrial.wire._draft import AnswerDraft
from repotrial.wire._json import (
    Members,
    find_count,
    find_flag,
    find_items,
    find_members,
    find_text,
    is_null,
)
from repotrial.wire._model import ToolCall, ToolResult, WireRequest
from repotrial.wire._turn import EVENTS, BuiltAnswer, Turn, encode_event, encode_json, halve
from repotrial.wire._usage import build_anthropic_usage

_PLAIN_BLOCKS: Final = frozenset({"redacted_thinking", "compaction"})
_PLAIN_DELTAS: Final = frozenset({"signature_delta", "citations_delta", "compaction_delta"})


class AnthropicReader:
    """Blocks that open, grow and close between the start and the stop of a message."""

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        index = find_count(event.get("index")) or 0
        match find_text(event.get("type")):
            case "message_start":
                self._take_message(draft, find_members(event.get("message")) or {})
            case "content_block_start":
                self._open_block(draft, index, find_members(event.get("content_block")) or {})
            case "content_block_delta":
                self._take_delta(draft, index, find_members(event.get("delta")) or {})
            case "message_delta":
                self._take_end(draft, find_members(event.get("delta")) or {})
                self._merge_usage(draft, event)
            case "message_stop":
                draft.is_ended = True
            case "message":
                self.take_body(draft, event)
            case "error":
                draft.has_error = True
            case _:
                pass

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        draft.has_error |= find_text(body.get("type")) == "error"
        self._take_message(draft, body)

    def _take_message(self, draft: AnswerDraft, message: Members) -> None:
        draft.model = find_text(message.get("model")) or draft.model
        draft.role = find_text(message.get("role")) or draft.role
        for index, item in enumerate(find_items(message.get("content")) or ()):
            self._open_block(draft, index, find_members(item) or {})
        self._merge_usage(draft, message)
        self._take_end(draft, message)

    def _open_block(self, draft: AnswerDraft, index: int, block: Members) -> None:
        match find_text(block.get("type")):
            case "text":
                draft.add_text(index, find_text(block.get("text")) or "")
            case "thinking":
                draft.add_reasoning(index, find_text(block.get("thinking")) or "")
            case "tool_use":
                identifier, name = find_text(block.get("id")), find_text(block.get("name"))
                draft.open_call(index, identifier=identifier, name=name)
                given = block.get("input")
                # A stream opens with an empty object and brings the arguments in pieces.
                if given is not None and find_members(given):
                    whole = ToolCall(id=identifier, name=name or "", arguments=bytes(given))
                    draft.set_call(index, whole)
            case kind:
                self._open_other(draft, index, kind, block)

    def _open_other(self, draft: AnswerDraft, index: int, kind: str | None, block: Members) -> None:
        """What the provider did by itself, or a block that is not known here."""
        if kind in _PLAIN_BLOCKS:
            return
        if kind is None or not kind.endswith(("_tool_use", "_tool_result")):
            draft.add_unread(f"content block {kind}")
            return
        identifier = find_text(block.get("id")) or find_text(block.get("tool_use_id"))
        draft.open_call(
            index, identifier=identifier, name=find_text(block.get("name")) or kind, is_hosted=True
        )
        given = block.get("input") or block.get("content")
        if given is not None and (find_members(given) or find_items(given)):
            draft.set_call(index, ToolCall(id=identifier, name=kind, arguments=bytes(given)))

    def _take_delta(self, draft: AnswerDraft, index: int, delta: Members) -> None:
        match find_text(delta.get("type")):
            case "text_delta":
                draft.add_text(index, find_text(delta.get("text")) or "")
            case "thinking_delta":
                draft.add_reasoning(index, find_text(delta.get("thinking")) or "")
            case "input_json_delta" if draft.has_call(index):
                draft.reopen_call(index)
                draft.add_arguments(index, find_text(delta.get("partial_json")) or "")
            case kind if kind not in _PLAIN_DELTAS:
                draft.add_unread(f"delta {kind}")
            case _:
                pass

    def _take_end(self, draft: AnswerDraft, holder: Members) -> None:
        reason = find_text(holder.get("stop_reason"))
        if reason is not None:
            draft.stop_reason = reason
            draft.is_ended = True

    def _merge_usage(self, draft: AnswerDraft, holder: Members) -> None:
        # Cumulative: of each count the last one holds.
        told = find_members(holder.get("usage")) or {}
        draft.usage = {**draft.usage, **{name: raw for name, raw in told.items() if not is_null(raw)}}


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


def read_anthropic(body: Members) -> ParsedBody:
    """A request: what `system` and `messages` say."""
    parsed = ParsedBody(tools=_read_tools(body), max_output_tokens=read_bound(body, ("max_tokens",)))
    system = body.get("system")
    if system is not None and not is_null(system):
        parsed.messages.append(RawMessage("system", bytes(system)))
    for raw, message in iter_messages(read_list(body.get("messages"), "messages"), "messages"):
        parsed.messages.append(RawMessage(find_text(message.get("role")) or "unknown", bytes(raw)))
        for item in find_items(message.get("content")) or ():
            _read_block(parsed, find_members(item) or {})
    return parsed


def _read_tools(body: Members) -> dict[str, bytes]:
    """Tools that the agent runs; those that the provider runs have no schema and are left out."""
    tools: dict[str, bytes] = {}
    for _, tool in iter_messages(read_list(body.get("tools"), "tools"), "tools"):
        schema = tool.get("input_schema")
        kind = find_text(tool.get("type")) or "custom"
        # Tools of a known shape (`bash_20250124`) are run by the agent and have no schema either.
        if schema is not None or kind.startswith(("bash_", "text_editor_", "memory_")):
            add_tool(tools, find_text(tool.get("name")), schema)
    return tools


def _read_block(parsed: ParsedBody, block: Members) -> None:
    kind = find_text(block.get("type"))
    if kind == "tool_use":
        given: msgspec.Raw | None = block.get("input")
        parsed.calls.append(
            ToolCall(
                id=find_text(block.get("id")),
                name=find_text(block.get("name")) or "",
                arguments=b"{}" if given is None else bytes(given),
            )
        )
    elif kind == "tool_result":
        parsed.results.append(
            ToolResult(
                call_id=find_text(block.get("tool_use_id")),
                content=join_parts(block.get("content")),
                is_error=bool(find_flag(block.get("is_error"))),
            )
        )
