"""Published JSON Schemas of the documents, one for each version (R1)."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from repotrial._core.schema import DIALECT, build_document_schema, build_schema_parts, rewrite_schema
from repotrial.retrieval._documents import EventsDocument
from repotrial.retrieval._metrics import (
    ErrorTaxonomy,
    FileMetrics,
    LineOverlap,
    NotMeasured,
    NotMeasuredTaxonomy,
    UtilizationProbes,
)
from repotrial.retrieval._truth._contracts import RetrievalTruth

ADDED_IN_1_1: Final[dict[str, frozenset[str]]] = {
    "Coverage": frozenset({"skipped_entries"}),
    "RetrievalEvent": frozenset({"call_id", "line_ranges"}),
    "ChunkFigures": frozenset({"line_overlap"}),
    "ErrorTaxonomy": frozenset({"files"}),
    "TaskMetrics": frozenset({"ranking"}),
}
"""Fields that a document of version 1.0 does not have, by the part that they belong to."""

_AS_FOUND: Final = "As its event document has it."
_ONLY_IN_1_1: Final = frozenset({"LineRange", "LineOverlap"})


class ChunkFigures(msgspec.Struct, frozen=True, kw_only=True):
    """Stage 2: chunks (R11)."""

    resolution: Literal["chunk_level", "file_level_only"]
    """Whether lines that matter are known."""
    chunk_recall: float | None
    """Share of chunks whose file was met; lines are not looked at."""
    chunks_total: int
    """How many chunks there are."""
    chunks_hit: int
    """How many of their files were met."""
    validity: Literal["file_match_only", "unsupported"]
    """What the figure is worth."""


def build_retrieval_schemas() -> dict[str, dict[str, Any]]:
    """Every schema by its name."""
    schemas = {}
    for version in ("1.0", "1.1"):
        events = build_document_schema(
            EventsDocument, f"retrieval-events@{version}", title=f"Retrieval events, version {version}"
        )
        schemas[f"retrieval-events-{version}"] = _fix_version(events, version)
        schemas[f"retrieval-metrics-{version}"] = _fix_version(_build_metrics(version), version)
    schemas["retrieval"] = build_document_schema(RetrievalTruth, "retrieval@1", title="retrieval.toml")
    return schemas


def _build_metrics(version: str) -> dict[str, Any]:
    """The artefact of one task; its parts are one of two shapes each, which types alone cannot say."""
    models: list[type[msgspec.Struct]] = [
        FileMetrics,
        NotMeasured,
        ChunkFigures,
        LineOverlap,
        UtilizationProbes,
        ErrorTaxonomy,
        NotMeasuredTaxonomy,
    ]
    _, definitions = build_schema_parts(models)
    definitions["ChunkFigures"]["properties"]["line_overlap"] = _either(
        "LineOverlap", "NotMeasured", words="Since 1.1: the same with lines."
    )
    properties: dict[str, Any] = {
        "schema_version": {"type": "string"},
        "generated_at": {"type": "string", "description": "When it was written: ISO 8601, UTC."},
        "provenance": {"type": "object", "description": _AS_FOUND},
        "coverage": {"type": "object", "description": _AS_FOUND},
        "event_summary": {"type": "object", "description": _AS_FOUND},
        "ranking": {
            "enum": ["reads", "reference"],
            "description": "Since 1.1: by which rule files were ranked.",
        },
        "file_level_metrics": _either("FileMetrics", "NotMeasured", words="Stage 1: files."),
        "chunk_level_metrics": _either("ChunkFigures", words="Stage 2: lines."),
        "utilization_probes": _either("UtilizationProbes", words="Stage 3: use."),
        "error_taxonomy": _either("ErrorTaxonomy", "NotMeasuredTaxonomy", words="Stage 4: errors."),
    }
    definitions["TaskMetrics"] = {
        "title": "TaskMetrics",
        "description": "What is stated about one task in one configuration.",
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name != "ranking"],
    }
    return {
        "$schema": DIALECT,
        "$id": f"urn:repotrial:schema:retrieval-metrics@{version}",
        "title": f"Retrieval metrics, version {version}",
        "$ref": "#/$defs/TaskMetrics",
        "$defs": dict(sorted(definitions.items())),
    }


def _either(*names: str, words: str) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/$defs/{name}"} for name in names], "description": words}


def _fix_version(schema: dict[str, Any], version: str) -> dict[str, Any]:
    """One version exactly: no field of a later one, and no other field either."""
    fixed: dict[str, Any] = rewrite_schema(schema, _close)
    definitions = fixed["$defs"]
    if version == "1.0":
        for name in _ONLY_IN_1_1 & definitions.keys():
            del definitions[name]
        for name, fields in ADDED_IN_1_1.items():
            for field in fields if name in definitions else ():
                definitions[name]["properties"].pop(field, None)
    for document in ("EventsDocument", "TaskMetrics"):
        if document in definitions:
            definitions[document]["properties"]["schema_version"] = {
                "const": version,
                "description": "Version of this form; the part before the dot is the major one.",
            }
    return fixed


def _close(part: dict[str, Any]) -> dict[str, Any]:
    is_part = part.get("type") == "object" and "properties" in part
    return {**part, "additionalProperties": False} if is_part else part
