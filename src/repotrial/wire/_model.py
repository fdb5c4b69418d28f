"""Requests and answers in one form for every dialect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

from repotrial.cost import TokenUsage
from repotrial.trace import RawMessage

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
