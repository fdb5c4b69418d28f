"""From what was read of a trial to its document (R1-R9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec

from repotrial.retrieval._contract_truth import Truth
from repotrial.retrieval._documents import (
    Coverage,
    EventsDocument,
    EventsSummary,
    GroundTruth,
    LineRange,
    Provenance,
    RetrievalEvent,
)
from repotrial.retrieval._extract import Extractor, Retrieved, TracedCall
from repotrial.retrieval._merge import TrialTraces
from repotrial.retrieval._places import PlaceNames, build_names, normalize_path
from repotrial.retrieval._tools import RetrievalTools

_QUARTER_US: Final = 15 * 60 * 1_000_000
_NO_FILES: Final = "No trajectory.json or claude-code.txt found"
_NO_EVENTS: Final = "Trace files exist but no retrieval events could be extracted"


class TrialInput(msgspec.Struct, frozen=True, kw_only=True):
    """All that a document is made from."""

    provenance: Provenance
    traces: TrialTraces
    truth: Truth
    agent_started_at: str | None
    """As `result.json` says it."""


class BuiltDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A document, and how it came about."""

    document: EventsDocument
    calls_seen: int
    calls_tracked: int
    """Those that made an event."""
    calls_mined: int
    """Those whose files come from a shell command."""
    calls_by_tool: dict[str, int]
    """Calls that made no event, by the tool's name."""


class _Step(msgspec.Struct, frozen=True):
    index: int
    call: TracedCall
    found: Retrieved


def build_document(
    trial: TrialInput,
    tools: RetrievalTools,
    *,
    generated_at: str,
    roots: Iterable[str] = (),
    is_extended: bool = True,
) -> BuiltDocument:
    """Build the document of one trial.

    Args:
        trial: What was read.
        tools: Which tools retrieve.
        generated_at: For the document: time in ISO 8601, UTC.
        roots: Directories in which the repository lies, beside what the trace says.
        is_extended: Whether fields that 1.1 added are written.
    """
    merged = trial.traces.merged
    claim = trial.truth.claim
    names = build_names(roots=(*roots, merged.directory), truth=() if claim is None else claim.files)
    extractor = Extractor(tools, names, merged.directory)
    steps: list[_Step] = []
    untracked: Counter[str] = Counter()
    for index, call in enumerate(merged.calls):
        found = extractor.extract(call)
        steps += [_Step(index, call, each) for each in found]
        if not found:
            untracked[call.name] += 1
    wanted = frozenset(normalize_path(file) for file in (() if claim is None else claim.files))
    start_us = _find_start(merged.first_at_us, trial.agent_started_at)
    events = tuple(
        _build_event(step, tools, names, wanted, start_us, is_extended=is_extended) for step in steps
    )
    return BuiltDocument(
        document=EventsDocument(
            schema_version="1.1" if is_extended else "1.0",
            generated_at=generated_at,
            provenance=trial.provenance,
            coverage=_build_coverage(trial, has_events=_has_retrieved(events), is_extended=is_extended),
            ground_truth=_build_truth(trial.truth),
            events=events,
            summary=_summarize(events, wanted),
        ),
        calls_seen=len(merged.calls),
        calls_tracked=len({step.index for step in steps}),
        calls_mined=len({step.index for step in steps if step.found.is_mined}),
        calls_by_tool=dict(sorted(untracked.items())),
    )


def _build_event(
    step: _Step,
    tools: RetrievalTools,
    names: PlaceNames,
    wanted: frozenset[str],
    start_us: int | None,
    *,
    is_extended: bool,
) -> RetrievalEvent:
    call, found = step.call, step.found
    named = [(name, place) for place in found.places if (name := names.name(place))]
    files = tuple(dict.fromkeys(name for name, _ in named))
    matched = tuple(file for file in files if file in wanted)
    ranges = tuple(
        dict.fromkeys(
            LineRange(file=name, line_start=place.first, line_end=place.last)
            for name, place in named
            if place.first is not None and place.last is not None and 1 <= place.first <= place.last
        )
    )
    elapsed = None if call.at_us is None or start_us is None else round((call.at_us - start_us) / 1e6, 1)
    return RetrievalEvent(
        step_index=step.index,
        timestamp=call.timestamp,
        tool_name=call.name,
        tool_category=found.category,
        target_files=files,
        is_mcp=tools.is_mcp(call.name),
        arguments=tools.keep(found.category, call.arguments) if isinstance(call.arguments, dict) else {},
        target_symbols=found.symbols,
        hits_ground_truth=bool(matched),
        matched_ground_truth_files=matched,
        is_subagent=call.is_subagent,
        cumulative_tokens=call.tokens,
        elapsed_seconds=elapsed,
        call_id=call.call_id if is_extended else msgspec.UNSET,
        line_ranges=ranges if is_extended and ranges else msgspec.UNSET,
    )


