"""Requests in the form of OpenAI Chat Completions."""

from __future__ import annotations

import msgspec

from repotrial.gateway._model import ToolCall, ToolResult
from repotrial.gateway._wire._json import Members, find_members, find_text, is_null
from repotrial.gateway._wire._requests._common import (
    FREE_TEXT_SCHEMA,
    History,
    add_tool,
    iter_messages,
    join_parts,
    read_bound,
    read_list,
    wrap_text,
)
from repotrial.trace import RawMessage


def read_chat_history(body: Members) -> History:
    """Everything that `messages` says."""
    history = History.start()
    for raw, message in iter_messages(read_list(body.get("messages"), "messages"), "messages"):
        role = find_text(message.get("role")) or "unknown"
        history.messages.append(RawMessage(role, bytes(raw)))
        for _, call in iter_messages(read_list(message.get("tool_calls"), "tool_calls"), "tool_calls"):
            history.calls.append(_read_call(call))
        old = message.get("function_call")
        if old is not None and not is_null(old):
            history.calls.append(_read_function(None, find_members(old) or {}))
        if role in {"tool", "function"}:
            history.results.append(
                ToolResult(
                    call_id=find_text(message.get("tool_call_id")),
                    name=find_text(message.get("name")),
                    content=join_parts(message.get("content")),
                )
            )
    return history


def read_chat_tools(body: Members) -> dict[str, bytes]:
    """Tools that the request offers."""
    tools: dict[str, bytes] = {}
    for _, tool in iter_messages(read_list(body.get("tools"), "tools"), "tools"):
        custom = find_members(tool.get("custom"))
        function = find_members(tool.get("function")) or tool
        if custom is not None:
            add_tool(tools, find_text(custom.get("name")), FREE_TEXT_SCHEMA)
        else:
            add_tool(tools, find_text(function.get("name")), _schema(function))
    for _, function in iter_messages(read_list(body.get("functions"), "functions"), "functions"):
        add_tool(tools, find_text(function.get("name")), _schema(function))
    return tools


def find_chat_bound(body: Members) -> int | None:
    """The most that may come back: the bound of one choice times their number."""
    bound = read_bound(body, ("max_completion_tokens", "max_tokens"))
    return None if bound is None else bound * count_chat_answers(body)


def count_chat_answers(body: Members) -> int:
    """How many choices are asked for."""
    return read_bound(body, ("n",)) or 1


def _schema(function: Members) -> msgspec.Raw | None:
    schema = function.get("parameters")
    return None if schema is None or is_null(schema) else schema


def _read_call(call: Members) -> ToolCall:
    identifier = find_text(call.get("id"))
    custom = find_members(call.get("custom"))
    if custom is not None:
        name = find_text(custom.get("name")) or ""
        return ToolCall(id=identifier, name=name, arguments=wrap_text(find_text(custom.get("input")) or ""))
    return _read_function(identifier, find_members(call.get("function")) or {})


def _read_function(identifier: str | None, function: Members) -> ToolCall:
    arguments = function.get("arguments")
    text = find_text(arguments)
    return ToolCall(
        id=identifier,
        name=find_text(function.get("name")) or "",
        arguments=text.encode() if text is not None else bytes(arguments or b"{}"),
    )
