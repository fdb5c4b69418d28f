"""What goes on record of every attempt to reach something (P9)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count

__all__ = ["Attempt", "AttemptSink", "Verdict"]

Verdict: TypeAlias = Literal["passed", "replayed", "refused", "failed"]
"""`refused`: by the policy; `failed`: allowed, and nobody answered."""


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """A request or a tunnel, when it is over."""

    host: str
    """As it was asked for; empty where it could not be read."""
    port: Count
    """Zero where there was none."""
    way: Literal["http", "https", "tunnel"]
    """`https`: read along, by means of the run's own authority; `tunnel`: bytes that nobody read."""
    method: str
    """Of the request; `CONNECT` for a tunnel."""
    path: str
    """Path and query; empty for a tunnel."""
    verdict: Verdict
    """What came of it."""
    reason: str = ""
    """Why not, where it did not pass."""
    status: Count | None = None
    """Of the answer; null where there was none."""
    sent_bytes: Count = 0
    """From the sandbox."""
    received_bytes: Count = 0
    """Towards it."""


AttemptSink: TypeAlias = Callable[[Attempt], None]
"""Called on the gateway's loop, so it must be quick."""
