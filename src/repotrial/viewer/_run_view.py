"""A run as the viewer shows it: pages of events, of its conversation or of what a search found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.trace import (
    BlobStore,
    Body,
    Event,
    Prompt,
    Response,
    RunPaths,
    TimelineRow,
    ToolInvocation,
    describe_exit,
    read_said,
)
from repotrial.viewer._trace_index import TraceIndex

PAGE_EVENTS: Final = 100
_MOST_TURN_CHARACTERS: Final = 20_000
_MOST_DETAIL_CHARACTERS: Final = 200_000
_MOST_BODIES: Final = 200
_MOST_BODY_BYTES: Final = 32 * 1024**2
"""A body is verified as a whole before its beginning is shown."""
_MOST_MESSAGES: Final = 50
_FIRST_ERROR: Final = 400

CLASSES: Final[dict[str, tuple[str, ...]]] = {
    "conversation": ("briefing", "prompt", "response", "tool-invocation", "agent-transcript"),
    "files": ("workspace-mutation", "change-taken", "patch-application"),
    "programs": ("program-start", "program-end", "programs-folded", "witness-report", "harness-execution"),
    "checks": ("build-check", "static-check", "acceptance-execution", "draw-revealed"),
    "oversight": (
        "monitor-alert", "intervention", "operator-decision", "stage-transition", "monitor-report",
        "trace-truncated",
    ),
    "course": ("run-opened", "manifest-bound", "phase-changed", "agent-configuration", "termination"),
}  # fmt: skip
"""Which events readers ask for together."""


class Turn(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that was said or done."""

    seq: int
    role: str
    """Who speaks: a role of the provider's, the model, or a tool."""
    kind: str
    """message, answer, refusal, call or program."""
    text: str
    note: str = ""
    is_failed: bool = False
    left_out: int = 0
    """So many characters are not shown."""


class EventDetail(msgspec.Struct, frozen=True, kw_only=True):
    """One event, whole."""

    seq: int
    type: str
    text: str
    """Its payload, indented."""
    left_out: int
    turns: tuple[Turn, ...]
    """What was said in it, as text."""
    bodies: tuple[tuple[str, int], ...]
    """Digests and sizes of what is kept outside of the line."""


class EventPage(msgspec.Struct, frozen=True, kw_only=True):
    """What one page of a run shows."""

    rows: tuple[TimelineRow, ...]
    turns: tuple[Turn, ...]
    """Instead of rows, in the view of the conversation."""
    total: int
    """Events of the run."""
    listed: int | None
    """Events of the chosen class; None for a search, which does not count."""
    first: int
    """Where the page begins, in the list that is shown."""
    following: int | None
    """Where the next page begins; None at the end."""
    preceding: int | None
    problem: str = ""
    """Why nothing more could be read."""


def build_event_page(
    index: TraceIndex, run: Path, *, chosen: Sequence[str], first: int, text: str, is_conversation: bool
) -> EventPage:
    """One page; what cannot be read is said, and what came before it is shown."""
    try:
        total = index.refresh()
        listed, following, wanted = _choose(index, chosen, first, text, is_conversation=is_conversation)
        rows = [] if is_conversation else index.list_chosen(wanted)
        turns = list(_iter_turns(index, run, wanted)) if is_conversation else []
    except RepoTrialError as error:
        return EventPage(
            rows=(), turns=(), total=index.count, listed=None, first=first, following=None, preceding=None,
            problem=error.message.replace(f"{run}/", ""),
        )  # fmt: skip
    return EventPage(
        rows=tuple(rows),
        turns=tuple(turns),
        total=total,
        listed=listed,
        first=first,
        following=following,
        preceding=max(0, first - PAGE_EVENTS) if first and not text else None,
    )


def _choose(
    index: TraceIndex, chosen: Sequence[str], first: int, text: str, *, is_conversation: bool
) -> tuple[int | None, int | None, Sequence[int]]:
    """How many there are to list, where the next page begins, and the events of this one."""
    if text:
        found, following = index.find_text(text, first=first, most=PAGE_EVENTS)
        return None, following, found
    if is_conversation or chosen:
        names = ["conversation"] if is_conversation else chosen
        every = index.list_of({name for group in names for name in CLASSES.get(group, (group,))})
        end = first + PAGE_EVENTS
        return len(every), end if end < len(every) else None, every[first:end]
    end = first + PAGE_EVENTS
    return index.count, end if end < index.count else None, range(first, min(end, index.count))


