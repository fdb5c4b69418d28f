"""Requests to models, made by hand in all four dialects, with one meaning."""

from __future__ import annotations

import json
from typing import Any, Final, get_args

from repotrial.cost import TokenUsage
from repotrial.wire import Dialect, ToolCall, WireAnswer, WireRequest
from repotrial.wire._dialects import build_answer, parse_request
from repotrial.wire._reader import AnswerReader
from repotrial.wire._route import Route, find_route
from repotrial.wire._texts import find_answer_schema, read_message_text
from repotrial.wire._turn import Turn

__all__ = [
    "DIALECTS",
    "SHELL_SCHEMA",
    "USAGE",
    "AnswerReader",
    "Route",
    "Turn",
    "build_answer",
    "build_body",
    "build_request",
    "build_turn",
    "find_answer_schema",
    "find_route",
    "parse",
    "parse_request",
    "read_chunks",
    "read_message_text",
    "target_of",
]


DIALECTS: Final[tuple[Dialect, ...]] = get_args(Dialect)

SHELL_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
    "required": ["command"],
}

USAGE: Final = TokenUsage(
    input_uncached=100,
    cache_read=20,
    cache_write_5m=0,
    cache_write_1h=0,
    output=7,
    reasoning=0,
    request_input=120,
)


def target_of(dialect: Dialect, *, is_streamed: bool = True) -> str:
    """Where agents send such a request."""
    verb = "streamGenerateContent?alt=sse" if is_streamed else "generateContent"
    return {
        "openai-chat": "/v1/chat/completions",
        "openai-responses": "/v1/responses",
        "anthropic-messages": "/v1/messages?beta=true",
        "gemini": f"/v1beta/models/scripted-1:{verb}",
    }[dialect]


def parse(dialect: Dialect, body: dict[str, Any] | bytes, *, is_streamed: bool = True) -> WireRequest:
    """Read a body as the gateway does."""
    route = find_route("POST", target_of(dialect, is_streamed=is_streamed))
    assert route is not None
    return parse_request(route, body if isinstance(body, bytes) else json.dumps(body).encode())


def build_body(
    dialect: Dialect,
    *,
    tools: dict[str, dict[str, Any]] | None = None,
    calls: int = 0,
    prompt: str = "fix it",
    is_streamed: bool = True,
) -> dict[str, Any]:
    """A body with a prompt, tools, and so many calls with their results."""
    offered = {"bash": SHELL_SCHEMA} if tools is None else tools
    build = {
        "openai-chat": _chat,
        "openai-responses": _responses,
        "anthropic-messages": _anthropic,
        "gemini": _gemini,
    }[dialect]
    body = build(offered, calls, prompt)
    return body if dialect == "gemini" else {**body, "stream": is_streamed}


def build_request(
    dialect: Dialect,
    *,
    tools: dict[str, dict[str, Any]] | None = None,
    calls: int = 0,
    prompt: str = "fix it",
    is_streamed: bool = True,
) -> WireRequest:
    """The same, read."""
    body = build_body(dialect, tools=tools, calls=calls, prompt=prompt, is_streamed=is_streamed)
    return parse(dialect, body, is_streamed=is_streamed)


def build_turn(text: str = "I look.", *, calls: tuple[ToolCall, ...] | None = None) -> Turn:
    """A turn that says something and calls the shell."""
    one = ToolCall(id=None, name="bash", arguments=b'{"command":"ls -la"}')
    return Turn(number=3, text=text, calls=(one,) if calls is None else calls, usage=USAGE)


def read_chunks(request: WireRequest, chunks: tuple[bytes, ...], content_type: str | None) -> WireAnswer:
    """An answer, read to its end."""
    reader = AnswerReader(request, content_type=content_type)
    for chunk in chunks:
        reader.feed(chunk)
    return reader.finish()


def _chat(tools: dict[str, dict[str, Any]], calls: int, prompt: str) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": prompt},
    ]
    for number in range(calls):
        function = {"name": "bash", "arguments": '{"command": "ls"}'}
        call = {"id": f"call_{number}", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": f"call_{number}", "content": f"result {number}"})
    functions = [
        {"type": "function", "function": {"name": name, "parameters": schema}}
        for name, schema in tools.items()
    ]
    extra = {"max_tokens": 4096, "stream_options": {"include_usage": True}}
    return {"model": "scripted-1", "messages": messages, **({"tools": functions} if tools else {}), **extra}


def _responses(tools: dict[str, dict[str, Any]], calls: int, prompt: str) -> dict[str, Any]:
    items: list[dict[str, Any]] = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": prompt}]}
    ]
    for number in range(calls):
        call = {"name": "bash", "arguments": '{"command": "ls"}', "call_id": f"call_{number}"}
        items.append({"type": "function_call", **call})
        items.append(
            {"type": "function_call_output", "call_id": f"call_{number}", "output": f"result {number}"}
        )
    functions = [{"type": "function", "name": name, "parameters": schema} for name, schema in tools.items()]
    return {
        "model": "scripted-1",
        "instructions": "You are an agent.",
        "input": items,
        "tools": functions,
        "max_output_tokens": 4096,
    }


def _anthropic(tools: dict[str, dict[str, Any]], calls: int, prompt: str) -> dict[str, Any]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": prompt}]
    for number in range(calls):
        use = {"type": "tool_use", "id": f"call_{number}", "name": "bash", "input": {"command": "ls"}}
        result = {"type": "tool_result", "tool_use_id": f"call_{number}", "content": f"result {number}"}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
    return {
        "model": "scripted-1",
        "system": [{"type": "text", "text": "You are an agent."}],
        "messages": messages,
        "tools": [{"name": name, "input_schema": schema} for name, schema in tools.items()],
        "max_tokens": 4096,
    }


def _gemini(tools: dict[str, dict[str, Any]], calls: int, prompt: str) -> dict[str, Any]:
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": prompt}]}]
    for number in range(calls):
        call = {"functionCall": {"name": "bash", "args": {"command": "ls"}}}
        result = {"functionResponse": {"name": "bash", "response": {"output": f"result {number}"}}}
        contents += [{"role": "model", "parts": [call]}, {"role": "user", "parts": [result]}]
    functions = [{"name": name, "parametersJsonSchema": schema} for name, schema in tools.items()]
    return {
        "systemInstruction": {"role": "user", "parts": [{"text": "You are an agent."}]},
        "contents": contents,
        "tools": [{"functionDeclarations": functions}],
        "generationConfig": {"maxOutputTokens": 4096},
    }
