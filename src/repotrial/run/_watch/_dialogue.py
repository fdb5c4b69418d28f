"""Exchanges as events: prompts, answers, and the tool calls that the messages themselves show (P14).

Every agent that talks to a model sends its tool results back on the next request. So the wire alone tells
which tools were called, with what, when and with what result, for every agent alike.
"""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial._core.clock import Clock
from repotrial._core.digest import digest_bytes
from repotrial.cost import Usage
from repotrial.run._gateway import ExchangeEnd, ToolCall, ToolResult, WireRequest
from repotrial.run._watch._threads import find_opening
from repotrial.trace import (
    Conversation,
    EventRef,
    ExitUnknown,
    Response,
    ToolInvocation,
    TraceWriter,
)
from repotrial.trace import Usage as TraceUsage
from repotrial.trace.importers import GatewayCall, digest_arguments

__all__ = ["Dialogue", "OpenPrompt"]

_ON_THE_WIRE: Final = ExitUnknown(reason="the wire does not carry exit statuses")
_MARKED_FAILED: Final = ExitUnknown(reason="the agent marked the call as failed")
_UNANSWERED: Final = ExitUnknown(reason="no result was sent back to the model")
_FIRST: Final = "main"


class OpenPrompt(msgspec.Struct, frozen=True, kw_only=True):
    """A prompt that waits for its answer."""

    conversation: str
    index: int
    model: str
    seq: int | None
    """Its event; null where the byte budget dropped it."""


class _Pending(msgspec.Struct, kw_only=True):
    call: ToolCall
    released_us: int


class _Thread:
    """One conversation: its record, and the calls that have no result yet."""

    def __init__(self, writer: TraceWriter, name: str) -> None:
        self.name = name
        self.record = Conversation(writer, name=name)
        self.index = 0
        self.pending: list[_Pending] = []

    def take(self, result: ToolResult) -> _Pending | None:
        """The call that a result answers: by its id, else the oldest of that name."""
        for position, waiting in enumerate(self.pending):
            call = waiting.call
            is_same = call.id == result.call_id if call.id and result.call_id else call.name == result.name
            if is_same:
                return self.pending.pop(position)
        return None


class Dialogue:
    """Records what an agent and its models say. Used by one thread at a time."""

    def __init__(self, writer: TraceWriter, clock: Clock) -> None:
        self._writer = writer
        self._clock = clock
        self._threads: dict[str, _Thread] = {}
        self.calls: list[GatewayCall] = []
        """Tools that models asked for, in order."""
        self.usage: list[TraceUsage] = []
        """What each answer consumed, in order."""

    def record_results(self, request: WireRequest) -> tuple[int, ...]:
        """The calls that this request brings results for, as events; their places in the trace."""
        thread = self._find_thread(request)
        places = []
        for result in request.results:
            waiting = thread.take(result)
            if waiting is not None:
                places.append(self._record_call(waiting, result))
        return tuple(place for place in places if place is not None)

    def open(self, request: WireRequest) -> OpenPrompt:
        """Record a request before it is sent on."""
        thread = self._find_thread(request)
        index, thread.index = thread.index, thread.index + 1
        ref = thread.record.append(
            request.messages, model=request.model or "unnamed", request=request.envelope
        )
        return OpenPrompt(
            conversation=thread.name,
            index=index,
            model=request.model or "unnamed",
            seq=ref.seq if isinstance(ref, EventRef) else None,
        )

    def close(
        self, prompt: OpenPrompt, end: ExchangeEnd, usage: Usage, *, cost_usd: str | None
    ) -> int | None:
        """Record the answer; from now on its calls are the agent's to carry out."""
        answer = end.answer
        metered = _build_usage(usage)
        ref = self._writer.append(
            Response(
                prompt=prompt.seq,
                model=(answer.model if answer is not None else None) or prompt.model,
                role="assistant" if answer is None else answer.role,
                conversation=prompt.conversation,
                index=prompt.index,
                body=self._writer.body(end.body, of=Response),
                stop_reason=None if answer is None else answer.stop_reason,
                status=end.status,
                wall_us=end.wall_us,
                usage=metered,
                cost_usd=cost_usd,
            ),
            actor="agent",
        )
        if answer is not None and end.cause == "complete":
            now_us = self._clock.now_us()
            self.usage.append(metered)
            self.calls += [_describe_call(call) for call in answer.calls]
            thread = next(t for t in self._threads.values() if t.name == prompt.conversation)
            thread.pending += [_Pending(call=call, released_us=now_us) for call in answer.calls]
        return ref.seq if isinstance(ref, EventRef) else None

    def conclude(self) -> None:
        """Record the calls that nobody ever answered for."""
        for thread in self._threads.values():
            for waiting in thread.pending:
                self._record_call(waiting, None)
            thread.pending.clear()

    def _find_thread(self, request: WireRequest) -> _Thread:
        ids = {result.call_id for result in request.results if result.call_id}
        for thread in self._threads.values():
            if any(waiting.call.id in ids for waiting in thread.pending if waiting.call.id):
                return thread
        key = digest_bytes(find_opening(request.messages))
        if key not in self._threads:
            self._threads[key] = _Thread(self._writer, self._choose_name(request))
        return self._threads[key]

    def _choose_name(self, request: WireRequest) -> str:
        """The first conversation in which tools are offered is the agent's own."""
        taken = {thread.name for thread in self._threads.values()}
        if request.tools and _FIRST not in taken:
            return _FIRST
        return f"side-{len(taken - {_FIRST}) + 1}"

    def _record_call(self, waiting: _Pending, result: ToolResult | None) -> int | None:
        call, keep = waiting.call, self._writer.body
        now_us = self._clock.now_us()
        ref = self._writer.append(
            ToolInvocation(
                tool=call.name or "unnamed",
                call_id=call.id,
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


def _build_usage(usage: Usage) -> TraceUsage:
    return TraceUsage(
        input_uncached_tokens=usage.input_uncached,
        cache_read_tokens=usage.cache_read,
        cache_write_5m_tokens=usage.cache_write_5m,
        cache_write_1h_tokens=usage.cache_write_1h,
        output_tokens=usage.output,
        reasoning_tokens=usage.reasoning,
        request_input_tokens=usage.request_input,
        basis=usage.basis,
    )


def _describe_call(call: ToolCall) -> GatewayCall:
    return GatewayCall(call_id=call.id, name=call.name, arguments_digest=digest_arguments(call.arguments))


def _describe_exit(result: ToolResult | None) -> ExitUnknown:
    if result is None:
        return _UNANSWERED
    return _MARKED_FAILED if result.is_error else _ON_THE_WIRE
