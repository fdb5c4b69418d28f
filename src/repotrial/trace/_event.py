"""The event envelope (P13): who, what, when, and the hash that chains it; and its JSON Schema."""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias, cast

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER, Count
from repotrial._core.schema import DIALECT, build_schema_parts
from repotrial.trace._payloads import Payload, iter_payload_types
from repotrial.trace._payloads.common import EventPayload
from repotrial.trace._payloads.course import TRACE_SCHEMA

Actor: TypeAlias = Literal["agent", "harness", "monitor", "operator"]
"""Who caused an event."""

ACTORS: tuple[Actor, ...] = ("agent", "harness", "monitor", "operator")

EventHash = Annotated[
    str, msgspec.Meta(pattern=r"^[0-9a-f]{64}(?!\n)$", description="64 lowercase hex digits")
]
"""The protocol's own word for the chained digest of an event; written without an algorithm in front."""


class EventRef(msgspec.Struct, frozen=True, gc=False):
    """What the writer answers: how to point at the event just recorded."""

    seq: Count
    """Position in the trace, from 0."""
    t: Count
    """Microseconds since the epoch, strictly increasing."""
    hash: EventHash
    """The event's place in the chain."""


class TraceHead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of a trace in two values: a seal that holds them holds every event."""

    count: Count
    """How many events."""
    hash: EventHash
    """Hash of the last one."""


class _Line(msgspec.Struct, frozen=True, kw_only=True):
    actor: Actor
    """Who caused it."""
    hash: EventHash
    """Chained digest."""
    seq: Count
    """Position in the trace, from 0."""
    t: Count
    """Microseconds since the epoch."""
    type: str
    """Which payload it is."""


class EventEnvelope(_Line, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One line, its payload still as bytes."""

    payload: msgspec.Raw
    """The payload's JSON, not looked into."""


class UnknownPayload(msgspec.Struct, frozen=True, kw_only=True):
    """The payload of an event type that this release does not know: kept, counted, not understood."""

    data: bytes
    """Its JSON, as written."""


class Event(_Line, frozen=True, kw_only=True):
    """One line, its payload typed."""

    payload: Payload | UnknownPayload
    """What happened."""


def build_event(ref: EventRef, tree: dict[str, Any], kind: type[EventPayload], actor: Actor) -> Event:
    """An event that was just written, as a reader will see it."""
    payload = cast("Payload", msgspec.convert(tree, kind))
    return Event(actor=actor, hash=ref.hash, payload=payload, seq=ref.seq, t=ref.t, type=kind.event_type)


def build_trace_schema() -> dict[str, Any]:
    """One line of `trace.jsonl`: exactly one of the event types, told apart by `type`."""
    rows = list(iter_payload_types())
    references, components = build_schema_parts([row.payload for row in rows])
    return {
        "$schema": DIALECT,
        "$id": f"urn:repotrial:schema:{TRACE_SCHEMA.removeprefix('repotrial/')}",
        "title": "One event of a RepoTrial trace",
        "oneOf": [
            _build_envelope(row.name, row.summary, reference)
            for row, reference in zip(rows, references, strict=True)
        ],
        "$defs": components,
    }


def _build_envelope(name: str, summary: str, payload: dict[str, Any]) -> dict[str, Any]:
    count = {"type": "integer", "minimum": 0, "maximum": MAX_SAFE_INTEGER}
    members = {
        "actor": {"enum": list(ACTORS), "description": "who caused it"},
        "hash": {"type": "string", "pattern": "^[0-9a-f]{64}$", "description": "chained sha256 of the event"},
        "payload": payload,
        "seq": {**count, "description": "position in the trace, from 0"},
        "t": {**count, "description": "microseconds since the epoch, strictly increasing"},
        "type": {"const": name},
    }
    return {
        "type": "object",
        "title": name,
        "description": summary,
        "properties": members,
        "required": sorted(members),
        "additionalProperties": False,
    }
