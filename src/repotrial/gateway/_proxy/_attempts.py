"""What goes on record of every attempt to reach something (P9)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial.gateway._proxy._hosts import Authority

NOWHERE: Final = Authority(host="", port=0)
"""Where it cannot be read where to."""

Way: TypeAlias = Literal["http", "https", "tunnel"]
"""`https`: read along, by means of the run's own authority; `tunnel`: unread bytes."""
AttemptVerdict: TypeAlias = Literal["passed", "replayed", "refused", "failed"]
"""`refused`: by the policy; `failed`: allowed, but no answer came."""


class NetworkAttempt(msgspec.Struct, frozen=True, kw_only=True):
    """A request or a tunnel, when it is over."""

    host: str
    """As it was asked for; empty where it could not be read."""
    port: Count
    """Zero where there was none."""
    way: Way
    """How it was read."""
    method: str
    """Of the request; `CONNECT` for a tunnel."""
    path: str
    """Path and query; empty for a tunnel."""
    verdict: AttemptVerdict
    """What came of it."""
    reason: str = ""
    """Why not, where it did not pass."""
    status: Count | None = None
    """Of the answer; null if there was none."""
    sent_bytes: Count = 0
    """From the sandbox."""
    received_bytes: Count = 0
    """Towards it."""


AttemptSink: TypeAlias = Callable[[NetworkAttempt], None]
"""Called on the gateway's loop, so it must be quick."""


@dataclass(eq=False, kw_only=True)
class OpenAttempt:
    """A request or a tunnel under way: what is known of it so far."""

    authority: Authority = NOWHERE
    way: Way
    method: str = ""
    path: str = ""
    status: int | None = None
    sent_bytes: int = 0
    received_bytes: int = 0

    def count_sent(self, size: int) -> None:
        self.sent_bytes += size

    def close(self, verdict: AttemptVerdict, reason: str) -> NetworkAttempt:
        return NetworkAttempt(
            host=self.authority.host,
            port=self.authority.port,
            way=self.way,
            method=self.method[:20],
            path=_escape(self.path[:2000]),
            verdict=verdict,
            reason=_escape(reason[:500]),
            status=self.status,
            sent_bytes=self.sent_bytes,
            received_bytes=self.received_bytes,
        )


class AttemptLog:
    """Knows attempts from their beginning on, and reports each once: when it is over, or when all is.

    Args:
        sink: Told about every attempt.
        note: Told why the sink failed: that must not break a connection.
    """

    def __init__(self, sink: AttemptSink, note: Callable[[Exception], None]) -> None:
        self._sink = sink
        self._note = note
        self._open: dict[OpenAttempt, None] = {}

    def __len__(self) -> int:
        return len(self._open)

    def begin(self, attempt: OpenAttempt) -> OpenAttempt:
        self._open[attempt] = None
        return attempt

    def end(self, attempt: OpenAttempt, verdict: AttemptVerdict, reason: str = "") -> None:
        """Report an attempt; not again where that was done."""
        if attempt not in self._open:
            return
        del self._open[attempt]
        try:
            self._sink(attempt.close(verdict, reason))
        except Exception as error:  # noqa: BLE001 - noted; a sink may fail in any way
            self._note(error)

    def drop(self, attempt: OpenAttempt) -> None:
        """Forget an attempt of which others tell: a connection, whose requests are reported."""
        self._open.pop(attempt, None)

    def close(self) -> None:
        """Report what is under way: it went out, whatever would have come of it."""
        for attempt in tuple(self._open):
            self.end(attempt, "failed", "the run ended")


def _escape(text: str) -> str:
    """Bytes that are no UTF-8 would keep it from being written."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
