"""What one exchange with a model consumed, in one form for every provider."""

from __future__ import annotations

from typing import Literal

import msgspec

from repotrial._core.canonical import Count


class Usage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one exchange; null is unknown and never zero (P21)."""

    input_uncached: Count | None = None
    """Input that no cache served."""
    cache_read: Count | None = None
    """Input served from a cache."""
    cache_write_5m: Count | None = None
    """Input written to a cache for five minutes."""
    cache_write_1h: Count | None = None
    """Input written to a cache for an hour."""
    output: Count | None = None
    """Output, reasoning included."""
    reasoning: Count | None = None
    """The part of the output that was reasoning."""
    request_input: Count | None = None
    """All input of the request together: price tiers depend on it."""
    basis: Literal["reported", "estimated"] = "reported"
    """Whether the provider said so, or we counted bytes because it did not."""
