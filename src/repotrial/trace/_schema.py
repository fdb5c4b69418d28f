"""The JSON Schemas of a trace line and of the manifest, printed from the types."""

from __future__ import annotations

from typing import Any

from repotrial._core.canonical import MAX_SAFE_INTEGER
from repotrial._core.schema import DIALECT, build_document_schema, build_schema_parts
from repotrial.trace._event import ACTORS
from repotrial.trace._manifest import MANIFEST_SCHEMA, Manifest
from repotrial.trace._payloads import iter_payload_types
from repotrial.trace._payloads.lifecycle import TRACE_SCHEMA


def build_manifest_schema() -> dict[str, Any]:
    """The schema of `manifest.json`."""
    name = MANIFEST_SCHEMA.removeprefix("repotrial/")
    return build_document_schema(Manifest, name, title="manifest.json")


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
