"""Exchanges as events: prompts, answers, and the tool calls that the messages themselves show (P14).

Every agent that talks to a model sends its tool results back on the next request. So the wire alone tells
which tools were called, with what, when and with what result, for every agent alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from repotrial._core.clock import Clock
from repotrial._core.digest import digest_bytes
from repotrial.cost import TokenUsage
from repotrial.gateway import ExchangeEnd
from repotrial.run._watch._configuration import ConfigurationLog, OpenSettings, clean_name
from repotrial.trace import (
    Conversation,
    EventRef,
    ExitUnknown,
    RawMessage,
    Response,
    ResponseUsage,
    ToolInvocation,
    TraceWriter,
)
from repotrial.transcripts import GatewayCall
from repotrial.wire import ToolCall, ToolResult, WireRequest

_MARKS: Final = frozenset({"cache_control", "id"})
"""Keys that agents move or renew from request to request while the message stays the same."""
_SETTING: Final = frozenset({"system", "developer"})
_MOST_DEPTH: Final = 12


_ON_THE_WIRE: Final = ExitUnknown(reason="the wire does not carry exit statuses")
_TROUBLE: Final = frozenset({401, 403, 404, 407, 408, 429, *range(500, 600)})
"""Statuses of a provider that cannot answer now, or not with our key."""
_MARKED_FAILED: Final = ExitUnknown(reason="the agent marked the call as failed")
_UNANSWERED: Final = ExitUnknown(reason="no result was sent back to the model")
_FIRST: Final = "main"
_REST: Final = "side-rest"
_MOST_THREADS: Final = 1000
"""Conversations that are told apart; an agent can open any number, and each one takes memory."""


def find_opening(messages: Sequence[RawMessage]) -> bytes:
    """What stays the same while a conversation grows: what its first message that sets no scene says."""
    opening = next((message for message in messages if message.role not in _SETTING), None)
    if opening is None:
        return b"".join(message.data for message in messages)
    try:
        value = msgspec.json.decode(opening.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return opening.data
    return "\n".join(_iter_texts(value, 0)).encode("utf-8", "surrogatepass")


def _iter_texts(value: Any, depth: int) -> list[str]:
    if depth > _MOST_DEPTH:
        return []
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [
            text for key, item in value.items() if key not in _MARKS for text in _iter_texts(item, depth + 1)
        ]
    if isinstance(value, list):
        return [text for item in value for text in _iter_texts(item, depth + 1)]
    return []


class OpenPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that waits for its answer."""

    conversation: str
    index: int
    model: str
    """As the request names it: prices go by it."""
    seq: int | None
    """Its event; None if the byte budget dropped it."""
    tools: Mapping[str, bytes]
    """The schemas of the tools that it offers, by name."""
    last_message: bytes = b""
    """What is answered."""
    settings: OpenSettings | None = None
    """How the agent asks; None where it only asks how many tokens a request would take."""


class _Pending(msgspec.Struct, kw_only=True):
    call: ToolCall
    released_us: int
    index: int
    """Of the answer that asked for it."""


class _Thread:
    """One conversation: its record, and the calls that have no result yet."""

    def __init__(self, writer: TraceWriter, name: str) -> None:
        self.name = name
        self.record = Conversation(writer, name=name)
        self.index = 0
        self.pending: list[_Pending] = []
        self.ids: set[str] = set()
        """Of all calls that were ever handed to the agent here."""

    def awaits(self, ids: frozenset[str]) -> bool:
        """Whether a call with one of these ids has no result yet."""
        return any(waiting.call.id in ids for waiting in self.pending if waiting.call.id)

    def take(self, results: Sequence[ToolResult]) -> list[tuple[_Pending, ToolResult]]:
        """Calls with the results that answer them, oldest first.

        A history repeats old results, and ids may be used again or left out: the newest ones belong together.
        """
        found = []
        for result in reversed(results):
            if not self.pending:
                break
            for position in reversed(range(len(self.pending))):
                call = self.pending[position].call
                if call.id == result.call_id if call.id and result.call_id else call.name == result.name:
                    found.append((self.pending.pop(position), result))
                    break
        return found[::-1]


