"""What a recording of exchanges holds: a line for each, bodies by content beside it."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial.gateway._model import Dialect
from repotrial.trace import BlobRef

FORMAT: Final = "repotrial-exchanges/1"
NO_ANSWER: Final = 502
"""Status of an exchange in which nobody answered."""


class RecordingHead(msgspec.Struct, frozen=True, kw_only=True):
    """The first line."""

    format: Literal["repotrial-exchanges/1"] = FORMAT
    """What kind of file this is."""
    upstream: str
    """Who answered; never a key."""


class RecordedRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request's body, as what is new between the beginning and the end of an earlier one.

    Each turn of a conversation sends all turns before it again.
    """

    digest: Digest
    """Over the whole body, as kept (after redaction)."""
    size_bytes: Count
    """Of the whole body."""
    base: Count | None = None
    """The exchange whose request it shares its ends with; null where it stands alone."""
    prefix_bytes: Count = 0
    """How much of the base's beginning comes first."""
    suffix_bytes: Count = 0
    """How much of the base's end comes last."""
    middle: BlobRef
    """What stands between."""


class RecordedExchange(msgspec.Struct, frozen=True, kw_only=True):
    """One request and its answer, without credentials."""

    index: Count
    """Its place in the order in which requests came, from zero."""
    dialect: Dialect
    """The wire format."""
    method: str
    """As on the wire."""
    target: str
    """Path and query, without a key."""
    lane: str
    """What tells side conversations from the main one: model, and whether tools are offered."""
    request: RecordedRequest
    """What was asked."""
    status: int
    """Of the answer; 502 where there was none."""
    headers: dict[str, str]
    """Of the answer, those that mean something to a client."""
    answer: BlobRef
    """The answer's body."""
    is_whole: bool = True
    """Whether the answer came to its end; a replay breaks off where it did."""
