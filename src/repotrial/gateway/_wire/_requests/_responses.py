"""Requests in the form of OpenAI Responses."""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial.gateway._model import ToolCall, ToolResult
from repotrial.gateway._wire._json import Members, find_text, is_null
from repotrial.gateway._wire._requests._common import (
    FREE_TEXT_SCHEMA,
    MALFORMED_MODEL_REQUEST,
    SHELL_SCHEMA,
    History,
    add_tool,
    iter_messages,
    join_parts,
    read_bound,
    read_list,
    wrap_text,
)
from repotrial.trace import RawMessage

_CALL: Final = "_call"
_OUTPUT: Final = "_call_output"

_MAX_GROUP_DEPTH: Final = 8


def read_responses_history(body: Members) -> History:
    """Everything that `instructions` and `input` say."""
    history = History.start()
    instructions = body.get("instructions")
    if instructions is not None and not is_null(instructions):
        history.messages.append(RawMessage("system", bytes(instructions)))
    given = body.get("input")
    if given is not None and find_text(given) is not None:
        history.messages.append(RawMessage("user", bytes(given)))
        return history
    for raw, item in iter_messages(read_list(given, "input"), "input"):
        kind = find_text(item.get("type")) or "message"
        history.messages.append(RawMessage(_find_role(kind, item), bytes(raw)))
        call = find_item_call(item)
        if call is not None:
            history.calls.append(call)
        elif kind.endswith(_OUTPUT):
            history.results.append(
                ToolResult(call_id=find_text(item.get("call_id")), content=join_parts(item.get("output")))
            )
    return history


def read_responses_tools(body: Members) -> dict[str, bytes]:
    """Tools that the agent itself would run; groups are flattened."""
    tools: dict[str, bytes] = {}
    _add_tools(tools, body.get("tools"), _MAX_GROUP_DEPTH)
    return tools


def find_responses_bound(body: Members) -> int | None:
    return read_bound(body, ("max_output_tokens",))


def find_item_call(item: Members) -> ToolCall | None:
    """The call that an item is; null for anything else, and for calls that the provider runs itself."""
    kind = find_text(item.get("type")) or ""
    identifier = find_text(item.get("call_id"))
    if not kind.endswith(_CALL) or (identifier is None and kind not in {"function_call", "custom_tool_call"}):
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
