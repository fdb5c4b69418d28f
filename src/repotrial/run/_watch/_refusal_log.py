"""Requests that the gateway answered itself, as alerts; an agent can send any number of them."""

from __future__ import annotations

from collections import Counter
from typing import Final

from repotrial._core.words import AlertSeverity
from repotrial.gateway import ExchangeEnd, Refusal
from repotrial.trace import MonitorAlert, Signal, TraceWriter

_MONITOR: Final = "gateway"
_EACH: Final = 100
_WITHHELD: Final = "answer-withheld"
_MOST_TEXT: Final = 2000


class RefusalLog:
    """Puts the first of each kind on record one by one, and later ones whenever there are ten times as many.

    Used by one thread at a time.
    """

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._counts: Counter[str] = Counter()

    def record(self, refusal: Refusal, what: str) -> None:
        """A request that was refused."""
        self._alert(refusal.kind, f"{what}: {refusal.message}", status=refusal.status, severity="warning")

    def record_withheld(self, end: ExchangeEnd, place: int | None) -> None:
        """An answer that is on record, and that the agent did not get, or not to its end."""
        severity: AlertSeverity = "warning" if end.cause == "refused" else "info"
        text = f"{end.cause}: {end.detail}"
        self._alert(_WITHHELD, text, status=end.status, severity=severity, place=place)

    def _alert(
        self, rule: str, text: str, *, status: int, severity: AlertSeverity, place: int | None = None
    ) -> None:
        self._counts[rule] += 1
        count = self._counts[rule]
        if count > _EACH and str(count).strip("0") != "1":
            return
        data = text.encode("utf-8", "backslashreplace")[:_MOST_TEXT]
        alert = MonitorAlert(
            monitor=_MONITOR,
            rule=rule,
            severity=severity,
            phase="act",
            signals=(Signal(name="status", value=status), Signal(name="times", value=count)),
            evidence=() if place is None else (place,),
        )
        self._writer.alert(alert, data, event=place)
