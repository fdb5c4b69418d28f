"""How the agent is configured, as its own requests and their answers tell it (P2)."""

from __future__ import annotations

from typing import ClassVar

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.canonical import Count, DecimalText
from repotrial._core.digest import Digest
from repotrial.trace._payloads.common import EventPayload, EventSeq, Name


class SamplingParameter(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Something else that a request sets."""

    name: Name
    """As the request has it; members of members with a dot."""
    value: str
    """As JSON; by its digest where it is long."""


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A tool that the model could ask for."""

    name: Name
    """As the request declares it."""
    digest: Digest
    """Over its whole definition: description and schema."""


class SystemPrompt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A text that stands before the conversation."""

    role: Name
    """`system` or `developer`."""
    digest: Digest
    """Over the text, with dates, ids and temporary paths replaced by their names; the prompt event has the
    exact bytes."""


class AgentConfiguration(EventPayload, frozen=True, kw_only=True):
    """Configuration of the agent, bound at the first exchange of a conversation, and again where it changes.

    Facts come from the wire, not from what the agent or its adapter claims.
    """

    event_type: ClassVar[str] = "agent-configuration"

    conversation: Name
    """Which conversation is so configured, from here on."""
    prompt: EventSeq | None
    """The request that showed it; null if the byte budget dropped it."""
    response: EventSeq | None
    """Its answer; null if the byte budget dropped it."""
    wire: Name
    """The wire format."""
    model_asked: Name
    """The model that the request names."""
    model_answering: Name | Unknown
    """The model that the answer names."""
    temperature: DecimalText | Unknown
    """Sampling temperature."""
    effort: Name | Unknown
    """How much the model is to think, in the provider's word."""
    max_output_tokens: Count | Unknown
    """The request's bound on its answers."""
    context_tokens: Count | Unknown
    """The agent's bound on its requests, as its adapter sets it: no wire format carries it."""
    parameters: tuple[SamplingParameter, ...]
    """All that the request sets beside, by name."""
    tools: tuple[OfferedTool, ...]
    """Tools offered, in order; the first 500."""
    tool_count: Count
    """How many were offered."""
    prompts: tuple[SystemPrompt, ...]
    """System prompts, in order; the first 50."""


def describe_configuration(payload: AgentConfiguration) -> str:
    """In a line."""
    given = (
        ("temperature", payload.temperature),
        ("effort", payload.effort),
        ("output tokens", payload.max_output_tokens),
    )
    known = "".join(f", {name} {value}" for name, value in given if not isinstance(value, Unknown))
    answering = payload.model_answering
    model = payload.model_asked if isinstance(answering, Unknown) else f"{payload.model_asked} → {answering}"
    counted = f"{payload.tool_count} tool(s), {len(payload.prompts)} system prompt(s)"
    return f"{payload.conversation}: {model}{known}, {counted}"
