"""OpenAI Chat Completions: requests are read, answers are read and built."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import Final

import msgspec

from repotrial._core.canonical import Count
from repotrial.trace import RawMessage
from repotrial.wire._common import (
    FREE_TEXT_SCHEMA,
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
from repotrial.wire._json import (
    Members,
    find_count,
    find_flag,
    find_items,
    find_members,
    find_text,
    is_null,
    read_members,
)
from repotrial.wire._model import ToolCall, ToolResult, WireRequest
from repotrial.wire._turn import CREATED, EVENTS, BuiltAnswer, Turn, encode_event, encode_json, halve
from repotrial.wire._usage import build_chat_usage


class _PlainDelta(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    content: str
    role: str | None = None
    refusal: None = None
    tool_calls: None = None
    function_call: None = None


class _PlainChoice(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    delta: _PlainDelta
    index: Count = 0
    finish_reason: None = None
    logprobs: None = None


class _PlainEvent(msgspec.Struct, frozen=True, forbid_unknown_fields=True, gc=False):
    """A piece of text and nothing else; a name that is not known here makes it something else."""

    choices: tuple[_PlainChoice]
    id: str | None = None
    object: str | None = None
    created: int | None = None
    model: str | None = None
    system_fingerprint: str | None = None
    service_tier: str | None = None
    usage: None = None


_PLAIN: Final = msgspec.json.Decoder(_PlainEvent)


_HOSTED_SIGNS: Final = ("annotations", "citations", "search_results", "executed_tools")


class ChatReader:
    """Chunks and whole completions; both are choices, with a `delta` or a `message` in each."""

    def __init__(self) -> None:
        self._open: set[int] = set()
        self._keys: dict[tuple[int, int], tuple[str | None, Hashable]] = {}

    def take_plain(self, draft: AnswerDraft, data: bytes) -> bool:
        """Read a piece of text, which most events are, at a fraction of the cost."""
        try:
            event = _PLAIN.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return False
        (choice,) = event.choices
        draft.model = event.model or draft.model
        draft.add_text(choice.index, choice.delta.content)
        self._open.add(choice.index)
        return True

    def take_event(self, draft: AnswerDraft, event: Members) -> None:
        draft.has_error |= find_members(event.get("error")) is not None
        draft.model = find_text(event.get("model")) or draft.model
        draft.usage = find_members(event.get("usage")) or draft.usage
        self._take_hosted(draft, event)
        for index, item in enumerate(find_items(event.get("choices")) or ()):
            choice = find_members(item) or {}
            number = find_count(choice.get("index"))
            self._take_choice(draft, choice, index if number is None else number)

    def take_body(self, draft: AnswerDraft, body: Members) -> None:
        self.take_event(draft, body)

    def _take_choice(self, draft: AnswerDraft, choice: Members, number: int) -> None:
        said = find_members(choice.get("delta")) or find_members(choice.get("message")) or {}
        for name in ("content", "refusal", "text"):
            for text in _iter_texts(said, name):
                draft.add_text(number, text)
        for name in ("reasoning_content", "reasoning"):
            reasoning = find_text(said.get(name))
            if reasoning is not None:
                draft.add_reasoning(number, reasoning)
                break
        self._take_hosted(draft, said)
        for item in find_items(said.get("tool_calls")) or ():
            self._take_call(draft, find_members(item) or {}, number)
        old = find_members(said.get("function_call"))
        if old is not None:
            self._take_function(draft, (number, "function"), None, old)
        self._open.add(number)
        reason = find_text(choice.get("finish_reason"))
        if reason is not None:
            draft.stop_reason = reason
            self._open.discard(number)
            draft.is_ended = not self._open

    def _take_call(self, draft: AnswerDraft, call: Members, number: int) -> None:
        identifier = find_text(call.get("id")) or None
        key = self._find_key(draft, number, find_count(call.get("index")), identifier)
        custom = find_members(call.get("custom"))
        if custom is not None:
            name = find_text(custom.get("name"))
            draft.open_call(key, identifier=identifier, name=name, is_free_text=True)
            draft.add_arguments(key, find_text(custom.get("input")) or "")
            return
        function = find_members(call.get("function"))
        if function is None:
            draft.add_unread(f"tool call of type {find_text(call.get('type'))}")
        self._take_function(draft, key, identifier, function or {})

    def _take_hosted(self, draft: AnswerDraft, holder: Members) -> None:
        """Signs of what the provider did by itself; chat has no calls of its own for it."""
        for name in _HOSTED_SIGNS:
            given = holder.get(name)
            if given is not None and find_items(given):
                draft.add_hosted(("hosted", name), ToolCall(id=None, name=name, arguments=bytes(given)))

    def _find_key(
        self, draft: AnswerDraft, number: int, index: int | None, identifier: str | None
    ) -> Hashable:
        """Which call a piece belongs to: a new id is a new call, whatever its index is.

        Some providers leave the index out, some give the same one to all calls.
        """
        if index is None:
            is_next = identifier is not None or draft.last_call is None
            return (number, "id", identifier) if is_next else draft.last_call
        known, key = self._keys.get((number, index), (None, None))
        if key is None or (identifier and known and identifier != known):
            known, key = identifier, (number, index, identifier)
        self._keys[number, index] = (known or identifier, key)
        return key

    def _take_function(
        self, draft: AnswerDraft, key: Hashable, identifier: str | None, function: Members
    ) -> None:
        draft.open_call(key, identifier=identifier, name=find_text(function.get("name")))
        arguments = function.get("arguments")
        text = find_text(arguments)
        if text is None and find_members(arguments) is not None:
            text = bytes(arguments or b"").decode(errors="replace")
        draft.add_arguments(key, text or "")


def _iter_texts(said: Members, name: str) -> list[str]:
    text = find_text(said.get(name))
    if text is not None:
        return [text]
    parts = (find_members(item) or {} for item in find_items(said.get(name)) or ())
    return [found for part in parts if (found := find_text(part.get("text"))) is not None]


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


def read_chat(body: Members) -> ParsedBody:
    """A request; its bound is that of one choice times their number."""
    bound = read_bound(body, ("max_completion_tokens", "max_tokens"))
    answers = read_bound(body, ("n",)) or 1
    parsed = ParsedBody(
        tools=_read_tools(body),
        max_output_tokens=None if bound is None else bound * answers,
        answers=answers,
    )
    for raw, message in iter_messages(read_list(body.get("messages"), "messages"), "messages"):
        role = find_text(message.get("role")) or "unknown"
        parsed.messages.append(RawMessage(role, bytes(raw)))
        for _, call in iter_messages(read_list(message.get("tool_calls"), "tool_calls"), "tool_calls"):
            parsed.calls.append(_read_call(call))
        old = message.get("function_call")
        if old is not None and not is_null(old):
            parsed.calls.append(_read_function(None, find_members(old) or {}))
        if role in {"tool", "function"}:
            parsed.results.append(
                ToolResult(
                    call_id=find_text(message.get("tool_call_id")),
                    name=find_text(message.get("name")),
                    content=join_parts(message.get("content")),
                )
            )
    return parsed


def _read_tools(body: Members) -> dict[str, bytes]:
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
