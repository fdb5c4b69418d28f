"""The words of the gateway: requests and answers in one form for every dialect, and the ports around it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from repotrial.cost import TokenUsage
from repotrial.wire import Refusal, WireAnswer, WireRequest

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
