"""Several records of one run in one: the trajectory for its calls, transcripts for times and subagents (R4).

Records are joined by the ids of calls; where there are none in common, by name and arguments in order. A call
that only one record has is kept where it stands, so that a subagent's calls come up again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.retrieval._documents import TraceSource
from repotrial.retrieval._extract import TracedCall
from repotrial.transcripts import Arguments, ImportedTranscript, ToolOutput, load_transcript


class MergedTrace(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of a run, in order."""

    calls: tuple[TracedCall, ...] = ()
    first_at_us: int | None = None
    """The first time that any record has."""
    directory: str | None = None
    """Where the agent began to work."""
    model: str | None = None
    skipped: dict[str, int] = {}
    """What could not be read, by reason."""


class _Call(msgspec.Struct, kw_only=True):
    """A call in the making."""

    name: str
    arguments: Arguments
    call_id: str | None
    outputs: list[ToolOutput]
    is_error: bool
    is_subagent: bool
    timestamp: str | None
    at_us: int | None
    message: tuple[int, str | None]
    spent: int | None
    """Tokens of its record up to here."""
    own: int
    """Tokens of its message alone."""
    is_recovered: bool = False
    """Whether the first record does not have it."""


def merge_traces(traces: Sequence[ImportedTranscript]) -> MergedTrace:
    """Join records of the same run; the first one's order and words stand."""
    merged: list[_Call] = []
    for number, trace in enumerate(traces):
        calls = list(_iter_calls(trace, number))
        merged = _join(merged, calls) if number else calls
    moments = [item.at_us for trace in traces for item in trace.messages]
    moments += [call.started_at_us for trace in traces for call in trace.calls]
    skipped: Counter[str] = Counter()
    for trace in traces:
        skipped.update({entry.reason: entry.count for entry in trace.skipped})
    return MergedTrace(
        calls=tuple(_finish(merged)),
        first_at_us=min((moment for moment in moments if moment is not None), default=None),
        directory=next((trace.directory for trace in traces if trace.directory), None),
        model=next((trace.model for trace in traces if trace.model), None),
        skipped=dict(sorted(skipped.items())),
    )


def _iter_calls(trace: ImportedTranscript, number: int) -> Iterator[_Call]:
    totals, costs = _sum_tokens(trace)
    spent: int | None = None
    for call in trace.calls:
        if call.message_id in totals:
            spent = totals[call.message_id]
        yield _Call(
            name=call.name,
            arguments=call.arguments,
            call_id=call.call_id,
            outputs=[] if call.output is None else [call.output],
            is_error=call.is_error is True,
            is_subagent=call.is_subagent,
            timestamp=call.timestamp,
            at_us=call.started_at_us,
            message=(number, call.message_id),
            spent=spent,
            own=costs.get(call.message_id or "", 0),
        )


def _sum_tokens(trace: ImportedTranscript) -> tuple[dict[str | None, int | None], dict[str, int]]:
    """The running total at each message, and what each cost; caches are part of the input, once."""
    total: int | None = 0
    totals: dict[str | None, int | None] = {}
    costs: dict[str, int] = {}
    for each in trace.usage:
        shown = each.usage.request_input_tokens
        if shown is None or total is None:
            total = None  # from here on the sum is not known
        else:
            costs[each.message_id] = shown + (each.usage.output_tokens or 0)
            total += costs[each.message_id]
        totals[each.message_id] = total
    return totals, costs


def _join(base: list[_Call], others: list[_Call]) -> list[_Call]:
    partners = _match(base, others)
    after: dict[int, list[_Call]] = {}
    place = -1
    for index, other in enumerate(others):
        partner = partners.get(index)
        if partner is None:
            other.is_recovered = True
            after.setdefault(place, []).append(other)
        else:
            _complete(base[partner], other)
            place = max(place, partner)
    joined = after.get(-1, [])
    for index, call in enumerate(base):
        joined += [call, *after.get(index, [])]
    return joined


def _match(base: list[_Call], others: list[_Call]) -> dict[int, int]:
    """Which call of the other record is which one of the first."""
    by_id: dict[str, deque[int]] = {}
    for index, call in enumerate(base):
        if call.call_id:
            by_id.setdefault(call.call_id, deque()).append(index)
    partners: dict[int, int] = {}
    for index, other in enumerate(others):
        queue = by_id.get(other.call_id) if other.call_id else None
        if queue:
            partners[index] = queue.popleft()
    has_common_ids = bool(partners)
    free: dict[tuple[str, bytes, bool], deque[int]] = {}
    taken = set(partners.values())
    for index, call in enumerate(base):
        if index not in taken and not (has_common_ids and call.call_id):
            free.setdefault(_identify(call), deque()).append(index)
    for index, other in enumerate(others):
        if index in partners or (has_common_ids and other.call_id):
            continue
        queue = free.get(_identify(other))
        if queue:
            partners[index] = queue.popleft()
    return partners


def _identify(call: _Call) -> tuple[str, bytes, bool]:
    try:
        return call.name, msgspec.json.encode(call.arguments, order="sorted"), call.is_subagent
    except RecursionError:
        return call.name, b"", call.is_subagent


def _complete(call: _Call, other: _Call) -> None:
    """What the first record leaves open, the other one says; times are the transcript's."""
    if isinstance(call.arguments, str) and isinstance(other.arguments, dict):
        call.arguments = other.arguments
    call.outputs = sorted([*call.outputs, *other.outputs], key=lambda output: output.is_trimmed)
    call.is_error = call.is_error or other.is_error
    call.is_subagent = call.is_subagent or other.is_subagent
    if other.at_us is not None:
        call.timestamp, call.at_us = other.timestamp, other.at_us
    if call.spent is None:
        call.spent, call.own, call.message = other.spent, other.own, other.message


