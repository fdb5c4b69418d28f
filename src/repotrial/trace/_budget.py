"""How a trace is written: the options, and the byte budget with what it dropped."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.trace._payloads import DROPPABLE_TYPES, PAYLOAD_TYPES
from repotrial.trace._payloads.course import DroppedOfType, TraceTruncated

WRITER_OPTIONS = ErrorCode(
    "writer-options",
    UsageError,
    "The writer's options contradict each other or name an unknown event type.",
    hint="see WriterOptions for what each option accepts",
)


class WriterOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a trace is written; nothing of it changes what a reader must know."""

    batch_bytes: Annotated[int, msgspec.Meta(ge=1)] = 64 * 1024
    """Lines are held back until so many bytes are together, or until `flush`."""
    inline_bytes: Annotated[int, msgspec.Meta(ge=0, le=1024 * 1024)] = 4 * 1024
    """Longer bodies become blobs."""
    run_budget_bytes: Annotated[int, msgspec.Meta(ge=0)] | None = 2 * 1024**3
    """Lines and blobs of one run together; None lifts the limit."""
    type_budget_bytes: dict[str, Annotated[int, msgspec.Meta(ge=0)]] = {}
    """The same for single event types."""
    is_durable: bool = True
    """Whether its first event and its end wait for the disk. Not needed where the run is sealed right after
    its end: sealing waits for all of it, and before that a power cut leaves nothing that counts."""


def checked_options(options: WriterOptions) -> WriterOptions:
    """The options, if they are sensible."""
    try:
        checked = msgspec.convert(msgspec.to_builtins(options), WriterOptions)
    except msgspec.ValidationError as error:
        raise WRITER_OPTIONS.error(f"writer options: {error}") from error
    unknown = sorted(set(checked.type_budget_bytes) - set(PAYLOAD_TYPES))
    if unknown:
        raise WRITER_OPTIONS.error(
            f"type_budget_bytes: expected known event types, found {', '.join(unknown)}"
        )
    return checked


UNASSIGNED = "unassigned"
"""Stands for the type of a body that was made for no declared payload type."""

_YIELDING = DROPPABLE_TYPES | {UNASSIGNED}
_RESERVED_PART = 8
"""P22: an eighth of the run's budget is left to what a verdict rests on, however much an agent prints."""


class _Dropped(msgspec.Struct):
    bodies: int = 0
    body_bytes: int = 0
    events: int = 0
    event_bytes: int = 0


class TraceBudget:
    """Counts the bytes of lines and blobs, for the run and by event type."""

    def __init__(self, *, run_bytes: int | None, type_bytes: dict[str, int]) -> None:
        self._run_bytes = MAX_SAFE_INTEGER if run_bytes is None else run_bytes
        self._type_bytes = type_bytes
        self._run_left = self._run_bytes
        self._reserved = self._run_bytes // _RESERVED_PART
        self._type_left = dict(type_bytes)
        self._dropped: dict[str, _Dropped] = {}
        self.must_announce = False
        """Whether dropping has begun and the trace does not yet say so."""
        self._first: tuple[Literal["run-budget", "type-budget"], int] | None = None

    def try_spend(self, event_type: str, size_bytes: int) -> bool:
        """Take that many bytes, if both limits allow it; remembers which limit said no first."""
        reserved = self._reserved if event_type in _YIELDING else 0
        if size_bytes > self._run_left - reserved:
            self._first = self._first or ("run-budget", self._run_bytes)
            return False
        left = self._type_left.get(event_type)
        if left is not None:
            if size_bytes > left:
                self._first = self._first or ("type-budget", self._type_bytes[event_type])
                return False
            self._type_left[event_type] = left - size_bytes
        self._run_left -= size_bytes
        return True

    @property
    def unconditional_bytes(self) -> int:
        """How many bytes fit whatever their type; 0 where types have limits of their own."""
        return 0 if self._type_left else max(self._run_left - self._reserved, 0)

    def overspend(self, event_type: str, size_bytes: int) -> None:
        """Take that many bytes in any case: for what must not be dropped."""
        self._run_left -= size_bytes
        if event_type in self._type_left:
            self._type_left[event_type] -= size_bytes

    def drop_bodies(self, event_type: str, count: int, size_bytes: int) -> None:
        dropped = self._dropped_of(event_type)
        dropped.bodies += count
        dropped.body_bytes += size_bytes

    def drop_event(self, event_type: str, size_bytes: int) -> None:
        dropped = self._dropped_of(event_type)
        dropped.events += 1
        dropped.event_bytes += size_bytes

    def announce(self) -> TraceTruncated:
        """The event that says that dropping has begun."""
        self.must_announce = False
        return self._truncated(final=False)

    def conclude(self) -> TraceTruncated | None:
        """The closing count; None if nothing was dropped."""
        return self._truncated(final=True) if self._dropped else None

    def _dropped_of(self, event_type: str) -> _Dropped:
        if not self._dropped:
            self.must_announce = True
        return self._dropped.setdefault(event_type, _Dropped())

    def _truncated(self, *, final: bool) -> TraceTruncated:
        assert self._first is not None  # nothing is dropped unless a limit said no
        reason, limit = self._first
        return TraceTruncated(
            reason=reason,
            limit_bytes=limit,
            final=final,
            dropped=tuple(
                DroppedOfType(
                    type=name,
                    bodies=dropped.bodies,
                    body_bytes=dropped.body_bytes,
                    events=dropped.events,
                    event_bytes=dropped.event_bytes,
                )
                for name, dropped in sorted(self._dropped.items())
            ),
        )
