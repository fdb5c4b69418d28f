"""The normalized document of one task in one configuration (R1-R8): what was sought, and what was looked at.

Shapes and names are those of the published schema 1.0; 1.1 adds optional fields only. A document says of
every part whether it is there and why not (R3, R9).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

__all__ = [
    "CATEGORIES",
    "Category",
    "Chunk",
    "Confidence",
    "Coverage",
    "EventsDocument",
    "EventsSummary",
    "GroundTruth",
    "LineRange",
    "Provenance",
    "RetrievalEvent",
    "Symbol",
    "TraceSource",
]

SchemaVersion = Annotated[str, msgspec.Meta(pattern=r"^1\.[0-9]+$(?!\n)")]
Category: TypeAlias = Literal[
    "file_read",
    "file_search",
    "symbol_navigation",
    "code_search",
    "commit_search",
    "deep_search",
    "file_write",
    "other",
]
"""What kind of tool was used (R7)."""

CATEGORIES: tuple[Category, ...] = (
    "file_read",
    "file_search",
    "symbol_navigation",
    "code_search",
    "commit_search",
    "deep_search",
    "file_write",
    "other",
)

Confidence: TypeAlias = Literal["high", "medium", "low"]
TraceSource: TypeAlias = Literal["trajectory", "transcript", "merged"]

Index = Annotated[int, msgspec.Meta(ge=0)]
Line = Annotated[int, msgspec.Meta(ge=1)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=False):
    """A part of a document; keys that a reader does not know are passed over (minor versions)."""


class Provenance(_Part, frozen=True, kw_only=True):
    """Where it comes from (R2)."""

    run_id: str
    """The run directory's name."""
    task_name: str
    """The task."""
    config_name: str
    """The configuration: which tools the agent had."""
    benchmark: str
    """The suite, `unknown` where nothing says it."""
    batch_timestamp: str | None = None
    """When the batch began, as its directory says."""
    trial_name: str | None = None
    """The trial's directory."""
    model: str | None = None
    """The model, as the trial's result says."""


class Coverage(_Part, frozen=True, kw_only=True):
    """What there was to read (R3)."""

    has_trajectory: bool
    """A trajectory was found and could be read."""
    has_transcript: bool
    """A transcript was found and could be read."""
    has_ground_truth: bool
    """It is known which files matter."""
    trace_source: TraceSource | None
    """What the events come from; null without a usable trace."""
    degraded_reason: str | None
    """What is missing and why; null where nothing is."""
    has_chunk_ground_truth: bool = False
    """It is known which lines matter."""
    ground_truth_source: str | None = None
    """Which file said so."""
    ground_truth_confidence: Confidence | None = None
    """How far it can be trusted."""
    skipped_entries: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: entries of the trace that could not be read, by reason."""


class Symbol(_Part, frozen=True, kw_only=True):
    """A symbol that matters."""

    file: str
    symbol: str
    repo: str | msgspec.UnsetType = msgspec.UNSET


class Chunk(_Part, frozen=True, kw_only=True):
    """Lines that matter."""

    file: str
    line_start: Line
    line_end: Line
    annotation: str | msgspec.UnsetType = msgspec.UNSET


class GroundTruth(_Part, frozen=True, kw_only=True):
    """What matters for the task (R5, R6)."""

    files: tuple[str, ...] = ()
    """As their source spells them."""
    symbols: tuple[Symbol, ...] | msgspec.UnsetType = msgspec.UNSET
    chunks: tuple[Chunk, ...] | msgspec.UnsetType = msgspec.UNSET
    expected_edit_files: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Files that a right change edits; absent where no source says so."""
    expected_edit_files_source: str | msgspec.UnsetType = msgspec.UNSET
    expected_edit_files_confidence: Confidence | msgspec.UnsetType = msgspec.UNSET


class LineRange(_Part, frozen=True, kw_only=True):
    """Since 1.1: lines of a file that an event showed."""

    file: str
    line_start: Line
    line_end: Line


class RetrievalEvent(_Part, frozen=True, kw_only=True):
    """One use of a tool (R7)."""

    step_index: Index
    """Number of the call among all calls of the run."""
    timestamp: str | None
    """When it was made; null where the trace does not say."""
    tool_name: str
    tool_category: Category
    target_files: tuple[str, ...]
    """Files that it named or returned, normalized, in order."""
    is_mcp: bool
    """Whether the tool belongs to a server outside the agent."""
    arguments: dict[str, Any] = {}
    """Those that say what was looked for."""
    target_symbols: tuple[str, ...] = ()
    hits_ground_truth: bool = False
    matched_ground_truth_files: tuple[str, ...] = ()
    is_subagent: bool = False
    cumulative_tokens: Index | None = None
    """Tokens of the run up to this call, each counted once; null where usage is not known."""
    elapsed_seconds: float | None = None
    """Since the agent began; null where times are not known."""
    call_id: str | msgspec.UnsetType | None = msgspec.UNSET
    """Since 1.1: the call's id in the trace."""
    line_ranges: tuple[LineRange, ...] | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: lines that were shown."""


class EventsSummary(_Part, frozen=True, kw_only=True):
    """Counts over the events (R8)."""

    total_events: Index
    mcp_events: Index
    local_events: Index
    unique_files_accessed: Index
    ground_truth_files_hit: Index
    ground_truth_files_total: Index
    first_ground_truth_hit_step: Index | None
    events_by_category: dict[str, Index]


class EventsDocument(_Part, frozen=True, kw_only=True):
    """`<task>.retrieval_events.json`."""

    schema_version: SchemaVersion
    generated_at: str
    provenance: Provenance
    coverage: Coverage
    ground_truth: GroundTruth
    events: tuple[RetrievalEvent, ...]
    summary: EventsSummary | None = None
