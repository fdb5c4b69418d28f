"""Event documents as the metric stages take them: of any writer, with any field left out (R1, R9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, Final, Literal, TypeAlias

import msgspec

from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial.retrieval._places import normalize_as_reference, normalize_path

RankingRule: TypeAlias = Literal["reads", "reference"]
"""`reads`: what was written is not retrieved; `reference`: as the reference implementation ranks."""

_MAJOR: Final = re.compile(r"^1(\.[0-9]+)?$")


RETRIEVAL_VERSION = ErrorCode(
    "retrieval-version",
    EvidenceError,
    "An event document is of a major version that this release does not know.",
    hint="use a release of repotrial that knows it, or normalize the run again",
)
RETRIEVAL_DOCUMENT = ErrorCode(
    "retrieval-document",
    EvidenceError,
    "An event document is not one.",
    hint="normalize the run again; `repotrial retrieval validate` names what is wrong",
)


class ReadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """What the stages need of an event."""

    step_index: int
    category: str
    files: tuple[str, ...]
    """As stored; some may be empty."""
    paths: tuple[str, ...]
    """Comparable forms of `files`."""
    is_mcp: bool
    elapsed_seconds: float | int | None
    cumulative_tokens: int | None
    ranges: tuple[tuple[str, int, int], ...]
    """Comparable path, first and last line; empty where the trace has none."""


class ReadDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document, its parts as far as they are there."""

    provenance: dict[str, Any]
    coverage: dict[str, Any]
    summary: dict[str, Any]
    events: tuple[ReadEvent, ...]
    relevant: frozenset[str]
    """Comparable paths of the files that matter."""
    expected_edits: frozenset[str]
    chunks: tuple[tuple[str, int, int], ...]
    """Comparable path, first and last line."""
    rule: RankingRule

    @property
    def has_ground_truth(self) -> bool:
        return bool(self.coverage.get("has_ground_truth")) and bool(self.relevant)

    @property
    def degraded_reason(self) -> str | None:
        """Why there is nothing to measure although it is known what matters (R9)."""
        reason = self.coverage.get("degraded_reason")
        is_blind = all(event.category == "other" for event in self.events)
        return reason if isinstance(reason, str) and is_blind else None

    @property
    def retrieved(self) -> tuple[str, ...]:
        """Files in the order in which they were first met."""
        return tuple(dict.fromkeys(path for path in self._iter_retrieved() if path))

    def iter_paths(self, *categories: str) -> Iterator[str]:
        """Files of events of these categories; empty ones included, as stored."""
        for event in self.events:
            if event.category in categories:
                yield from event.paths

    def _iter_retrieved(self) -> Iterator[str]:
        for event in self.events:
            if self.rule == "reference" or event.category != "file_write":
                yield from event.paths


def read_document(data: bytes, *, rule: RankingRule) -> ReadDocument:
    """Read an event document of major version 1; parts that are missing or of the wrong kind count as absent.

    Raises:
        RETRIEVAL_VERSION: it is of another major version.
        RETRIEVAL_DOCUMENT: it is no JSON object.
    """
    try:
        value = msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RETRIEVAL_DOCUMENT.error(f"expected a JSON document, found: {error}") from error
    if not isinstance(value, dict):
        raise RETRIEVAL_DOCUMENT.error(f"expected a JSON object, found {type(value).__name__}")
    version = value.get("schema_version", "1.0")
    if not (isinstance(version, str) and _MAJOR.match(version)):
        raise RETRIEVAL_VERSION.error(f"schema_version: expected 1.x, found {version!r}")
    normalize = normalize_as_reference if rule == "reference" else normalize_path
    truth = _dict(value.get("ground_truth"))
    return ReadDocument(
        provenance=_dict(value.get("provenance")),
        coverage=_dict(value.get("coverage")),
        summary=_dict(value.get("summary")),
        events=tuple(_read_event(item, normalize) for item in _list(value.get("events")) if _dict(item)),
        relevant=frozenset(normalize(path) for path in _strings(truth.get("files"))),
        expected_edits=frozenset(
            normalize(path) for path in _strings(truth.get("expected_edit_files")) if path
        ),
        chunks=tuple(_read_range(item, normalize) for item in _list(truth.get("chunks")) if _dict(item)),
        rule=rule,
    )


def _read_event(item: dict[str, Any], normalize: Callable[[str], str]) -> ReadEvent:
    files = tuple(_strings(item.get("target_files")))
    category = item.get("tool_category")
    return ReadEvent(
        step_index=_int(item.get("step_index")) or 0,
        category=category if isinstance(category, str) else "other",
        files=files,
        paths=tuple(normalize(path) for path in files),
        is_mcp=item.get("is_mcp") is True,
        elapsed_seconds=_number(item.get("elapsed_seconds")),
        cumulative_tokens=_int(item.get("cumulative_tokens")),
        ranges=tuple(_read_range(part, normalize) for part in _list(item.get("line_ranges")) if _dict(part)),
    )


def _read_range(item: dict[str, Any], normalize: Callable[[str], str]) -> tuple[str, int, int]:
    file = item.get("file")
    first = _int(item.get("line_start")) or 1
    last = _int(item.get("line_end")) or first
    return (normalize(file) if isinstance(file, str) else "", first, max(first, last))


def _dict(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _strings(value: object) -> list[str]:
    return [item for item in _list(value) if isinstance(item, str)]


def _int(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _number(value: object) -> float | int | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None
