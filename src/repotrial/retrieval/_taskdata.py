"""Metrics documents as comparisons take them, whoever wrote them."""

from __future__ import annotations

from typing import Any

import msgspec

from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.retrieval._metrics import FileMetrics, NotMeasured
from repotrial.retrieval._reading import RankingRule

RETRIEVAL_METRICS_DOCUMENT = ErrorCode(
    "retrieval-metrics-document",
    EvidenceError,
    "A metrics document is not one.",
    hint="evaluate the run again; `repotrial retrieval validate` names what is wrong",
)


class TaskFigures(msgspec.Struct, frozen=True, kw_only=True):
    """What a metrics document says, as far as figures over many tasks need it."""

    provenance: dict[str, Any]
    """As the document has it."""
    coverage: dict[str, Any]
    """As the document has it."""
    ranking: RankingRule | None
    """By which rule files were ranked; null where the document does not say."""
    files: FileMetrics | NotMeasured
    """Stage 1, or why there are no figures."""
    probes: dict[str, float]
    """Stage 3, those that apply."""
    labels: dict[str, int]
    """Stage 4; empty without figures."""
    slices: dict[str, Any]
    """Stage 4; empty without figures."""


def read_metrics(data: bytes) -> TaskFigures:
    """Read a metrics document of major version 1, ours or the reference's.

    Raises:
        RETRIEVAL_METRICS_DOCUMENT: it is none, or of another major version.
    """
    try:
        value = msgspec.json.decode(data)
        if not isinstance(value, dict):
            raise RETRIEVAL_METRICS_DOCUMENT.error(f"expected a JSON object, found {type(value).__name__}")
        version = value.get("schema_version", "1.0")
        if not (isinstance(version, str) and version.partition(".")[0] == "1"):
            raise RETRIEVAL_METRICS_DOCUMENT.error(f"schema_version: expected 1.x, found {version!r}")
        files = value.get("file_level_metrics")
        is_measured = isinstance(files, dict) and files.get("computable") is True
        taxonomy = _dict(value.get("error_taxonomy"))
        return TaskFigures(
            provenance=_dict(value.get("provenance")),
            coverage=_dict(value.get("coverage")),
            ranking=_read_rule(value.get("ranking")),
            files=msgspec.convert(files, FileMetrics) if is_measured else msgspec.convert(files, NotMeasured),
            probes={
                name: float(number)
                for name, number in _dict(value.get("utilization_probes")).items()
                if name.startswith("util_") and isinstance(number, int | float)
            },
            labels=msgspec.convert(taxonomy.get("labels", {}), dict[str, int]),
            slices=_dict(taxonomy.get("slices")),
        )
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise RETRIEVAL_METRICS_DOCUMENT.error(f"expected a metrics document, found: {error}") from error


def _read_rule(value: object) -> RankingRule | None:
    match value:
        case "reads" | "reference" as rule:
            return rule
        case _:
            return None


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
