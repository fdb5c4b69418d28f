"""The stages of the evaluation: from an event document to the metrics of its task (R10-R13). Pure."""

from __future__ import annotations

import math
import posixpath
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from repotrial.retrieval._metrics import (
    ChunkMetrics,
    ErrorTaxonomy,
    FileMetrics,
    LineOverlap,
    NotMeasured,
    NotMeasuredTaxonomy,
    Slices,
    TaskMetrics,
    UtilizationProbes,
)
from repotrial.retrieval._reading import ReadDocument, ReadEvent

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


CUTOFFS: Final = (1, 3, 5, 10)
"""Depths at which measures with a cutoff are stated."""
PORTION: Final = 256
"""Lists that are measured at once: enough for speed, few enough to hold their documents."""

_DEEPEST: Final = max(CUTOFFS)
_GAINS: Final = tuple(1 / math.log2(rank + 1) for rank in range(1, _DEEPEST + 1))


def measure_lists(
    lists: Iterable[tuple[Sequence[str], Collection[str]]],
) -> dict[str, npt.NDArray[np.float64]]:
    """Every measure of every list, by name (`precision@5`), in the order given.

    Args:
        lists: Files in the order in which they were met, without repeats, and the files that matter: a set,
            or anything else without repeats; never empty.
    """
    import numpy as np

    marks, lengths, counts = [], [], []
    for retrieved, relevant in lists:
        marks.append(bytes(map(frozenset(relevant).__contains__, retrieved)))
        lengths.append(len(retrieved))
        counts.append(len(relevant))
    retrieved_counts = np.array(lengths, dtype=np.intp)
    relevant_counts = np.array(counts, dtype=np.intp)
    # Only hits matter: for each its list, its rank, and its number within its list.
    places = np.flatnonzero(np.frombuffer(b"".join(marks), dtype=np.uint8))
    ends = np.cumsum(retrieved_counts)
    owners = np.searchsorted(ends, places, side="right")
    ranks = places - (ends - retrieved_counts)[owners] + 1
    total = len(lengths)
    hits = np.bincount(owners, minlength=total)
    firsts = np.cumsum(hits) - hits
    numbers = np.arange(len(places)) - firsts[owners] + 1
    found: dict[str, npt.NDArray[np.float64]] = {}
    gains = np.array(_GAINS)[np.minimum(ranks, _DEEPEST) - 1]
    ideal = np.cumsum(_GAINS)
    for cutoff in CUTOFFS:
        near = ranks <= cutoff
        within = np.bincount(owners[near], minlength=total)
        precision, recall = within / cutoff, within / relevant_counts
        both = precision + recall
        found[f"precision@{cutoff}"] = precision
        found[f"recall@{cutoff}"] = recall
        found[f"f1@{cutoff}"] = 2 * precision * recall / np.where(both > 0, both, 1.0)
        gained = np.bincount(owners[near], weights=gains[near], minlength=total)
        found[f"ndcg@{cutoff}"] = gained / ideal[np.minimum(relevant_counts, cutoff) - 1]
    is_first = numbers == 1
    reciprocal = np.zeros(total)
    reciprocal[owners[is_first]] = 1 / ranks[is_first]
    found["mrr"] = reciprocal
    found["map_score"] = np.bincount(owners, weights=numbers / ranks, minlength=total) / relevant_counts
    found["file_recall"] = hits / relevant_counts
    found["context_efficiency"] = hits / np.maximum(retrieved_counts, 1)
    return found


NO_GROUND_TRUTH: Final = "no_ground_truth"
_PLACES: Final = 4
_SMALL: Final = 5
_MEDIUM: Final = 20
_READING: Final = ("file_read", "code_search", "file_search")
"""What counts as having looked at a file before it was written."""


def measure_tasks(
    documents: Sequence[ReadDocument], *, generated_at: str, is_extended: bool = True
) -> Iterator[TaskMetrics]:
    """All stages for some tasks, in their order.

    Args:
        documents: What was sought and met in each.
        generated_at: For the artefacts.
        is_extended: Whether fields that 1.1 added are written.
    """
    measured = [document for document in documents if _find_gap(document) is None]
    figures = measure_lists((document.retrieved, document.relevant) for document in measured)
    values = {name: column.tolist() for name, column in figures.items()}
    rows = ({name: column[place] for name, column in values.items()} for place in range(len(measured)))
    for document in documents:
        gap = _find_gap(document)
        files = _build_files(document, next(rows)) if gap is None else NotMeasured(reason=gap)
        yield _build_metrics(document, files, gap, generated_at=generated_at, is_extended=is_extended)


