"""Documents held against their schemas: events and metrics of major version 1 (R1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import inspect as mi

from repotrial._core.errors import EvidenceError
from repotrial._core.schema import (
    DIALECT,
    build_document_schema,
    build_schema_parts,
    rewrite_schema,
    strip_metadata,
)
from repotrial.retrieval._contract_truth import RetrievalTruth
from repotrial.retrieval._documents import EventsDocument
from repotrial.retrieval._metrics import (
    ErrorTaxonomy,
    FileMetrics,
    LineOverlap,
    NotMeasured,
    NotMeasuredTaxonomy,
    UtilizationProbes,
)
from repotrial.retrieval._reading import read_document

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


DocumentKind: TypeAlias = Literal["events", "metrics", "unknown"]

_LARGEST: Final = 1024**3
_KNOWN_MINOR: Final = 1
_METRIC_KEYS: Final = frozenset(
    {
        "schema_version",
        "generated_at",
        "provenance",
        "coverage",
        "event_summary",
        "ranking",
        "file_level_metrics",
        "chunk_level_metrics",
        "utilization_probes",
        "error_taxonomy",
    }
)


class DocumentCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What is wrong with one document."""

    path: str
    kind: DocumentKind
    schema_version: str | None
    problems: tuple[str, ...]
    """Empty where it is well formed; the first of each part."""

    @property
    def holds(self) -> bool:
        return not self.problems


def check_document(path: Path) -> DocumentCheck:
    """Check one file; whatever it holds, the answer says what is wrong."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST)
        read_document(data, rule="reads")  # is it JSON, and of a major version that is known?
    except OSError as error:
        return DocumentCheck(
            path=str(path),
            kind="unknown",
            schema_version=None,
            problems=(f"expected a readable file, found: {error}",),
        )
    except EvidenceError as error:  # `retrieval-version`, `retrieval-document`
        return DocumentCheck(path=str(path), kind="unknown", schema_version=None, problems=(str(error),))
    value: dict[str, Any] = msgspec.json.decode(data)
    version = value.get("schema_version")
    if not isinstance(version, str):
        return DocumentCheck(
            path=str(path),
            kind="unknown",
            schema_version=None,
            problems=("schema_version: expected a version, found none",),
        )
    minor = int(version.partition(".")[2] or 0)
    kind: DocumentKind = "unknown"
    found: Iterator[str] = iter(["expected an events or a metrics document, found neither"])
    if "file_level_metrics" in value:
        kind, found = "metrics", _check_metrics(value, minor)
    elif "events" in value:
        kind, found = "events", _check_part(value, EventsDocument, "", minor)
    return DocumentCheck(path=str(path), kind=kind, schema_version=version, problems=tuple(found))


def _check_metrics(value: dict[str, Any], minor: int) -> Iterator[str]:
    for key in sorted(_METRIC_KEYS - {"ranking"} - set(value)):
        yield f"{key}: expected it, found nothing"
    known = _METRIC_KEYS if minor else _METRIC_KEYS - ADDED_IN_1_1["TaskMetrics"]
    if minor <= _KNOWN_MINOR:
        yield from (
            f"{key}: expected no such field in this version, found one" for key in sorted(set(value) - known)
        )
    yield from _check_either(
        value.get("file_level_metrics"), FileMetrics, NotMeasured, "file_level_metrics", minor
    )
    yield from _check_chunks(value.get("chunk_level_metrics"), minor)
    yield from _check_part(value.get("utilization_probes"), UtilizationProbes, "utilization_probes", minor)
    yield from _check_either(
        value.get("error_taxonomy"), ErrorTaxonomy, NotMeasuredTaxonomy, "error_taxonomy", minor
    )


def _check_chunks(value: Any, minor: int) -> Iterator[str]:
    """Lines are checked apart: one of two shapes has to be chosen."""
    where = "chunk_level_metrics"
    if isinstance(value, dict) and "line_overlap" in value and minor:
        lines = value["line_overlap"]
        is_gap = isinstance(lines, dict) and "computable" in lines
        yield from _check_part(lines, NotMeasured if is_gap else LineOverlap, f"{where}.line_overlap", minor)
        value = {key: item for key, item in value.items() if key != "line_overlap"}
    yield from _check_part(value, ChunkFigures, where, minor)


def _check_either(
    value: Any, measured: type[msgspec.Struct], gap: type[msgspec.Struct], where: str, minor: int
) -> Iterator[str]:
    is_gap = isinstance(value, dict) and value.get("computable") is False
    yield from _check_part(value, gap if is_gap else measured, where, minor)


def _check_part(value: Any, model: type[msgspec.Struct], where: str, minor: int) -> Iterator[str]:
    try:
        msgspec.convert(value, model)
    except msgspec.ValidationError as error:
        yield f"{where or 'document'}: {error}"
    if minor <= _KNOWN_MINOR:
        yield from _check_fields(value, _describe(model), where, minor)


@cache
def _describe(model: type[msgspec.Struct]) -> mi.Type:
    return mi.type_info(model)


def _check_fields(value: Any, info: mi.Type, where: str, minor: int) -> Iterator[str]:
    """Fields that the version does not have; a reader of that version would refuse them."""
    match strip_metadata(info):
        case mi.StructType(cls=cls, fields=fields) if isinstance(value, dict):
            names = {field.encode_name: field.type for field in fields}
            later = frozenset() if minor else ADDED_IN_1_1.get(cls.__name__, frozenset())
            for key, item in value.items():
                place = f"{where}.{key}" if where else key
                if key not in names or key in later:
                    yield f"{place}: expected no such field in this version, found one"
                else:
                    yield from _check_fields(item, names[key], place, minor)
        case mi.UnionType(types=types):
            for option in types:
                if isinstance(strip_metadata(option), mi.StructType | mi.VarTupleType):
                    yield from _check_fields(value, option, where, minor)
        case mi.VarTupleType(item_type=item_type) if isinstance(value, list):
            for number, item in enumerate(value):
                yield from _check_fields(item, item_type, f"{where}[{number}]", minor)
        case _:
            return
