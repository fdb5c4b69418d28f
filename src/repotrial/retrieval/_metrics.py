"""What is stated about one task: `<task>.retrieval_metrics.json` (R10-R13), in the published shape."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from repotrial.retrieval._reading import RankingRule

_MOST_NAMES: Final = 10


class LeftOutAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A run directory that does not count."""

    run: str
    """Its name."""
    config_name: str
    """The configuration; `unknown` where nothing says it."""
    task: str
    """The task; `unknown` where nothing says it."""
    reason: str
    """Why it does not count."""


FindLeftOut: TypeAlias = Callable[[Sequence[Path]], Mapping[Path, LeftOutAttempt]]
"""Of these directories those that do not count."""


def leave_none_out(_runs: Sequence[Path]) -> Mapping[Path, LeftOutAttempt]:
    """Whatever is there counts."""
    return {}


def describe_left_out(attempts: Iterable[LeftOutAttempt]) -> Iterator[str]:
    """A sentence for each reason: how many, why, and which."""
    by_reason: dict[str, list[str]] = {}
    for attempt in attempts:
        by_reason.setdefault(attempt.reason, []).append(attempt.run)
    for reason, names in sorted(by_reason.items()):
        more = len(names) - _MOST_NAMES
        shown = ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
        yield f"Attempts left out, as by repotrial run summary: {len(names)} {reason} ({shown})."


Share = Annotated[float, msgspec.Meta(ge=0, le=1)]
Number = Annotated[int, msgspec.Meta(ge=0)]
_ByCutoff: TypeAlias = dict[str, Share]


class _Part(msgspec.Struct, frozen=True, kw_only=True):
    pass


class NotMeasured(_Part, frozen=True, kw_only=True):
    """There is no figure, and why (R9)."""

    computable: Literal[False] = False
    reason: str
    """`no_ground_truth`, or `degraded: …`."""


class FileMetrics(_Part, frozen=True, kw_only=True):
    """Stage 1: the files that were met, against those that matter (R10)."""

    computable: Literal[True] = True
    precision: _ByCutoff
    """Hits among the first K, over K."""
    recall: _ByCutoff
    """Hits among the first K, over the files that matter."""
    f1: _ByCutoff
    """Harmonic mean of precision and recall at K."""
    mrr: Share
    """One over the rank of the first hit."""
    ndcg: _ByCutoff
    """Discounted gain of the first K, over the best possible."""
    map_score: Share
    """Mean of the precision at each hit, over the files that matter."""
    file_recall: Share
    """Files that matter and were met, over those that matter."""
    context_efficiency: Share
    """Files that matter and were met, over all that were met."""
    n_retrieved: Number
    """Files that were met."""
    n_ground_truth: Number
    """Files that matter."""
    n_overlap: Number
    """Files that are both."""
    first_gt_hit_step: Number | None
    """Step of the first event that met a file that matters."""
    ttfr_seconds: float | int | None
    """Time to the first relevant file; null without times."""
    ttfr_tokens: Number | None
    """Tokens up to it; null without usage."""


class LineOverlap(_Part, frozen=True, kw_only=True):
    """Since 1.1: whether the lines that matter were shown, not only their files."""

    chunks_seen: Number
    """Chunks of which at least one line was shown."""
    chunk_recall: Share
    """Their share of all chunks."""
    line_recall: Share
    """Share of the lines that matter which were shown."""


class ChunkMetrics(_Part, frozen=True, kw_only=True):
    """Stage 2: chunks (R11)."""

    resolution: Literal["chunk_level", "file_level_only"]
    chunk_recall: Share | None
    """Share of chunks whose file was met; lines are not looked at."""
    chunks_total: Number
    chunks_hit: Number
    validity: Literal["file_match_only", "unsupported"]
    line_overlap: LineOverlap | NotMeasured | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: the same with lines."""


class UtilizationProbes(_Part, frozen=True, kw_only=True):
    """Stage 3: was it used? (R12)."""

    probe_available: bool
    """Whether there is something to measure against."""
    reason: str | None
    """Why not; null if there is."""
    util_read_overlap_with_relevant_files: Share | None = None
    """Files that matter and were read, over those that matter."""
    util_write_overlap_with_relevant_files_proxy: Share | None = None
    """Files that matter and were written, over those that matter; null without a write."""
    util_referenced_file_correctness: Share | msgspec.UnsetType | None = msgspec.UNSET
    """Old name of the one before."""
    util_write_overlap_with_expected_edit_files: Share | None = None
    """Expected edits that were made, over all expected ones; null without either."""
    util_read_before_write_ratio: Share | None = None
    """Written files that were looked at before; null without a write."""
    expected_edit_probe_available: bool = False
    """Whether it is known which files a right change edits."""
    expected_edit_probe_reason: str | None = None
    """Why not; null if it is."""
    files_read: Number = 0
    """How many files were read."""
    files_read_relevant: Number = 0
    """Those of them that matter."""
    files_written: Number = 0
    """How many files were written."""
    files_written_relevant: Number = 0
    """Those of them that matter."""
    files_written_expected_edit: Number = 0
    """Those of them that a right change edits."""


class Slices(_Part, frozen=True, kw_only=True):
    """By what results can be split (R13)."""

    candidate_set_size: Literal["small", "medium", "large"]
    """Small up to 5 files, medium up to 20, else large."""
    candidate_set_count: Number
    """How many files were met."""
    dominant_retrieval_category: str
    """The category with the most events."""
    evidence_type: Literal["local", "mcp"]
    """Whether a server outside the agent was used."""


class ErrorTaxonomy(_Part, frozen=True, kw_only=True):
    """Stage 4: what went wrong, as counts and as the files behind them (R13)."""

    computable: Literal[True] = True
    labels: dict[str, Number]
    """How many files each label has."""
    slices: Slices
    """By what results can be split."""
    files: dict[str, tuple[str, ...]] | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: the files that each label counts, sorted."""


class NotMeasuredTaxonomy(_Part, frozen=True, kw_only=True):
    """No taxonomy, and why."""

    computable: Literal[False] = False
    reason: str
    """`no_ground_truth`, or `degraded: …`."""
    labels: dict[str, Number] = {}
    """None."""
    slices: dict[str, Any] = {}
    """None."""


class TaskMetrics(_Part, frozen=True, kw_only=True):
    """The whole artefact of one task in one configuration."""

    schema_version: str
    generated_at: str
    provenance: dict[str, Any]
    """As the event document has it."""
    coverage: dict[str, Any]
    """As the event document has it."""
    event_summary: dict[str, Any]
    """As the event document has it."""
    ranking: RankingRule | msgspec.UnsetType = msgspec.UNSET
    """Since 1.1: by which rule files were ranked."""
    file_level_metrics: FileMetrics | NotMeasured
    chunk_level_metrics: ChunkMetrics
    utilization_probes: UtilizationProbes
    error_taxonomy: ErrorTaxonomy | NotMeasuredTaxonomy
