"""What was said and done in a run, in order, as formats of trajectories want it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, Final, Literal, TypeAlias, cast, get_args

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.interop._model import Loss
from repotrial.trace import (
    AgentConfiguration,
    BlobStore,
    Body,
    Briefing,
    Event,
    Prompt,
    RawMessage,
    Response,
    ResponseUsage,
    RunPaths,
    ToolInvocation,
    iter_events,
)
from repotrial.wire import AnswerReader, Dialect, ToolCall, WireAnswer, WireRequest, read_message_text

Speaker: TypeAlias = Literal["system", "user", "agent"]
_TOLD: Final = frozenset({"briefing", "prompt", "response", "tool-invocation", "agent-configuration"})
_SYSTEM: Final = frozenset({"system", "developer"})
_FIRST_ERROR: Final = 400


class Call(msgspec.Struct, kw_only=True):
    """A tool that was asked for, and what came of it."""

    id: str
    name: str
    arguments: dict[str, Any]
    result: str | None = None
    """None if the record has none."""
    seq: int | None = None
    """The event that records its use; None if it was never used."""


class Step(msgspec.Struct, kw_only=True):
    """One thing that was said, or one answer with its calls."""

    speaker: Speaker
    text: str
    seq: int
    at_us: int
    digest: str
    """Of the original bytes."""
    conversation: str = "main"
    model: str | None = None
    reasoning: str | None = None
    calls: list[Call] = msgspec.field(default_factory=list)
    usage: ResponseUsage | None = None
    """None for what no model said."""
    cost_usd: str | None = None
    wall_us: int | None = None
    stop_reason: str | None = None
    absent: str | None = None
    """Why the text is not there; None if it is."""
    is_redacted: bool = False


class ToldRun(msgspec.Struct, frozen=True, kw_only=True):
    """Everything of a run that a trajectory can tell."""

    steps: tuple[Step, ...]
    losses: tuple[Loss, ...]


def read_conversation(paths: RunPaths) -> ToldRun:
    """Read a run's trace once.

    Raises:
        EvidenceError: the trace cannot be read.
    """
    reader = _Reader(paths)
    for event in iter_events(paths.trace, allow_torn_tail=True):
        reader.take(event)
    return ToldRun(steps=tuple(reader.steps), losses=tuple(reader.iter_losses()))


class _Reader:
    def __init__(self, paths: RunPaths) -> None:
        self._blobs = BlobStore(paths.blobs)
        self._dialects = _find_dialects(paths)
        self._calls: dict[str, Call] = {}
        self._others: Counter[str] = Counter()
        self.steps: list[Step] = []

    def take(self, event: Event) -> None:
        match event.payload:
            case Briefing() as briefing if not self._dialects:
                self._say("user", briefing.delivered, event)
            case Prompt() as prompt:
                self._take_prompt(prompt, event)
            case Response() as response:
                self._take_response(response, event)
            case ToolInvocation() as use:
                self._take_use(use, event)
            case _ if event.type not in _TOLD:
                self._others[event.type] += 1
            case _:
                pass

    def iter_losses(self) -> Iterator[Loss]:
        for kind, count in sorted(self._others.items()):
            yield Loss(what=f"{kind} events", count=count, why="the format has no such step")
        absent = sum(1 for step in self.steps if step.absent is not None)
        if absent:
            yield Loss(what="texts", count=absent, why="the record keeps their digests and lengths alone")
        redacted = sum(1 for step in self.steps if step.is_redacted)
        if redacted:
            yield Loss(what="texts with placeholders", count=redacted, why="secrets are not in the record")
        unused = sum(1 for step in self.steps for call in step.calls if call.seq is None)
        if unused:
            yield Loss(what="calls without a result", count=unused, why="the record has no use of them")

    def _take_prompt(self, prompt: Prompt, event: Event) -> None:
        for message in prompt.messages:
            role = message.role.lower()
            if role in _SYSTEM:
                self._say("system", message.body, event, prompt.conversation, is_wire=True)
            elif role == "user" and not self._is_result(message.body):
                self._say("user", message.body, event, prompt.conversation, is_wire=True)

    def _is_result(self, body: Body) -> bool:
        """Some dialects hand results of tools back as words of the user: their uses are events already."""
        raw, _ = self._load(body)
        return b'"tool_result"' in raw or b'"functionResponse"' in raw

    def _say(
        self, speaker: Speaker, body: Body, event: Event, conversation: str = "main", *, is_wire: bool = False
    ) -> None:
        raw, absent = self._load(body)
        text = (
            read_message_text(RawMessage(speaker, raw)) if is_wire and raw else raw.decode(errors="replace")
        )
        self.steps.append(
            Step(
                speaker=speaker,
                text=text,
                seq=event.seq,
                at_us=event.t,
                digest=body.digest,
                conversation=conversation,
                absent=absent,
                is_redacted=bool(body.spans),
            )
        )

    def _take_response(self, response: Response, event: Event) -> None:
        raw, absent = self._load(response.body)
        answer = self._read_answer(raw, response.conversation) if raw else None
        is_error = response.status is not None and response.status >= _FIRST_ERROR
        if answer is None or is_error or not _says_something(answer):
            answer = WireAnswer(model=None, texts=(raw.decode(errors="replace"),))
        reasoning = "\n".join(answer.reasoning)
        calls = [self._build_call(call, event.seq, place) for place, call in enumerate(answer.calls)]
        self.steps.append(
            Step(
                speaker="agent",
                text="\n".join(answer.texts),
                seq=event.seq,
                at_us=event.t,
                digest=response.body.digest,
                conversation=response.conversation,
                model=response.model,
                reasoning=reasoning or None,
                calls=calls,
                usage=response.usage,
                cost_usd=response.cost_usd,
                wall_us=response.wall_us,
                stop_reason=response.stop_reason,
                absent=absent,
                is_redacted=bool(response.body.spans),
            )
        )

    def _read_answer(self, raw: bytes, conversation: str) -> WireAnswer | None:
        dialect = self._dialects.get(conversation) or next(iter(self._dialects.values()), None)
        if dialect is None:
            return None
        reader = AnswerReader(
            WireRequest(
                dialect=dialect,
                model="",
                is_streamed=False,
                messages=(),
                envelope=b"{}",
                tools={},
                calls=(),
                results=(),
                max_output_tokens=None,
            )
        )
        reader.feed(raw)
        return reader.finish()

    def _build_call(self, call: ToolCall, seq: int, place: int) -> Call:
        built = Call(
            id=call.id or f"event-{seq}-{place}", name=call.name, arguments=_read_arguments(call.arguments)
        )
        self._calls[built.id] = built
        return built

    def _take_use(self, use: ToolInvocation, event: Event) -> None:
        if use.source == "transcript":
            self._others["tool-invocation (as the agent's own transcript tells it)"] += 1
            return
        result = self._read_result(use)
        asked = None if use.call_id is None else self._calls.get(use.call_id)
        if asked is not None:
            asked.result, asked.seq = result, event.seq
            return
        arguments, absent = self._load(use.arguments)
        shown = {"argv": list(use.command.argv)} if use.command else _read_arguments(arguments)
        call = Call(
            id=use.call_id or f"event-{event.seq}",
            name=use.tool,
            arguments=shown,
            result=result,
            seq=event.seq,
        )
        self.steps.append(
            Step(
                speaker="agent",
                text="",
                seq=event.seq,
                at_us=event.t,
                digest=use.arguments.digest,
                calls=[call],
                wall_us=use.wall_us,
                absent=absent,
                is_redacted=bool(use.arguments.spans),
            )
        )

    def _read_result(self, use: ToolInvocation) -> str | None:
        if use.result is not None:
            raw, absent = self._load(use.result)
            return None if absent else raw.decode(errors="replace")
        if use.stdout is None:
            return None
        return use.stdout.load(self._blobs).data.decode(errors="replace")

    def _load(self, body: Body) -> tuple[bytes, str | None]:
        try:
            return body.load(self._blobs), None
        except EvidenceError as error:
            return b"", error.message


def _says_something(answer: WireAnswer) -> bool:
    """Bytes that the wire format does not explain are shown as they are."""
    return bool(answer.texts or answer.reasoning or answer.calls or answer.is_complete)


def _find_dialects(paths: RunPaths) -> dict[str, Dialect]:
    """Which wire format each conversation has; it is on record behind the first answer."""
    found: dict[str, Dialect] = {}
    for event in iter_events(paths.trace, allow_torn_tail=True):
        if isinstance(event.payload, AgentConfiguration) and event.payload.wire in get_args(Dialect):
            found.setdefault(event.payload.conversation, cast("Dialect", event.payload.wire))
    return found


def _read_arguments(raw: bytes) -> dict[str, Any]:
    """An object, as formats want it; anything else stands under one name."""
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, RecursionError):
        return {"text": raw.decode(errors="replace")}
    return value if isinstance(value, dict) else {"value": value}
