"""Alerts of the gateway: what an answer says and asks for (P7, P17), and requests that were refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

from repotrial._core.words import AlertSeverity
from repotrial.contract import Network
from repotrial.gateway import ExchangeEnd, ProviderWatch
from repotrial.policy import TextPlace, check_text, decide_stage, read_tool_use
from repotrial.run._watch._hosted import HostedRules
from repotrial.run._watch._stages import StageController
from repotrial.trace import MonitorAlert, Signal, TraceWriter
from repotrial.wire import Refusal, WireAnswer
from repotrial.witness import FindingLog, Said

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


class AnswerInspector:
    """Looks at one run's answers.

    Args:
        writer: Takes the alerts.
        stages: Moves the run on where its rule is automatic; None if stages are not the gateway's matter.
        network: What the contract says of it: the provider's own side is one, too.
        provider: Watches how the upstream answers.
        places: What the contract gives to write in.
    """

    def __init__(
        self,
        writer: TraceWriter,
        stages: StageController | None,
        network: Network = "none",
        provider: ProviderWatch | None = None,
        places: tuple[str, ...] = (),
    ) -> None:
        self.hosted = HostedRules(writer, network)
        self.provider = provider or ProviderWatch(writer)
        self._writer = writer
        self._stages = stages
        self._findings = FindingLog(writer)
        self._places = places

    def inspect(self, answer: WireAnswer, place: int | None, said: Said) -> None:
        """Raise alerts for what it says: prose, code and commands alike, each with its form (S10)."""
        event = self._writer.last_seq if place is None else place
        for text, where in _iter_texts(answer):
            for finding in check_text(text, where=where, places=self._places):
                self._findings.record(finding, event, said)

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


def _iter_texts(answer: WireAnswer) -> Iterator[tuple[str, TextPlace]]:
    for text in (*answer.reasoning, *answer.texts):
        yield text, "message"
    for call in (*answer.calls, *answer.hosted):
        for arguments in _iter_readings(call.arguments):
            yield from _iter_call(call.name, arguments)


def _iter_call(name: str, arguments: bytes) -> Iterator[tuple[str, TextPlace]]:
    use = read_tool_use(name, arguments)
    for command in use.commands:
        yield command, "command"
    if use.code:
        yield use.code, "program"
    if use.content:
        yield use.content, "code"
    if use.family in _MAY_RUN and not (use.commands or use.code or use.content):
        yield from _iter_unknown(arguments)


_MAY_RUN: Final = frozenset({"unknown", "shell", "code"})


def _iter_unknown(arguments: bytes) -> Iterator[tuple[str, TextPlace]]:
    """A text that stands alone may be what is run; several may be prose."""
    texts = [*_iter_strings(arguments)]
    for text in texts:
        yield text, "command" if len(texts) == 1 else "message"


def _iter_readings(arguments: bytes) -> Iterator[bytes]:
    """As they are, and as readers see them that take the first of two members with one name."""
    yield arguments
    try:
        last = json.loads(arguments)
        first = json.loads(arguments, object_pairs_hook=_keep_first)
    except (ValueError, RecursionError):
        return
    if first != last:
        yield json.dumps(first).encode()


def _keep_first(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    return dict(reversed(pairs))


def _iter_strings(arguments: bytes) -> Iterator[str]:
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = arguments.decode(errors="replace")
    waiting = [value]
    while waiting:
        value = waiting.pop()
        if isinstance(value, str):
            yield value
        elif isinstance(value, dict | list):
            waiting += value.values() if isinstance(value, dict) else value
