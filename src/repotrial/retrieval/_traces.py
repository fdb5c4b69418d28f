"""The records that a trial left: which files they are, and what could be read of them (R3, R4)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.retrieval._documents import TraceSource
from repotrial.retrieval._merge import MergedTrace, merge_traces
from repotrial.transcripts import ImportedTranscript, load_transcript

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
