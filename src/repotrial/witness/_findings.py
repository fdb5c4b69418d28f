"""Findings of the policy's rules as alerts: in what a model says, and in the programs that ran (P17, P18)."""

from __future__ import annotations

import json
from collections import Counter
from threading import Lock
from typing import Final, NamedTuple

from repotrial._core.words import AlertSeverity, LifecyclePhase, TextFormat
from repotrial.policy import POLICY, TextFinding
from repotrial.trace import MonitorAlert, Segment, TraceWriter

_ALERTS_PER_RULE: Final = 100
_LEFT_OUT: Final = "alerts-left-out"
_MOST_SEGMENT: Final = 2000


class Said(NamedTuple):
    """An answer in which a finding stands, and the message that it answers (S10)."""

    body: bytes
    """Of the answer, as it came."""
    prompt: bytes
    """The last message of the request."""
    prompt_event: int | None
    """Where that is on record."""

    def find_offset(self, text: str) -> int | None:
        """Where a text stands in the body, escaped as JSON once or twice; None where it came in pieces."""
        once = json.dumps(text)[1:-1]
        forms = (text, once, json.dumps(text, ensure_ascii=False)[1:-1], json.dumps(once)[1:-1])
        found = (self.body.find(form.encode("utf-8", "backslashreplace")) for form in forms)
        return next((place for place in found if place >= 0), None)


class FindingLog:
    """Puts findings on record one by one, up to a bound for each rule that ends no run; safe to share."""

    def __init__(self, writer: TraceWriter, *, phase: LifecyclePhase = "act") -> None:
        self._writer = writer
        self._phase: LifecyclePhase = phase
        self._lock = Lock()
        self._counts: Counter[str] = Counter()

    def record(self, finding: TextFinding, event: int, said: Said | None = None) -> None:
        """Raise an alert for a finding in the text of an event; in an answer, with what it answers."""
        with self._lock:
            self._counts[finding.rule] += 1
            count = self._counts[finding.rule]
        if count <= _ALERTS_PER_RULE or finding.severity == "critical":
            self._append(finding.rule, finding.severity, finding.format, finding.segment, event, said)
        elif count == _ALERTS_PER_RULE + 1:
            text = f"{finding.rule}: {_ALERTS_PER_RULE} times, and not told one by one from here on"
            self._append(_LEFT_OUT, "info", "natural-language", text, event, None)

    def _append(
        self,
        rule: str,
        severity: AlertSeverity,
        form: TextFormat,
        text: str,
        event: int,
        said: Said | None,
    ) -> None:
        alert = MonitorAlert(
            monitor=POLICY,
            rule=rule,
            severity=severity,
            phase=self._phase,
            evidence=(event,),
            prompt=None if said is None else self._quote(said),
        )
        data = text.encode("utf-8", "backslashreplace")[:_MOST_SEGMENT]
        offset = None if said is None else said.find_offset(text)
        self._writer.alert(alert, data, form=form, event=event, offset_bytes=offset)

    def _quote(self, said: Said) -> Segment | None:
        if said.prompt_event is None:
            return None
        body = self._writer.body(said.prompt[:_MOST_SEGMENT], of=MonitorAlert)
        return Segment(format="natural-language", body=body, event=said.prompt_event, offset_bytes=0)
