"""Requests in the form of Anthropic Messages."""

from __future__ import annotations

import msgspec

from repotrial.gateway._model import ToolCall, ToolResult
from repotrial.gateway._wire._json import Members, find_flag, find_items, find_members, find_text, is_null
from repotrial.gateway._wire._requests._common import (
    History,
    add_tool,
    iter_messages,
    join_parts,
    read_bound,
    read_list,
)
from repotrial.trace import RawMessage


def read_anthropic_history(body: Members) -> History:
    """Everything that `system` and `messages` say."""
    history = History.start()
    system = body.get("system")
    if system is not None and not is_null(system):
        history.messages.append(RawMessage("system", bytes(system)))
    for raw, message in iter_messages(read_list(body.get("messages"), "messages"), "messages"):
        history.messages.append(RawMessage(find_text(message.get("role")) or "unknown", bytes(raw)))
        for item in find_items(message.get("content")) or ():
            _read_block(history, find_members(item) or {})
    return history


def read_anthropic_tools(body: Members) -> dict[str, bytes]:
    """Tools that the agent runs; those that the provider runs have no schema and are left out."""
    tools: dict[str, bytes] = {}
    for _, tool in iter_messages(read_list(body.get("tools"), "tools"), "tools"):
        schema = tool.get("input_schema")
        kind = find_text(tool.get("type")) or "custom"
        # Tools of a known shape (`bash_20250124`) are run by the agent and have no schema either.
        if schema is not None or kind.startswith(("bash_", "text_editor_", "computer_")):
            add_tool(tools, find_text(tool.get("name")), schema)
    return tools


def find_anthropic_bound(body: Members) -> int | None:
    return read_bound(body, ("max_tokens",))


def _read_block(history: History, block: Members) -> None:
    kind = find_text(block.get("type"))
    if kind == "tool_use":
        given: msgspec.Raw | None = block.get("input")
        history.calls.append(
            ToolCall(
                id=find_text(block.get("id")),
                name=find_text(block.get("name")) or "",
                arguments=b"{}" if given is None else bytes(given),
            )
        )
    elif kind == "tool_result":
        history.results.append(
            ToolResult(
                call_id=find_text(block.get("tool_use_id")),
                content=join_parts(block.get("content")),
                is_error=bool(find_flag(block.get("is_error"))),
            )
        )
