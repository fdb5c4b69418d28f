"""What was said to a model and what it answered."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import ClassVar, Literal

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial.trace._body import Body
from repotrial.trace._payloads.common import DecimalText, EventPayload, EventSeq, Name

_MESSAGES_TAG = b"repotrial/messages@1\0"


class Message(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One message of a conversation."""

    role: Name
    """Who speaks, in the provider's word: `system`, `user`, `assistant`, `tool`."""
    body: Body
    """The exact bytes of the message as sent."""


class RepeatedPrefix(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The messages that an earlier prompt of this trace holds already."""

    prompt: EventSeq
    """The earlier prompt."""
    messages: Count
    """How many messages of that prompt, from its first, are repeated."""
    digest: Digest
    """Digest over those messages (see `digest_messages`)."""


class Prompt(EventPayload, frozen=True, kw_only=True):
    """A request to a model; messages that an earlier prompt holds are named, not repeated (P14)."""

    event_type: ClassVar[str] = "prompt"

    model: Name
    """The model that was asked for."""
    conversation: Name
    """Which conversation: the main one or a subagent's."""
    index: Count
    """Number of this request within its conversation, from 0."""
    request: Body
    """The request around the messages: parameters, tool definitions."""
    repeats: RepeatedPrefix | None = None
    """Where the first messages stand; null when all of them stand here."""
    messages: tuple[Message, ...]
    """The messages that follow the repeated ones."""


class Usage(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Metered tokens of one response; null is unknown and never zero (P21)."""

    input_uncached_tokens: Count | None = None
    """Input that no cache served."""
    cache_read_tokens: Count | None = None
    """Input served from a cache."""
    cache_write_5m_tokens: Count | None = None
    """Input written to a cache for five minutes."""
    cache_write_1h_tokens: Count | None = None
    """Input written to a cache for an hour."""
    output_tokens: Count | None = None
    """Output, reasoning included."""
    reasoning_tokens: Count | None = None
    """The part of the output that was reasoning."""
    request_input_tokens: Count | None = None
    """All input of the request: price tiers depend on it."""
    basis: Literal["reported", "estimated"] | None = None
    """Whether the provider said so or the harness estimated it; null where nothing is known."""


class Response(EventPayload, frozen=True, kw_only=True):
    """A model's answer (P14)."""

    event_type: ClassVar[str] = "response"

    prompt: EventSeq | None
    """The prompt it answers; null where the byte budget dropped that prompt."""
    model: Name
    """The model that says it answered."""
    role: Name
    """Who speaks, in the provider's word."""
    conversation: Name
    """Which conversation."""
    index: Count
    """Number of the request that it answers."""
    body: Body
    """The exact bytes of the answer."""
    stop_reason: str | None = None
    """Why the model stopped, in the provider's word; null where it did not say."""
    status: Count | None = None
    """The wire's status code; null where there is no wire."""
    wall_us: Count | None = None
    """From request sent to answer complete; null for imported conversations."""
    usage: Usage = msgspec.field(default_factory=Usage)
    """What it consumed."""
    cost_usd: DecimalText | None = None
    """What it cost by the run's price book; null where that is not known."""


class AgentTranscript(EventPayload, frozen=True, kw_only=True):
    """What an agent wrote about its own work: kept as it is, and not believed (P14)."""

    event_type: ClassVar[str] = "agent-transcript"

    path: Name
    """The file in the agent's home; `stdout` for what it printed."""
    format: Name | None
    """The importer that reads it; null where there is none."""
    body: Body
    """All of it."""


def digest_messages(messages: Iterable[Message]) -> Digest:
    """Digest over a list of messages: a chain of sha256 over each role and original body digest."""
    state = hashlib.sha256(_MESSAGES_TAG).digest()
    for message in messages:
        role = message.role.encode("utf-8", "surrogatepass")
        length = len(role).to_bytes(8, "big")
        state = hashlib.sha256(state + length + role + message.body.digest.encode()).digest()
    return "sha256:" + state.hex()
