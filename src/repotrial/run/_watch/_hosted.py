"""What a model's provider does by itself: it is a network, and the contract's rule holds for it (P9)."""

from __future__ import annotations

from collections import Counter
from typing import Final

from repotrial.contract import AllowListNetwork, Network
from repotrial.trace import MonitorAlert, Signal, TraceWriter
from repotrial.wire import Refusal, WireAnswer, WireRequest

_MONITOR: Final = "gateway"
_STATUS: Final = 403
_DEFERRED: Final = "deferred"
_EACH: Final = 100
_MOST_TEXT: Final = 2000


class HostedRules:
    """Decides about hosted features of one run's requests and answers, and puts each on record.

    Used by one thread at a time.
    """

    def __init__(self, writer: TraceWriter, network: Network) -> None:
        self._writer = writer
        self._allowed = (
            frozenset(network.provider_tools) if isinstance(network, AllowListNetwork) else frozenset[str]()
        )
        self._counts: Counter[str] = Counter()

    def check_request(self, request: WireRequest) -> Refusal | None:
        """Record what a request asks of the provider; a refusal where the contract does not name it."""
        for use in request.stripped:
            self._alert("hosted-stripped", f"{use.feature}: {use.place}")
        refused = [use for use in request.hosted if not self._is_allowed(use.feature)]
        for use in request.hosted:
            rule = "hosted-refused" if use in refused else "hosted-admitted"
            self._alert(rule, f"{use.feature}: {use.place}")
        if not refused:
            return None
        if any(use.feature == _DEFERRED for use in refused):
            return _refuse("expected an answer now, found a request for one later (`background`)")
        named = ", ".join(dict.fromkeys(f"{use.feature} ({use.place})" for use in refused))
        return _refuse(
            f"the provider may not reach out for this run: {named[:500]}. Switch it off in the agent; only a "
            "contract whose network is an allow-list can name it, in `provider_tools`"
        )

    def check_answer(self, answer: WireAnswer, place: int | None) -> Refusal | None:
        """Record what the provider did by itself and what cannot be read; a refusal where that may not be."""
        refused = [call.name for call in answer.hosted if not self._allows_call(call.name)]
        for call in answer.hosted:
            text = f"{call.name}: {call.arguments.decode(errors='replace')}"
            self._alert("hosted-call", text, place)
        for shape in answer.unread:
            self._alert("unread-shape", shape, place)
        if answer.unread:
            return _refuse(f"the answer has a shape that cannot be read: {', '.join(answer.unread)[:500]}")
        if refused:
            return _refuse(f"the provider reached out by itself: {', '.join(dict.fromkeys(refused))[:500]}")
        return None

    def _is_allowed(self, feature: str) -> bool:
        return feature != _DEFERRED and feature in self._allowed

    def _allows_call(self, name: str) -> bool:
        """Answers name a call by its tool, or by a kind that has the tool's name in it."""
        return bool(self._allowed) and (
            name in {"server_tool_use", "annotations", "citations", "search_results", "groundingMetadata"}
            or any(feature in _SIGNS.get(name, name) for feature in self._allowed)
        )

    def _alert(self, rule: str, text: str, place: int | None = None) -> None:
        self._counts[rule] += 1
        count = self._counts[rule]
        if count > _EACH and str(count).strip("0") != "1":
            return
        alert = MonitorAlert(
            monitor=_MONITOR,
            rule=rule,
            severity="warning",
            phase="act",
            signals=(Signal(name="times", value=count),),
            evidence=() if place is None else (place,),
        )
        self._writer.alert(alert, text.encode("utf-8", "backslashreplace")[:_MOST_TEXT], event=place)


_SIGNS: Final = {
    "executable_code": "code_execution",
    "code_execution_result": "code_execution",
    "urlContextMetadata": "url_context",
}
"""Tools that answers name by what came of them."""


def _refuse(message: str) -> Refusal:
    return Refusal(status=_STATUS, kind="policy", message=message)