def find_last_page(total: int) -> int:
    """Where the last page of a list begins."""
    return max(0, (total - 1) // PAGE_EVENTS * PAGE_EVENTS)


def _iter_turns(index: TraceIndex, run: Path, wanted: Sequence[int]) -> Iterator[Turn]:
    blobs = BlobStore(RunPaths(run).blobs)
    for seq in wanted:
        event = index.load_event(seq)
        if event is not None:
            yield from build_turns(event, blobs)


def build_turns(event: Event, blobs: BlobStore) -> Iterator[Turn]:
    """What was said or done in an event of a conversation; other events have none."""
    match event.payload:
        case Prompt(messages=messages, conversation=name):
            for message in messages[-_MOST_MESSAGES:]:
                yield _build_turn(event.seq, message.role, "message", _read(message.body, blobs), note=name)
        case Response() as answer:
            is_failed = (answer.status or 0) >= _FIRST_ERROR
            note = f"{answer.model}, {answer.conversation}" + (f", HTTP {answer.status}" if is_failed else "")
            kind = "refusal" if is_failed or answer.stop_reason == "refusal" else "answer"
            said = _read(answer.body, blobs)
            yield _build_turn(event.seq, answer.role, kind, said, note=note, is_failed=kind == "refusal")
        case ToolInvocation() as call:
            given = " ".join(call.command.argv) if call.command else _read(call.arguments, blobs)
            result = "" if call.result is None else _read(call.result, blobs)
            ended = describe_exit(call.exit)
            text = f"{given}\n\n{result}" if result else given
            # What the sandbox saw is a program that ran; a call is what a model asked for.
            kind = "program" if call.source == "sandbox" else "call"
            yield _build_turn(
                event.seq,
                call.tool,
                kind,
                text,
                note=ended,
                is_failed=ended not in {"exit 0", "exit unknown"},
            )
        case _:
            pass


def _build_turn(seq: int, role: str, kind: str, text: str, *, note: str, is_failed: bool = False) -> Turn:
    shown = text[:_MOST_TURN_CHARACTERS]
    return Turn(
        seq=seq,
        role=role,
        kind=kind,
        text=shown,
        note=note,
        is_failed=is_failed,
        left_out=len(text) - len(shown),
    )


def _read(body: Body, blobs: BlobStore) -> str:
    """What a body says, in words; its own text where the format is not one that we know."""
    said = read_said(body, blobs, keeps_lines=True)
    if said is not None:
        return said
    if body.length_bytes > _MOST_BODY_BYTES:
        return f"({body.length_bytes} bytes, too many to show)"
    try:
        return body.load(blobs).decode("utf-8", "backslashreplace")
    except RepoTrialError as error:
        return f"({error.message})"


def build_detail(index: TraceIndex, run: Path, seq: int) -> EventDetail | None:
    """All of one event; None if there is none, or it cannot be read."""
    try:
        event = index.load_event(seq)
    except RepoTrialError:  # its page says so
        return None
    if event is None:
        return None
    tree = msgspec.to_builtins(event.payload)
    text = msgspec.json.format(msgspec.json.encode(tree), indent=2).decode("utf-8", "replace")
    return EventDetail(
        seq=seq,
        type=event.type,
        text=text[:_MOST_DETAIL_CHARACTERS],
        left_out=max(0, len(text) - _MOST_DETAIL_CHARACTERS),
        turns=tuple(build_turns(event, BlobStore(RunPaths(run).blobs))),
        bodies=tuple(dict(_iter_blobs(tree)).items())[:_MOST_BODIES],
    )


def _iter_blobs(tree: Any) -> Iterator[tuple[str, int]]:
    match tree:
        case {"digest": str(digest), "size_bytes": int(size)}:
            yield digest, size
        case dict():
            for value in tree.values():
                yield from _iter_blobs(value)
        case list() | tuple():
            for value in tree:
                yield from _iter_blobs(value)
        case _:
            pass
