"""Gemini's generateContent: requests are read, answers are read and built."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from repotrial.trace import RawMessage
from repotrial.wire._common import (
    ParsedBody,
    add_tool,
    iter_messages,
    read_bound,
    read_list,
    read_object,
)
from repotrial.wire._draft import AnswerDraft
from repotrial.wire._hosted import load_rules, normalize_name
from repotrial.wire._json import Members, find_flag, find_items, find_members, find_text, is_null
from repotrial.wire._model import ToolCall, ToolResult, WireRequest
from repotrial.wire._turn import EVENTS, BuiltAnswer, Turn, encode_event, encode_json, halve
from repotrial.wire._usage import build_gemini_usage


def read_gemini(body: Members) -> ParsedBody:
    """A request; its bound is that of one candidate times their number."""
    given = _either(body, "generationConfig", "generation_config")
    config = {} if given is None else read_object(given, "generationConfig")
    bound = read_bound(config, ("maxOutputTokens", "max_output_tokens"))
    answers = read_bound(config, ("candidateCount", "candidate_count")) or 1
    parsed = ParsedBody(
        tools=_read_tools(body),
        max_output_tokens=None if bound is None else bound * answers,
        answers=answers,
    )
    system = _either(body, "systemInstruction", "system_instruction")
    if system is not None:
        parsed.messages.append(RawMessage("system", bytes(system)))
    for raw, content in iter_messages(_read_contents(body), "contents"):
        parsed.messages.append(RawMessage(find_text(content.get("role")) or "user", bytes(raw)))
        for _, part in iter_messages(read_list(content.get("parts"), "parts"), "parts"):
            call = find_part_call(part)
            if call is not None:
                parsed.calls.append(call)
            response = find_members(_either(part, "functionResponse", "function_response"))
            if response is not None:
                parsed.results.append(_read_response(response))
    return parsed


def _read_tools(body: Members) -> dict[str, bytes]:
    tools: dict[str, bytes] = {}
    for _, tool in iter_messages(read_list(body.get("tools"), "tools"), "tools"):
        declared = _either(tool, "functionDeclarations", "function_declarations")
        for _, function in iter_messages(read_list(declared, "functionDeclarations"), "functionDeclarations"):
            schema = _either(function, "parametersJsonSchema", "parameters")
            add_tool(tools, find_text(function.get("name")), schema)
    return tools


def find_part_call(part: Members) -> ToolCall | None:
    """The call that a part is; None for anything else."""
    call = find_members(_either(part, "functionCall", "function_call"))
    if call is None:
        return None
    given = call.get("args")
    return ToolCall(
        id=find_text(call.get("id")),
        name=find_text(call.get("name")) or "",
        arguments=b"{}" if given is None or is_null(given) else bytes(given),
    )


def _either(members: Members, *names: str) -> msgspec.Raw | None:
    found = (members[name] for name in names if not is_null(members.get(name)))
    return next(found, None)


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


_HOSTED_SIGNS: Final = ("groundingMetadata", "urlContextMetadata")


class GeminiReader:
    """Every object of a stream is an answer in itself; parts of one kind that follow each other are one."""

    def __init__(self) -> None:
        self._last: Literal["text", "thought"] | None = None
        self._run = 0
        self._calls = 0

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        draft.has_error |= find_members(event.get("error")) is not None
        draft.model = find_text(event.get("modelVersion")) or draft.model
        draft.usage = find_members(event.get("usageMetadata")) or draft.usage
        for item in find_items(event.get("candidates")) or ():
            self._take_candidate(draft, find_members(item) or {})
        feedback = find_members(event.get("promptFeedback")) or {}
        blocked = find_text(feedback.get("blockReason"))
        if blocked is not None:
            draft.stop_reason, draft.is_ended = blocked, True

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        self.take_event(draft, body)

    def _take_candidate(self, draft: AnswerDraft, candidate: Members) -> None:
        content = find_members(candidate.get("content")) or {}
        draft.role = find_text(content.get("role")) or draft.role
        for item in find_items(content.get("parts")) or ():
            self._take_part(draft, find_members(item) or {})
        for name in _HOSTED_SIGNS:
            given = candidate.get(name)
            if given is not None and find_members(given):
                draft.add_hosted(("hosted", name), ToolCall(id=None, name=name, arguments=bytes(given)))
        reason = find_text(candidate.get("finishReason"))
        if reason is not None:
            draft.stop_reason, draft.is_ended = reason, True

    def _take_part(self, draft: AnswerDraft, part: Members) -> None:
        call = find_part_call(part)
        if call is not None:
            self._calls += 1
            draft.set_call(self._calls, call)
            self._last = None
            return
        text = find_text(part.get("text"))
        if text is None:
            self._take_other(draft, part)
            return
        kind: Literal["text", "thought"] = "thought" if find_flag(part.get("thought")) else "text"
        if kind != self._last:
            self._last = kind
            self._run += 1
        if kind == "text":
            draft.add_text(self._run, text)
        else:
            draft.add_reasoning(self._run, text)

    def _take_other(self, draft: AnswerDraft, part: Members) -> None:
        """What the provider did by itself, or a part that is not known here."""
        for name, given in part.items():
            plain = normalize_name(name)
            if plain in {"executable_code", "code_execution_result", "tool_call", "tool_response"}:
                self._calls += 1
                draft.add_hosted(self._calls, ToolCall(id=None, name=plain, arguments=bytes(given)))
            elif plain not in load_rules()["gemini"].parts:
                draft.add_unread(f"part {name}")


def build_gemini(request: WireRequest, turn: Turn) -> BuiltAnswer:
    """One answer, or several that make one."""
    said: list[dict[str, Any]] = [{"text": piece} for piece in halve(turn.text)]
    called: list[dict[str, Any]] = [
        {"functionCall": {"name": call.name, "args": msgspec.Raw(call.arguments)}} for call in turn.calls
    ]
    base = {"modelVersion": turn.model or request.model, "responseId": f"gen-{turn.number:04d}"}
    usage = build_gemini_usage(turn.usage)
    if not request.is_streamed:
        whole = [{"text": turn.text}] if turn.text else []
        return encode_json(
            {"candidates": [_candidate(whole + called, "STOP")], "usageMetadata": usage, **base}
        )
    parts = said + called or [{"text": ""}]
    chunks = [encode_event({"candidates": [_candidate([part], None)], **base}) for part in parts[:-1]]
    last = {"candidates": [_candidate(parts[-1:], "STOP")], "usageMetadata": usage, **base}
    return BuiltAnswer(headers=dict(EVENTS), chunks=(*chunks, encode_event(last)))


def _candidate(parts: list[dict[str, Any]], reason: str | None) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    return candidate if reason is None else {**candidate, "finishReason": reason}
