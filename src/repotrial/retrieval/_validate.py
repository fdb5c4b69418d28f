"""Documents held against their schemas: events and metrics of major version 1 (R1)."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec
from msgspec import inspect as mi

from repotrial._core.errors import EvidenceError
from repotrial._core.schema import strip_metadata
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
from repotrial.retrieval._schemas import ADDED_IN_1_1, ChunkFigures

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
        problems = ("schema_version: expected a version, found none",)
        return DocumentCheck(path=str(path), kind="unknown", schema_version=None, problems=problems)
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
