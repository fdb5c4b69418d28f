"""The words of the gateway: requests and answers in one form for every dialect, and the ports around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from repotrial.cost import TokenUsage
from repotrial.trace import RawMessage

_MEBIBYTE: Final = 1024 * 1024


class GatewayLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much, how many, how long. Never part of a document."""

    line_bytes: int = 8190
    """Of the request line, and of one header line."""
    header_lines: int = 128
    """Of one request."""
    request_bytes: int = 64 * _MEBIBYTE
    """Of one request's body: a long conversation with images."""
    request_messages: int = 20_000
    """In one request: each is looked at, put on record and referred to by itself."""
    held_bytes: int = 256 * _MEBIBYTE
    """Of all requests together that are under way; requests beyond it wait."""
    answer_bytes: int = 64 * _MEBIBYTE
    """Of one answer: it is recorded whole."""
    connections: int = 128
    """At the same time; what comes beyond is closed unread."""
    idle_seconds: float = 120.0
    """Without a whole request head: longer than clients keep a connection to use it again."""
    body_seconds: float = 120.0
    """From a request's head to the end of its body."""
    lingering_seconds: float = 2.0
    """For reading the rest of a refused body, so that its sender can read why."""
    closing_seconds: float = 10.0
    """That the end of a run waits for exchanges to be closed."""


Dialect: TypeAlias = Literal["openai-chat", "openai-responses", "anthropic-messages", "gemini"]
"""A wire format."""


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """The model wants a tool to be used."""

    id: str | None
    """The call's id in the conversation; None if the dialect has none."""
    name: str
    """The tool, as the agent declared it."""
    arguments: bytes
    """A JSON text; exactly as on the wire where the dialect carries it as text."""


class ToolResult(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent says came of a call."""

    call_id: str | None
    """The call that it answers."""
    name: str | None = None
    """The tool, where the dialect repeats it."""
    content: bytes
    """What was handed back to the model, as text."""
    is_error: bool | None = None
    """Whether the agent marked it as failed; None if the dialect cannot say."""


class HostedUse(msgspec.Struct, frozen=True, kw_only=True):
    """Something that the provider would do or fetch by itself for a request."""

    feature: str
    """A hosted tool's name without its date, or: `address` (fetched by its address), `account` (a file or an
    earlier answer of the account), `deferred` (answered later)."""
    place: str
    """Where it stands in the body."""


class WireRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request to a model."""

    dialect: Dialect
    model: str
    """The model that is asked for."""
    is_streamed: bool
    messages: tuple[RawMessage, ...]
    """All of them, system texts first; each with its exact bytes as it stands in the body."""
    envelope: bytes
    """The request around the messages, as JSON: parameters and tool definitions."""
    tools: Mapping[str, bytes]
    """Tools that the agent offers: name to the JSON schema of the arguments, nested groups flattened."""
    calls: tuple[ToolCall, ...]
    """Calls that the history holds, in order."""
    results: tuple[ToolResult, ...]
    """Results that the history holds, in order."""
    max_output_tokens: int | None
    """The request's own bound, for all its answers together; None if it has none."""
    answers: int = 1
    """How many it asks for (`n`, `candidateCount`)."""
    is_count_only: bool = False
    """Whether it only asks how many tokens it would take."""
    hosted: tuple[HostedUse, ...] = ()
    """What reaches out on the provider's side (P9)."""
    stripped: tuple[HostedUse, ...] = ()
    """The same, of what was taken out before the request was read."""


class WireAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A model's answer, complete or as far as it got."""

    model: str | None
    """The model that says it answered."""
    role: str = "assistant"
    texts: tuple[str, ...] = ()
    """What it says."""
    reasoning: tuple[str, ...] = ()
    """What it shows of its thinking."""
    calls: tuple[ToolCall, ...] = ()
    """Tools that it wants used."""
    hosted: tuple[ToolCall, ...] = ()
    """Tools that the provider used by itself, and what it says came of them."""
    unread: tuple[str, ...] = ()
    """Shapes of the answer that are not known here: the agent may see a call in them."""
    stop_reason: str | None = None
    """In the provider's word."""
    usage: TokenUsage | None = None
    """What it says it consumed; None if it does not say."""
    is_complete: bool = True
    """Whether the end of the answer was seen."""


RefusalKind: TypeAlias = Literal[
    "budget",
    "policy",
    "key",
    "malformed",
    "unknown-path",
    "unknown-model",
    "ended",
    "upstream",
    "diverged",
]
"""Why the gateway answers itself; `upstream`: the upstream could not answer (502, try again);
`diverged`: a replay that is asked what was never recorded (409)."""


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """The gateway's own answer in place of a model's."""

    status: int
    """402 for budgets (never 429: agents would try again), 403 for policy, 401, 400, 404."""
    kind: RefusalKind
    message: str
    """For the agent's log."""


class HttpAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that is whole at once."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class UpstreamRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What an upstream is asked; the body is the agent's own, byte for byte."""

    method: str
    target: str
    """Path and query, as the agent sent them, without its key."""
    headers: Mapping[str, str]
    """End-to-end headers, lower-case, without credentials."""
    body: bytes
    parsed: WireRequest


class UpstreamAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """An answer that comes in pieces."""

    status: int
    headers: Mapping[str, str]
    chunks: AsyncIterator[bytes]


class Upstream(Protocol):
    """Answers requests: a provider, a script, a recording."""

    @property
    def description(self) -> str:
        """For the manifest; never a key."""
        ...

    async def send(self, request: UpstreamRequest) -> UpstreamAnswer:
        """Ask; the answer begins when its status is known."""
        ...

    async def close(self) -> None: ...


EndCause: TypeAlias = Literal["complete", "cut", "refused", "upstream-failed", "agent-left"]
"""`cut`: the harness ended the stream; `agent-left`: the agent closed the connection."""


class ExchangeEnd(msgspec.Struct, frozen=True, kw_only=True):
    """How an exchange ended."""

    status: int
    """What the agent saw."""
    answer: WireAnswer | None
    """What was understood of the answer; None if there was none, or nothing of it could be read."""
    body: bytes
    """The answer's exact bytes, as far as they came from upstream."""
    wall_us: int
    cause: EndCause
    detail: str = ""
    is_sent: bool = True
    """Whether the request went out: then it may be charged, whatever came back."""


class Exchange(Protocol):
    """One admitted request. Called on the gateway's loop: what takes long is awaited."""

    def count(self, usage: TokenUsage, sent_bytes: int) -> Refusal | None:
        """Called as a stream goes on; a refusal cuts it."""
        ...

    async def release(self, end: ExchangeEnd) -> Refusal | None:
        """The answer is whole, its tool calls are not yet forwarded; a refusal keeps them back."""
        ...

    async def close(self, end: ExchangeEnd) -> None:
        """Always, exactly once."""
        ...


class ExchangeSupervisor(Protocol):
    """What a run makes of its agent's exchanges."""

    async def open(self, request: WireRequest, body: bytes) -> Exchange | Refusal:
        """Admit a request or answer it ourselves; either way it is recorded."""
        ...

    async def refuse(self, refusal: Refusal, *, method: str, target: str, body: bytes) -> None:
        """Record a request that never became one: wrong key, unknown path, malformed body."""
        ...
