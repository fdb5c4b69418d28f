"""Troubles of the provider on record, each with evidence that no agent can make, and the pace of requests.

An outage is no failure of an agent (P5, P12). What the agent saw alone proves nothing: it can bring about a
429, a 400 or a broken stream. So the harness asks the same upstream for one word, and records that, too.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from repotrial._core.words import ProviderRule
from repotrial.gateway._control import ControlResult, ask_control
from repotrial.gateway._model import ExchangeEnd, Upstream
from repotrial.trace import MonitorAlert, Signal, TraceWriter
from repotrial.wire import Dialect, WireRequest

MONITOR: Final = "provider"
_REQUESTS_PER_MINUTE: Final = 120
"""Where no contract says otherwise."""
_MINUTE_SECONDS: Final = 60.0
_AGAIN_SECONDS: Final = 30.0
"""Between two requests of the harness's own."""
_RATE_LIMITED: Final = 429
_TIMED_OUT: Final = 408
_FIRST_ERROR: Final = 400
_FIRST_FAULT: Final = 500
_MOST_TEXT: Final = 2000


class ProviderWatch:
    """Watches how one run's upstream answers.

    `note` and the alerts belong to the books' thread; `control` runs on the gateway's loop.

    Args:
        writer: Takes the alerts.
        dialect: In which the plan's agent asks.
        model: That the plan's agent asks for; None: nothing is known to be planned.
        upstream: Answers the harness's own requests; None where they would say nothing, as with a recording.
        requests_per_minute: The rate that the contract fixes for one run (Q12).
    """

    def __init__(
        self,
        writer: TraceWriter,
        *,
        dialect: Dialect = "openai-chat",
        model: str | None = None,
        upstream: Upstream | None = None,
        requests_per_minute: int = _REQUESTS_PER_MINUTE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._dialect = dialect
        self._model = model
        self._upstream = upstream
        self._clock = clock
        self._asked: deque[float] = deque(maxlen=requests_per_minute)
        self._rate = requests_per_minute
        self._is_throttled = False
        self._is_troubled = False
        self._controlled_at = float("-inf")

    def find_wait_seconds(self) -> float:
        """How long the next request has to wait: a run keeps to its rate."""
        if len(self._asked) < self._rate:
            return 0.0
        return max(0.0, self._asked[0] + _MINUTE_SECONDS - self._clock())

    def admit(self) -> None:
        """A request goes out."""
        self._asked.append(self._clock())

    def note_throttled(self) -> None:
        """A run that has to be held back made its own rate: what a 429 says of it is its own doing."""
        if not self._is_throttled:
            self._is_throttled = True
            signal = Signal(name="requests_per_minute", value=len(self._asked), threshold=self._rate)
            self._alert("own-rate", "held back to the rate of the plan", signal)

    def note(self, request: WireRequest, end: ExchangeEnd, place: int | None) -> None:
        """Record trouble of an exchange; an answer ends it."""
        rule = self._find_rule(request, end)
        if rule is None:
            self._is_troubled = self._is_troubled and end.cause in {"cut", "agent-left"}
            return
        self._is_troubled = True
        text = f"{end.status} {end.detail or end.body[:_MOST_TEXT].decode(errors='replace')}"
        self._alert(rule, text, Signal(name="status", value=end.status), place=place)

    @property
    def is_due(self) -> bool:
        """Whether the harness should ask for itself now."""
        is_long_ago = self._clock() - self._controlled_at >= _AGAIN_SECONDS
        return self._is_troubled and is_long_ago and self._upstream is not None and self._model is not None

    async def control(self) -> ControlResult | None:
        """Ask for one word, if that is due."""
        if not self.is_due or self._upstream is None or self._model is None:
            return None
        self._controlled_at = self._clock()
        return await ask_control(self._upstream, self._dialect, self._model)

    def start(self, record: Callable[[ControlResult], object]) -> asyncio.Task[None] | None:
        """Ask beside the agent's own requests; None where that is not due."""
        if not self.is_due:
            return None

        async def ask() -> None:
            result = await self.control()
            if result is not None:
                record(result)

        return asyncio.get_running_loop().create_task(ask())

    def note_control(self, result: ControlResult) -> None:
        """Record what came of it."""
        rule: ProviderRule = "control-failed"
        if result.is_answered:
            rule = "control-answered"
        elif result.is_rejected:
            rule = "control-rejected"
        self._alert(rule, f"{result.status} {result.detail}", Signal(name="status", value=result.status))

    def _find_rule(self, request: WireRequest, end: ExchangeEnd) -> ProviderRule | None:
        is_failed = end.cause == "upstream-failed"
        if not is_failed and (end.cause != "complete" or end.status < _FIRST_ERROR):
            return None
        if self._model is not None and (request.model, request.dialect) != (self._model, self._dialect):
            return "other-request"
        if is_failed or end.status >= _FIRST_FAULT or end.status == _TIMED_OUT:
            return "provider-unavailable"
        return "provider-rate-limited" if end.status == _RATE_LIMITED else "provider-rejected"

    def _alert(self, rule: ProviderRule, text: str, signal: Signal, *, place: int | None = None) -> None:
        alert = MonitorAlert(
            monitor=MONITOR,
            rule=rule,
            severity="info",
            phase="act",
            signals=(signal,),
            evidence=() if place is None else (place,),
        )
        self._writer.alert(alert, text.encode("utf-8", "backslashreplace")[:_MOST_TEXT], event=place)