def _build_metrics(
    document: ReadDocument,
    files: FileMetrics | NotMeasured,
    gap: str | None,
    *,
    generated_at: str,
    is_extended: bool,
) -> TaskMetrics:
    return TaskMetrics(
        schema_version="1.1" if is_extended else "1.0",
        generated_at=generated_at,
        provenance=document.provenance,
        coverage=document.coverage,
        event_summary=document.summary,
        ranking=document.rule if is_extended else msgspec.UNSET,
        file_level_metrics=files,
        chunk_level_metrics=_measure_chunks(document, gap, is_extended=is_extended),
        utilization_probes=_probe(document, gap),
        error_taxonomy=(
            _sort_errors(document, is_extended=is_extended)
            if gap is None
            else NotMeasuredTaxonomy(reason=gap)
        ),
    )


def round_share(value: float) -> float:
    """As documents state it."""
    return round(value, _PLACES)


def _find_gap(document: ReadDocument) -> str | None:
    if not document.has_ground_truth:
        return NO_GROUND_TRUTH
    # R9: nothing was seen of the run, so nothing is known about what it found; zeroes would mislead.
    reason = document.degraded_reason
    return None if reason is None else f"degraded: {reason}"


def _build_files(document: ReadDocument, figures: dict[str, float]) -> FileMetrics:
    first = _find_first_hit(document)
    event = None if first is None else next((e for e in document.events if e.step_index == first), None)
    return FileMetrics(
        precision=_by_cutoff("precision", figures),
        recall=_by_cutoff("recall", figures),
        f1=_by_cutoff("f1", figures),
        mrr=round_share(figures["mrr"]),
        ndcg=_by_cutoff("ndcg", figures),
        map_score=round_share(figures["map_score"]),
        file_recall=round_share(figures["file_recall"]),
        context_efficiency=round_share(figures["context_efficiency"]),
        n_retrieved=len(document.retrieved),
        n_ground_truth=len(document.relevant),
        n_overlap=sum(path in document.relevant for path in document.retrieved),
        first_gt_hit_step=first,
        ttfr_seconds=None if event is None else event.elapsed_seconds,
        ttfr_tokens=None if event is None else event.cumulative_tokens,
    )


def _by_cutoff(name: str, figures: dict[str, float]) -> dict[str, float]:
    return {str(cutoff): round_share(figures[f"{name}@{cutoff}"]) for cutoff in CUTOFFS}


def _find_first_hit(document: ReadDocument) -> int | None:
    if document.rule == "reference":
        step = document.summary.get("first_ground_truth_hit_step")
        return step if isinstance(step, int) else None
    for event in document.events:
        if event.category != "file_write" and not document.relevant.isdisjoint(event.paths):
            return event.step_index
    return None


def _measure_chunks(document: ReadDocument, gap: str | None, *, is_extended: bool) -> ChunkMetrics:
    if not document.coverage.get("has_chunk_ground_truth") or not document.chunks:
        return ChunkMetrics(
            resolution="file_level_only",
            chunk_recall=None,
            chunks_total=0,
            chunks_hit=0,
            validity="unsupported",
        )
    met = {path for event in _iter_looks(document) for path in event.paths}
    hit = sum(1 for path, _, _ in document.chunks if path in met)
    is_known = gap is None or gap == NO_GROUND_TRUTH
    return ChunkMetrics(
        resolution="chunk_level",
        chunk_recall=round_share(hit / len(document.chunks)) if is_known else None,
        chunks_total=len(document.chunks),
        chunks_hit=hit,
        validity="file_match_only",
        line_overlap=_measure_lines(document) if is_extended else msgspec.UNSET,
    )


def _iter_looks(document: ReadDocument) -> Iterator[ReadEvent]:
    for event in document.events:
        if document.rule == "reference" or event.category != "file_write":
            yield event


