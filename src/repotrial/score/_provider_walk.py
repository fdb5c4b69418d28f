"""Troubles of the provider, read from a trace: what was open at the end, and what confirms it."""

from __future__ import annotations

from collections import Counter
from typing import Final

from repotrial.score._evidence import ProviderFacts
from repotrial.trace import Event, MonitorAlert, Response

PROVIDER: Final = "provider"
"""The monitor that reports them."""
_TROUBLES: Final = frozenset(
    {"provider-unavailable", "provider-rate-limited", "provider-rejected", "other-request"}
)
_FAILED_CONTROLS: Final = frozenset({"control-failed", "control-rejected"})
_MINUTE_US: Final = 60_000_000
_FIRST_ERROR: Final = 400


class ProviderWalk:
    """Takes the events of a trace in their order."""

    def __init__(self) -> None:
        self._troubles: Counter[str] = Counter()
        self._answers = 0
        self._last: Response | None = None
        self._last_seq: int | None = None
        self._trouble: tuple[int, int] | None = None
        self._control: tuple[int, int, str] | None = None
        self._is_throttled = False

    def take_response(self, event: Event, response: Response) -> None:
        """An answer, unless the alert that follows says otherwise."""
        self._settle()
        if response.status is not None and response.status < _FIRST_ERROR:
            self._last, self._last_seq = response, event.seq

    def take_alert(self, event: Event, alert: MonitorAlert) -> None:
        if alert.rule in _TROUBLES:
            if self._last_seq in alert.evidence:  # a stream that began and broke
                self._last = self._last_seq = None
            self._settle()
            self._troubles[alert.rule] += 1
            self._trouble = (event.seq, event.t)
        elif alert.rule == "own-rate":
            self._is_throttled = True
        elif alert.rule == "control-answered":
            self._control = None
        elif alert.rule in _FAILED_CONTROLS:
            self._control = (event.seq, event.t, alert.rule)

    def _settle(self) -> None:
        if self._last is not None:
            self._answers += 1
            self._stop = self._last.stop_reason
            self._trouble = None
        self._last = self._last_seq = None

    _stop: str | None = None

    def build(self) -> ProviderFacts:
        self._settle()
        trouble, control = self._trouble, self._control
        is_near = trouble is not None and control is not None and abs(control[1] - trouble[1]) <= _MINUTE_US
        return ProviderFacts(
            answers=self._answers,
            troubles=dict(sorted(self._troubles.items())),
            open_trouble=None if trouble is None else trouble[0],
            control=control[0] if control is not None and is_near else None,
            control_rule=control[2] if control is not None and is_near else None,
            is_throttled=self._is_throttled,
            last_stop=self._stop,
        )
