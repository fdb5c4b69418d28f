"""A run as the viewer shows it: pages of events, of its conversation or of what a search found."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from repotrial._core.errors import RepoTrialError
from repotrial.report import EVENT_CLASSES, Turn, build_turns
from repotrial.trace import BlobStore, RunPaths, TimelineRow
from repotrial.viewer._trace_index import TraceIndex

PAGE_EVENTS: Final = 100
_MOST_DETAIL_CHARACTERS: Final = 200_000
_MOST_BODIES: Final = 200


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
        every = index.list_of({name for group in names for name in EVENT_CLASSES.get(group, (group,))})
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
