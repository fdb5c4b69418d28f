"""Requests in the form of Gemini's generateContent."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from repotrial.gateway._model import ToolCall, ToolResult
from repotrial.gateway._wire._json import Members, find_members, find_text, is_null
from repotrial.gateway._wire._requests._common import (
    History,
    add_tool,
    iter_messages,
    read_bound,
    read_list,
    read_object,
)
from repotrial.trace import RawMessage


def read_gemini_history(body: Members) -> History:
    """Everything that `systemInstruction` and `contents` say."""
    history = History.start()
    system = _either(body, "systemInstruction", "system_instruction")
    if system is not None:
        history.messages.append(RawMessage("system", bytes(system)))
    for raw, content in iter_messages(_read_contents(body), "contents"):
        history.messages.append(RawMessage(find_text(content.get("role")) or "user", bytes(raw)))
        for _, part in iter_messages(read_list(content.get("parts"), "parts"), "parts"):
            call = find_part_call(part)
            if call is not None:
                history.calls.append(call)
            response = find_members(_either(part, "functionResponse", "function_response"))
            if response is not None:
                history.results.append(_read_response(response))
    return history


def read_gemini_tools(body: Members) -> dict[str, bytes]:
    """Functions that the request declares."""
    tools: dict[str, bytes] = {}
    for _, tool in iter_messages(read_list(body.get("tools"), "tools"), "tools"):
        declared = _either(tool, "functionDeclarations", "function_declarations")
        for _, function in iter_messages(read_list(declared, "functionDeclarations"), "functionDeclarations"):
            schema = _either(function, "parametersJsonSchema", "parameters")
            add_tool(tools, find_text(function.get("name")), schema)
    return tools


def find_gemini_bound(body: Members) -> int | None:
    """The most that may come back: the bound of one candidate times their number."""
    bound = read_bound(_read_config(body), ("maxOutputTokens", "max_output_tokens"))
    return None if bound is None else bound * count_gemini_answers(body)


def count_gemini_answers(body: Members) -> int:
    """How many candidates are asked for."""
    return read_bound(_read_config(body), ("candidateCount", "candidate_count")) or 1


def find_part_call(part: Members) -> ToolCall | None:
    """The call that a part is; null for anything else."""
    call = find_members(_either(part, "functionCall", "function_call"))
    if call is None:
        return None
    given = call.get("args")
    return ToolCall(
        id=find_text(call.get("id")),
        name=find_text(call.get("name")) or "",
        arguments=b"{}" if given is None or is_null(given) else bytes(given),
    )


def _read_config(body: Members) -> Members:
    raw = _either(body, "generationConfig", "generation_config")
    return {} if raw is None else read_object(raw, "generationConfig")


def _either(members: Members, *names: str) -> msgspec.Raw | None:
    return next(_iter_given(members, names), None)


def _iter_given(members: Members, names: tuple[str, ...]) -> Iterator[msgspec.Raw]:
    for name in names:
        raw = members.get(name)
        if raw is not None and not is_null(raw):
            yield raw


def _read_contents(body: Members) -> list[msgspec.Raw]:
    # A count may carry the whole request in a member of its own.
    wrapped = find_members(body.get("generateContentRequest"))
    contents = (wrapped or body).get("contents")
    if contents is not None and find_members(contents) is not None:
        return [contents]
    return read_list(contents, "contents")


def _read_response(response: Members) -> ToolResult:
    given = response.get("response")
    members = find_members(given) or {}
    text = find_text(members.get("output"))
    is_error = "error" in members or (False if "output" in members else None)
    return ToolResult(
        call_id=find_text(response.get("id")),
        name=find_text(response.get("name")),
        content=text.encode() if text is not None else bytes(given or b""),
        is_error=is_error,
    )
