"""The normalized document of one task in one configuration (R1-R8): what was sought, and what was looked at.

Shapes and names are those of the published schema 1.0; 1.1 adds optional fields only. A document says of
every part whether it is there and why not (R3, R9).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

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

TruthConfidence: TypeAlias = Literal["high", "medium", "low"]
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
    """What is missing and why; null if nothing is."""
    has_chunk_ground_truth: bool = False
    """It is known which lines matter."""
    ground_truth_source: str | None = None
    """Which file said so."""
    ground_truth_confidence: TruthConfidence | None = None
    """How far it can be trusted."""
    skipped_entries: dict[str, int] | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: entries of the trace that could not be read, by reason."""


class Symbol(_Part, frozen=True, kw_only=True):
    """A symbol that matters."""

    file: str
    """Where it is defined, relative to the repository."""
    symbol: str
    """Its name."""
    repo: str | msgspec.UnsetType = msgspec.UNSET
    """Its repository, where several are meant."""


class Chunk(_Part, frozen=True, kw_only=True):
    """Lines that matter."""

    file: str
    """Relative to the repository."""
    line_start: Line
    """The first line, from 1."""
    line_end: Line
    """The last line, included."""
    annotation: str | msgspec.UnsetType = msgspec.UNSET
    """What is there to see, in the word of the source."""


class GroundTruth(_Part, frozen=True, kw_only=True):
    """What matters for the task (R5, R6)."""

    files: tuple[str, ...] = ()
    """As their source spells them."""
    symbols: tuple[Symbol, ...] | msgspec.UnsetType = msgspec.UNSET
    """Symbols that matter; absent where no source names any."""
    chunks: tuple[Chunk, ...] | msgspec.UnsetType = msgspec.UNSET
    """Lines that matter; absent where no source names any."""
    expected_edit_files: tuple[str, ...] | msgspec.UnsetType = msgspec.UNSET
    """Files that a right change edits; absent where no source says so."""
    expected_edit_files_source: str | msgspec.UnsetType = msgspec.UNSET
    """Which source says so."""
    expected_edit_files_confidence: TruthConfidence | msgspec.UnsetType = msgspec.UNSET
    """How far it can be trusted."""


class LineRange(_Part, frozen=True, kw_only=True):
    """Since 1.1: lines of a file that an event showed."""

    file: str
    """One of the event's files, normalized."""
    line_start: Line
    """The first line, from 1."""
    line_end: Line
    """The last line, included."""


class RetrievalEvent(_Part, frozen=True, kw_only=True):
    """One use of a tool (R7)."""

    step_index: Index
    """Number of the call among all calls of the run."""
    timestamp: str | None
    """When it was made; null if the trace does not say."""
    tool_name: str
    """In the agent's word."""
    tool_category: Category
    """What kind of tool it is."""
    target_files: tuple[str, ...]
    """Files that it named or returned, normalized, in order."""
    is_mcp: bool
    """Whether the tool belongs to a server outside the agent."""
    arguments: dict[str, Any] = {}
    """Those that say what was looked for."""
    target_symbols: tuple[str, ...] = ()
    """Symbols that it asked for."""
    hits_ground_truth: bool = False
    """Whether one of the files matters."""
    matched_ground_truth_files: tuple[str, ...] = ()
    """Those that matter, in order."""
    is_subagent: bool = False
    """Whether a subagent made the call."""
    cumulative_tokens: Index | None = None
    """Tokens of the run up to this call, each counted once; null if usage is not known."""
    elapsed_seconds: float | None = None
    """Since the agent began; null if times are not known."""
    call_id: str | msgspec.UnsetType | None = msgspec.UNSET
    """Since 1.1: the call's id in the trace."""
    line_ranges: tuple[LineRange, ...] | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: lines that were shown."""


class EventsSummary(_Part, frozen=True, kw_only=True):
    """Counts over the events (R8)."""

    total_events: Index
    """How many events there are."""
    mcp_events: Index
    """Those of servers outside the agent."""
    local_events: Index
    """All others."""
    unique_files_accessed: Index
    """Different files over all events."""
    ground_truth_files_hit: Index
    """Files that matter and were met."""
    ground_truth_files_total: Index
    """Files that matter."""
    first_ground_truth_hit_step: Index | None
    """Step of the first event that met one; null if none did."""
    events_by_category: dict[str, Index]
    """How many events each category has."""


class EventsDocument(_Part, frozen=True, kw_only=True):
    """`<task>.retrieval_events.json`."""

    schema_version: SchemaVersion
    """Version of this form; the part before the dot is the major one."""
    generated_at: str
    """When it was written: ISO 8601, UTC."""
    provenance: Provenance
    """Where it comes from."""
    coverage: Coverage
    """What there was to read."""
    ground_truth: GroundTruth
    """What matters for the task."""
    events: tuple[RetrievalEvent, ...]
    """What the agent looked for and met, in order."""
    summary: EventsSummary | None = None
    """Counts over the events; may be absent."""