def _measure_lines(document: ReadDocument) -> LineOverlap | NotMeasured:
    shown: dict[str, set[int]] = {}
    wanted = [(path, range(first, last + 1)) for path, first, last in document.chunks]
    for event in _iter_looks(document):
        for path, first, last in event.ranges:
            lines = (
                line for chunk, span in wanted if chunk == path for line in span if first <= line <= last
            )
            shown.setdefault(path, set()).update(lines)
    if not shown:
        return NotMeasured(reason="no_line_ranges")
    seen = [sum(1 for line in span if line in shown.get(path, ())) for path, span in wanted]
    return LineOverlap(
        chunks_seen=sum(1 for count in seen if count),
        chunk_recall=round_share(sum(1 for count in seen if count) / len(wanted)),
        line_recall=round_share(sum(seen) / sum(len(span) for _, span in wanted)),
    )


def _probe(document: ReadDocument, gap: str | None) -> UtilizationProbes:
    relevant, expected = document.relevant, document.expected_edits
    edits_reason = None if expected else "no_expected_edit_files"
    if gap is not None:
        # The flags tell what ground truth allows; a run of which nothing was seen has null figures (R9, R12).
        is_blind = gap != NO_GROUND_TRUTH
        return UtilizationProbes(
            probe_available=is_blind,
            reason=gap,
            expected_edit_probe_available=is_blind and bool(expected),
            expected_edit_probe_reason=edits_reason if is_blind else gap,
        )
    read = set(document.iter_paths("file_read"))
    written = set(document.iter_paths("file_write"))
    proxy = _share(written & relevant, relevant) if written else None
    return UtilizationProbes(
        probe_available=True,
        reason=None,
        util_read_overlap_with_relevant_files=_share(read & relevant, relevant),
        # R9: without a write there is no overlap of writes, not an overlap of nothing.
        util_write_overlap_with_relevant_files_proxy=proxy,
        util_referenced_file_correctness=proxy,
        util_write_overlap_with_expected_edit_files=(
            _share(written & expected, expected) if expected and written else None
        ),
        util_read_before_write_ratio=_measure_order(document, written),
        expected_edit_probe_available=bool(expected),
        expected_edit_probe_reason=edits_reason,
        files_read=len(read),
        files_read_relevant=len(read & relevant),
        files_written=len(written),
        files_written_relevant=len(written & relevant),
        files_written_expected_edit=len(written & expected),
    )


def _share(part: Iterable[str], whole: Iterable[str]) -> float:
    return round_share(len(set(part)) / len(set(whole)))


def _measure_order(document: ReadDocument, written: set[str]) -> float | None:
    if not written:
        return None
    first_read = _find_first_steps(document, _READING)
    first_write = _find_first_steps(document, ("file_write",))
    before = sum(1 for path in written if first_read.get(path, first_write[path]) < first_write[path])
    return round_share(before / len(written))


def _find_first_steps(document: ReadDocument, categories: tuple[str, ...]) -> dict[str, int]:
    steps: dict[str, int] = {}
    for event in document.events:
        if event.category in categories:
            for path in event.paths:
                steps[path] = min(event.step_index, steps.get(path, event.step_index))
    return steps


def _sort_errors(document: ReadDocument, *, is_extended: bool) -> ErrorTaxonomy:
    relevant = document.relevant
    retrieved = {path for event in _iter_looks(document) for path in event.paths}
    if document.rule != "reference":
        retrieved.discard("")
    written = set(document.iter_paths("file_write"))
    near = {posixpath.dirname(path) for path in relevant} - {""}
    irrelevant = retrieved - relevant
    found = {
        "irrelevant_retrieval": irrelevant,
        "missed_key_evidence": relevant - retrieved,
        "wrong_evidence_used": written - relevant,
        "unused_correct_retrieval": (retrieved & relevant) - written,
        "ambiguity_near_miss": {path for path in irrelevant if posixpath.dirname(path) in near},
    }
    return ErrorTaxonomy(
        labels={label: len(paths) for label, paths in found.items()},
        slices=_slice(document, len(retrieved)),
        files={label: tuple(sorted(paths)) for label, paths in found.items()}
        if is_extended
        else msgspec.UNSET,
    )


def _slice(document: ReadDocument, candidates: int) -> Slices:
    counts = Counter(event.category for event in document.events)
    size: Literal["small", "medium", "large"] = "large"
    if candidates <= _MEDIUM:
        size = "small" if candidates <= _SMALL else "medium"
    return Slices(
        candidate_set_size=size,
        candidate_set_count=candidates,
        dominant_retrieval_category=counts.most_common(1)[0][0] if counts else "none",
        evidence_type="mcp" if any(event.is_mcp for event in document.events) else "local",
    )
