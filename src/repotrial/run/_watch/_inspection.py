"""Alerts of the gateway: what an answer says and asks for (P7, P17), and requests that were refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from repotrial._core.words import AlertSeverity, TextFormat
from repotrial.gateway import ExchangeEnd, Refusal, WireAnswer
from repotrial.policy import POLICY, TextFinding, TextPlace, check_text, decide_stage, read_tool_use
from repotrial.run._watch._stages import StageController
from repotrial.trace import MonitorAlert, Signal, TraceWriter

_MONITOR: Final = "gateway"
_EACH: Final = 100
_WITHHELD: Final = "answer-withheld"
_MOST_TEXT: Final = 2000


_ALERTS_PER_RULE: Final = 100
_LEFT_OUT: Final = "alerts-left-out"
_MOST_SEGMENT: Final = 2000


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


class AnswerInspector:
    """Looks at one run's answers.

    Args:
        writer: Takes the alerts.
        stages: Moves the run on where its rule is automatic; None if stages are not the gateway's matter.
    """

    def __init__(self, writer: TraceWriter, stages: StageController | None) -> None:
        self._writer = writer
        self._stages = stages
        self._counts: dict[str, int] = {}

    def inspect(self, answer: WireAnswer, place: int | None) -> None:
        """Raise alerts for what it says: prose, code and commands alike, each with its form (S10)."""
        event = self._writer.last_seq if place is None else place
        for text, where in _iter_texts(answer):
            for finding in check_text(text, where=where):
                self._alert(finding, event)

    def prepare(self, answer: WireAnswer, place: int | None, *, has_tools: bool) -> bool:
        """Grant the privileges that it needs; false where the sandbox would not.

        Who has tools acts by calls; who has none acts on the text.
        """
        if self._stages is None:
            return True
        decision = decide_stage(self._stages.stage, answer.calls, texts=() if has_tools else answer.texts)
        if not decision.is_change:
            return True
        evidence = () if place is None else (place,)
        return self._stages.advance(decision.after, evidence=evidence, signals=decision.signals)

    def _alert(self, finding: TextFinding, event: int) -> None:
        count = self._counts[finding.rule] = self._counts.get(finding.rule, 0) + 1
        if count <= _ALERTS_PER_RULE or finding.severity == "critical":
            self._append(finding.rule, finding.severity, finding.format, finding.segment, event)
        elif count == _ALERTS_PER_RULE + 1:
            text = f"{finding.rule}: {_ALERTS_PER_RULE} times, and not told one by one from here on"
            self._append(_LEFT_OUT, "info", "natural-language", text, event)

    def _append(self, rule: str, severity: AlertSeverity, form: TextFormat, text: str, event: int) -> None:
        alert = MonitorAlert(monitor=POLICY, rule=rule, severity=severity, phase="act", evidence=(event,))
        # No offset: an answer's body has its texts escaped and in pieces.
        data = text.encode("utf-8", "backslashreplace")[:_MOST_SEGMENT]
        self._writer.alert(alert, data, form=form, event=event)


def _iter_texts(answer: WireAnswer) -> Iterator[tuple[str, TextPlace]]:
    for text in (*answer.reasoning, *answer.texts):
        yield text, "message"
    for call in answer.calls:
        use = read_tool_use(call.name, call.arguments)
        for command in use.commands:
            yield command, "command"
        if use.code:
            yield use.code, "program"
        if use.content:
            yield use.content, "code"