def _finish(calls: Sequence[_Call]) -> Iterator[TracedCall]:
    has_usage = any(call.spent is not None for call in calls if not call.is_recovered)
    base: int | None = None
    recovered = 0
    seen: set[tuple[int, str | None]] = set()
    for call in calls:
        if not (call.is_recovered and has_usage):
            base = call.spent
        elif call.message not in seen:  # its tokens are not in the first record's sum
            recovered += call.own
        seen.add(call.message)
        yield TracedCall(
            name=call.name,
            arguments=call.arguments,
            call_id=call.call_id,
            outputs=tuple(dict.fromkeys(output.text for output in call.outputs)),
            is_error=call.is_error,
            is_subagent=call.is_subagent,
            timestamp=call.timestamp,
            at_us=call.at_us,
            tokens=None if base is None else base + recovered,
        )


TRANSCRIPT_NAMES: Final = (
    "claude-code.txt",
    "codex-code.txt",
    "cursor-code.txt",
    "gemini-code.txt",
    "copilot-code.txt",
    "openhands-code.txt",
    "openhands.txt",
    "transcript.jsonl",
    "transcript.txt",
    "agent_trace.jsonl",
    "codex.txt",
    "cursor-cli.txt",
    "gemini-cli.txt",
    "copilot-cli.txt",
    "copilot-cli.jsonl",
    "qwen-code.txt",
    "goose.txt",
    "opencode.txt",
    "mini-swe-agent.trajectory.json",
    "swe-agent.trajectory.json",
    "pi.txt",
    "cline.txt",
    "vibe.txt",
    "aider.txt",
)
"""Names under which harnesses keep what an agent printed; the first that holds calls is taken."""

_FOLDERS: Final = ("agent", ".", "agent_output")
_SESSIONS: Final = (
    "agent/sessions/projects/*/*.jsonl",
    "agent/sessions/*/*/*/*.jsonl",
    "agent/sessions/*.jsonl",
)
_MOST_SESSIONS: Final = 200


class TrialTraces(msgspec.Struct, frozen=True, kw_only=True):
    """What there was to read, and what came of it."""

    merged: MergedTrace
    has_trajectory: bool
    """Found and readable."""
    has_transcript: bool
    """Found and readable."""
    source: TraceSource | None
    """What the calls come from."""
    files: tuple[str, ...]
    """Every file that was looked at, relative to the trial."""
    skipped: dict[str, int]
    """Entries and files that could not be read, by reason."""


def load_traces(trial: Path) -> TrialTraces:
    """Read whatever a trial has; nothing in it can make this fail."""
    skipped: Counter[str] = Counter()
    files: list[str] = []
    trajectory = _load(trial, "agent/trajectory.json", files, skipped)
    if trajectory is not None and not trajectory.entries:
        trajectory = None  # a file, but no steps
        skipped["unreadable-trajectory"] += 1
    transcript = _load_transcript(trial, files, skipped)
    sessions = [
        session
        for name in _find_sessions(trial)
        if (session := _load(trial, name, files, skipped)) is not None and session.calls
    ]
    transcripts = [] if transcript is None else [transcript]
    records = [*([] if trajectory is None else [trajectory]), *transcripts, *sessions]
    merged = merge_traces(records)
    skipped.update(merged.skipped)
    has_calls = {
        "trajectory": trajectory is not None and bool(trajectory.calls),
        "transcript": any(record.calls for record in (*transcripts, *sessions)),
    }
    source: TraceSource | None = None
    if has_calls["trajectory"]:
        source = "merged" if has_calls["transcript"] else "trajectory"
    elif has_calls["transcript"]:
        source = "transcript"
    return TrialTraces(
        merged=merged,
        has_trajectory=trajectory is not None,
        has_transcript=bool(transcripts or sessions),
        source=source,
        files=tuple(files),
        skipped=dict(sorted(skipped.items())),
    )


def _load_transcript(trial: Path, files: list[str], skipped: Counter[str]) -> ImportedTranscript | None:
    """The first that holds calls, else the first that can be read."""
    first: ImportedTranscript | None = None
    for folder in _FOLDERS:
        there = _list_names(trial / folder)
        for name in (name for name in TRANSCRIPT_NAMES if name in there):
            path = name if folder == "." else f"{folder}/{name}"
            found = _load(trial, path, files, skipped)
            if found is not None and found.calls:
                return found
            if first is None and found is not None and found.entries and found.messages:
                first = found
    return first


def _list_names(directory: Path) -> frozenset[str]:
    try:
        return frozenset(path.name for path in directory.iterdir())
    except OSError:
        return frozenset()


def _find_sessions(trial: Path) -> list[str]:
    found = {path for pattern in _SESSIONS for path in trial.glob(pattern) if path.is_file()}
    return [path.relative_to(trial).as_posix() for path in sorted(found)[:_MOST_SESSIONS]]


def _load(trial: Path, name: str, files: list[str], skipped: Counter[str]) -> ImportedTranscript | None:
    path = trial / name
    if not path.is_file():
        return None
    files.append(name)
    try:
        return load_transcript(path)
    except (RepoTrialError, OSError, RecursionError):
        skipped["unreadable-file"] += 1
        return None
