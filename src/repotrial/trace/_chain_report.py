"""The verdict on a chain, as types."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial.trace._event import TraceHead

BadEventReason: TypeAlias = Literal[
    "malformed",
    "hash-mismatch",
    "out-of-order",
    "not-canonical",
    "time-not-increasing",
    "opened-twice",
    "other-run",
    "line-too-long",
    "after-head",
    "other-head",
    "torn-tail",
    "missing-events",
    "empty",
    "not-a-trace",
    "payload-misfit",
    "unreadable",
]
"""What is wrong with the first bad event."""


class BadEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Where a trace stops to hold."""

    seq: Count
    """Position of the event, from 0."""
    offset_bytes: Count
    """Where its line begins in the file."""
    reason: BadEventReason
    """What is wrong, for machines."""
    detail: str
    """What was expected and what was found."""


class _Status(msgspec.Struct, frozen=True, kw_only=True, tag_field="status"):
    pass


class Intact(_Status, frozen=True, kw_only=True, tag="intact"):
    """Every event is as it was written."""


class Tampered(_Status, frozen=True, kw_only=True, tag="tampered"):
    """The file is not what one writer of this format wrote."""

    first_bad: BadEvent
    """The first event that does not hold."""


class Truncated(_Status, frozen=True, kw_only=True, tag="truncated"):
    """What is there holds; the end is missing."""

    first_bad: BadEvent
    """The first event that is missing or torn."""


class Unverifiable(_Status, frozen=True, kw_only=True, tag="unverifiable"):
    """It cannot be decided here whether the trace holds."""

    first_bad: BadEvent
    """The first event that cannot be judged."""


class UnknownVersion(_Status, frozen=True, kw_only=True, tag="unknown-version"):
    """The trace says that it has another major version."""

    schema: str
    """What it says."""


ChainStatus: TypeAlias = Intact | Tampered | Truncated | Unverifiable | UnknownVersion
"""The verdict on a chain."""


class UnknownTypeCount(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a type that this release does not know."""

    type: str
    """The type."""
    count: Annotated[int, msgspec.Meta(ge=1)]
    """How many."""


class ChainReport(msgspec.Struct, frozen=True, kw_only=True):
    """What verification found."""

    status: ChainStatus
    """The verdict."""
    run_id: str | None
    """The run that the trace says it belongs to; null where its first event cannot be read."""
    count: Count
    """How many events hold, from the first."""
    head: TraceHead | None
    """Count and hash of the last event that holds; null where none does."""
    verified_bytes: Count
    """Length of the part that holds."""
    unknown_types: tuple[UnknownTypeCount, ...] = ()
    """Events that were chained correctly but not understood."""

    @property
    def is_intact(self) -> bool:
        return isinstance(self.status, Intact)