def _find_start(first_us: int | None, stated: str | None) -> int | None:
    """When the agent began: as the trial says, where that fits the trace; else the trace's first time.

    Harnesses write local times without a zone, traces write UTC. Zones differ by quarters of an hour.
    """
    if first_us is None or stated is None:
        return first_us
    try:
        moment = datetime.fromisoformat(stated)
        if moment.tzinfo is not None:
            start_us = round(moment.timestamp() * 1e6)
        else:
            local_us = round((moment - datetime(1970, 1, 1)).total_seconds() * 1e6)  # noqa: DTZ001 - no zone is known
            start_us = local_us + round((first_us - local_us) / _QUARTER_US) * _QUARTER_US
    except (ValueError, OverflowError):
        return first_us
    return min(start_us, first_us)


def _build_coverage(trial: TrialInput, *, has_events: bool, is_extended: bool) -> Coverage:
    traces, claim = trial.traces, trial.truth.claim
    unseen = _NO_EVENTS if traces.files else _NO_FILES
    reason = _describe_gaps(traces.skipped) if has_events else unseen
    return Coverage(
        has_trajectory=traces.has_trajectory,
        has_transcript=traces.has_transcript,
        has_ground_truth=claim is not None,
        trace_source=traces.source,
        degraded_reason=reason,
        has_chunk_ground_truth=bool(trial.truth.chunks),
        ground_truth_source=None if claim is None else claim.source,
        ground_truth_confidence=None if claim is None else claim.confidence,
        skipped_entries=traces.skipped if is_extended and traces.skipped else msgspec.UNSET,
    )


def _describe_gaps(skipped: dict[str, int]) -> str | None:
    """Why the events are incomplete (R3); None if all of the trace was read."""
    if not skipped:
        return None
    parts = ", ".join(f"{reason} {count}" for reason, count in sorted(skipped.items()))
    return f"Events are incomplete: parts of the trace could not be read ({parts})"


def _has_retrieved(events: Iterable[RetrievalEvent]) -> bool:
    """Whether anything was seen to be looked at: a shell or a subagent may have done it out of sight (R9)."""
    return any(event.tool_category != "other" or event.target_files for event in events)


def _build_truth(truth: Truth) -> GroundTruth:
    editing = truth.editing
    return GroundTruth(
        files=() if truth.claim is None else truth.claim.files,
        symbols=truth.symbols or msgspec.UNSET,
        chunks=truth.chunks or msgspec.UNSET,
        expected_edit_files=msgspec.UNSET if editing is None else editing.edits,
        expected_edit_files_source=msgspec.UNSET if editing is None else editing.source,
        expected_edit_files_confidence=msgspec.UNSET if editing is None else editing.confidence,
    )


def _summarize(events: tuple[RetrievalEvent, ...], wanted: frozenset[str]) -> EventsSummary:
    mcp = sum(1 for event in events if event.is_mcp)
    met = set(_iter_files(events))
    return EventsSummary(
        total_events=len(events),
        mcp_events=mcp,
        local_events=len(events) - mcp,
        unique_files_accessed=len(met),
        ground_truth_files_hit=len(met & wanted),
        ground_truth_files_total=len(wanted),
        first_ground_truth_hit_step=next((e.step_index for e in events if e.hits_ground_truth), None),
        events_by_category=dict(Counter(event.tool_category for event in events)),
    )


def _iter_files(events: Iterable[RetrievalEvent]) -> Iterator[str]:
    for event in events:
        yield from event.target_files
