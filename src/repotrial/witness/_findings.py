"""Findings of the policy's rules as alerts: in what a model says, and in the programs that ran (P17, P18)."""

from __future__ import annotations

from collections import Counter
from threading import Lock
from typing import Final

from repotrial._core.words import AlertSeverity, LifecyclePhase, TextFormat
from repotrial.policy import POLICY, TextFinding
from repotrial.trace import MonitorAlert, TraceWriter

_ALERTS_PER_RULE: Final = 100
_LEFT_OUT: Final = "alerts-left-out"
_MOST_SEGMENT: Final = 2000


class FindingLog:
    """Puts findings on record one by one, up to a bound for each rule that ends no run; safe to share."""

    def __init__(self, writer: TraceWriter, *, phase: LifecyclePhase = "act") -> None:
        self._writer = writer
        self._phase: LifecyclePhase = phase
        self._lock = Lock()
        self._counts: Counter[str] = Counter()

    def record(self, finding: TextFinding, event: int) -> None:
        """Raise an alert for a finding in the text of an event."""
        with self._lock:
            self._counts[finding.rule] += 1
            count = self._counts[finding.rule]
        if count <= _ALERTS_PER_RULE or finding.severity == "critical":
            self._append(finding.rule, finding.severity, finding.format, finding.segment, event)
        elif count == _ALERTS_PER_RULE + 1:
            text = f"{finding.rule}: {_ALERTS_PER_RULE} times, and not told one by one from here on"
            self._append(_LEFT_OUT, "info", "natural-language", text, event)

    def _append(self, rule: str, severity: AlertSeverity, form: TextFormat, text: str, event: int) -> None:
        alert = MonitorAlert(
            monitor=POLICY, rule=rule, severity=severity, phase=self._phase, evidence=(event,)
        )
        # No offset: an answer's body has its texts escaped and in pieces.
        data = text.encode("utf-8", "backslashreplace")[:_MOST_SEGMENT]
        self._writer.alert(alert, data, form=form, event=event)
