"""Time as integer microseconds since the epoch: nanoseconds would not fit a double's 53 bits."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...


class SystemClock:
    def now_us(self) -> int:
        return time.time_ns() // 1000


class MonotoneClock:
    """A clock that never shows the same instant twice, whatever the one beneath it does (P13)."""

    def __init__(self, clock: Clock, *, after_us: int = 0) -> None:
        self._read_us = clock.now_us
        self._last_us = after_us

    def now_us(self) -> int:
        now_us = self._read_us()
        if now_us <= self._last_us:
            now_us = self._last_us + 1
        self._last_us = now_us
        return now_us


def format_now() -> str:
    """The present second as documents for people have it: ISO 8601, UTC."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def format_moment(at_us: int) -> str:
    """Microseconds since the epoch in ISO 8601, UTC, with all their digits."""
    return f"{datetime.fromtimestamp(at_us // 1_000_000, UTC):%Y-%m-%dT%H:%M:%S}.{at_us % 1_000_000:06d}Z"