class Dialogue:
    """Records what an agent and its models say. Used by one thread at a time."""

    def __init__(self, writer: TraceWriter, clock: Clock, *, context_tokens: int | None = None) -> None:
        self._writer = writer
        self._clock = clock
        self._threads: dict[str, _Thread] = {}
        self._configurations = ConfigurationLog(writer, context_tokens=context_tokens)
        self.calls: list[GatewayCall] = []
        """Tools that models asked for, in order."""
        self.usage: list[ResponseUsage] = []
        """What each answer consumed, in order."""
        self.side_usage: list[ResponseUsage] = []
        """The same, of answers to requests that offered no tools."""
        self.unanswered: list[str] = []
        """Requests to which the provider gave no answer, each with what came in its place."""
        self.answers = 0
        """How often anything came that is not the provider's own trouble, be it a refusal."""

    def record_results(self, request: WireRequest) -> tuple[int, ...]:
        """The calls that this request brings results for, as events; their places in the trace."""
        found = self._find_thread(request).take(request.results)
        places = [self._record_call(waiting, result) for waiting, result in found]
        return tuple(place for place in places if place is not None)

    def open(self, request: WireRequest) -> OpenPrompt:
        """Record a request before it is sent on."""
        thread = self._find_thread(request)
        messages = [RawMessage(clean_name(message.role), message.data) for message in request.messages]
        ref = thread.record.append(messages, model=clean_name(request.model), request=request.envelope)
        index, thread.index = thread.index, thread.index + 1
        return OpenPrompt(
            conversation=thread.name,
            index=index,
            model=request.model,
            seq=ref.seq if isinstance(ref, EventRef) else None,
            tools=request.tools,
            last_message=request.messages[-1].data if request.messages else b"",
            settings=None if request.is_count_only else self._configurations.read(thread.name, request),
        )

    def close(
        self, prompt: OpenPrompt, end: ExchangeEnd, usage: TokenUsage, *, cost_usd: str | None
    ) -> int | None:
        """Record the answer; from now on its calls are the agent's to carry out."""
        answer = end.answer
        metered = _build_usage(usage)
        ref = self._writer.append(
            Response(
                prompt=prompt.seq,
                model=clean_name((answer.model if answer is not None else None) or prompt.model),
                role="assistant" if answer is None else clean_name(answer.role),
                conversation=prompt.conversation,
                index=prompt.index,
                body=self._writer.body(end.body, of=Response),
                stop_reason=clean_name(answer.stop_reason)
                if answer is not None and answer.stop_reason
                else None,
                status=end.status,
                wall_us=end.wall_us,
                usage=metered,
                cost_usd=cost_usd,
                tool_calls=len(answer.calls) if answer is not None and prompt.tools else None,
            ),
            actor="agent",
        )
        place = ref.seq if isinstance(ref, EventRef) else None
        if prompt.settings is not None:
            model = None if answer is None else answer.model
            self._configurations.record(prompt.settings, model, prompt=prompt.seq, response=place)
        if end.cause == "upstream-failed" or (end.cause == "complete" and end.status in _TROUBLE):
            self.unanswered.append(
                f"{end.status} {clean_name(end.detail)}" if end.detail else f"{end.status}"
            )
        else:
            self.answers += 1
        if answer is not None and end.cause == "complete":
            now_us = self._clock.now_us()
            self.usage.append(metered)
            if not prompt.tools:
                self.side_usage.append(metered)
            self.calls += [_describe_call(call, prompt.tools) for call in answer.calls]
            thread = self._get_thread(prompt)
            thread.ids.update(call.id for call in answer.calls if call.id)
            thread.pending += [
                _Pending(call=call, released_us=now_us, index=prompt.index) for call in answer.calls
            ]
        return place

    def withhold(self, prompt: OpenPrompt) -> None:
        """The agent was not given the answer after all: its calls will not be carried out."""
        thread = self._get_thread(prompt)
        kept_back = [_describe_call(p.call, prompt.tools) for p in thread.pending if p.index == prompt.index]
        thread.pending = [waiting for waiting in thread.pending if waiting.index != prompt.index]
        for call in kept_back:
            self.calls.remove(call)

    def conclude(self) -> None:
        """Record the calls that never got a result."""
        for thread in self._threads.values():
            for waiting in thread.pending:
                self._record_call(waiting, None)
            thread.pending.clear()

    def _get_thread(self, prompt: OpenPrompt) -> _Thread:
        return next(t for t in self._threads.values() if t.name == prompt.conversation)

    def _find_thread(self, request: WireRequest) -> _Thread:
        """By how it opens; where that tells nothing, by the calls whose results it brings.

        Agents shorten their histories, so an opening may change; ids may be the same in two conversations.
        """
        key = digest_bytes(find_opening(request.messages))
        known = self._threads.get(key)
        ids = frozenset(result.call_id for result in request.results if result.call_id)
        if ids and (known is None or known.ids.isdisjoint(ids)):
            knowing = [thread for thread in self._threads.values() if not thread.ids.isdisjoint(ids)]
            known = next((thread for thread in knowing if thread.awaits(ids)), next(iter(knowing), known))
        if known is None:
            if len(self._threads) >= _MOST_THREADS:
                key = _REST
            known = self._threads.setdefault(key, _Thread(self._writer, self._choose_name(request)))
        return known

    def _choose_name(self, request: WireRequest) -> str:
        """The first conversation in which tools are offered is the agent's own."""
        if len(self._threads) >= _MOST_THREADS:
            return _REST
        taken = {thread.name for thread in self._threads.values()}
        if request.tools and _FIRST not in taken:
            return _FIRST
        return f"side-{len(taken - {_FIRST}) + 1}"

    def _record_call(self, waiting: _Pending, result: ToolResult | None) -> int | None:
        call, keep = waiting.call, self._writer.body
        now_us = self._clock.now_us()
        ref = self._writer.append(
            ToolInvocation(
                tool=clean_name(call.name),
                call_id=None if call.id is None else clean_name(call.id),
                source="gateway",
                arguments=keep(call.arguments, of=ToolInvocation),
                exit=_describe_exit(result),
                started_at_us=waiting.released_us,
                wall_us=max(0, now_us - waiting.released_us),
                result=None if result is None else keep(result.content, of=ToolInvocation),
            ),
            actor="agent",
        )
        return ref.seq if isinstance(ref, EventRef) else None


def _build_usage(usage: TokenUsage) -> ResponseUsage:
    return ResponseUsage(
        input_uncached_tokens=usage.input_uncached,
        cache_read_tokens=usage.cache_read,
        cache_write_5m_tokens=usage.cache_write_5m,
        cache_write_1h_tokens=usage.cache_write_1h,
        output_tokens=usage.output,
        reasoning_tokens=usage.reasoning,
        request_input_tokens=usage.request_input,
        basis=usage.basis,
    )


def _describe_call(call: ToolCall, tools: Mapping[str, bytes]) -> GatewayCall:
    return GatewayCall.build(call.id, call.name, call.arguments, schema=tools.get(call.name, b""))


def _describe_exit(result: ToolResult | None) -> ExitUnknown:
    if result is None:
        return _UNANSWERED
    return _MARKED_FAILED if result.is_error else _ON_THE_WIRE
