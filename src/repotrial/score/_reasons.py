"""Why nothing can be said about a run, with how it ended first: what is missing only follows from that."""

from __future__ import annotations

from repotrial.score._card import ScoreCard
from repotrial.score._evidence import Evidence, InvalidReason
from repotrial.score._status import Invalid

_STOPPED = ("harness", "run-stopped")
"""The alert about a run that was stopped after acting had ended."""
_ENDINGS = frozenset({"operator-abort", "harness-fault", "safety-termination"})


def order_reasons(evidence: Evidence, card: ScoreCard) -> tuple[InvalidReason, ...]:
    """Every reason why a run is invalid, the one that explains the others first; none where it is not."""
    if not isinstance(card.status, Invalid):
        return ()
    reasons = list(card.status.reasons)
    stop = find_stop(evidence)
    if stop is not None:
        reasons = [stop, *(reason for reason in reasons if reason.seq is None or reason.seq != stop.seq)]
    # Of a record that was sealed, a missing end is rather something that was cut off.
    endings = _ENDINGS | {"not-ended"} if evidence.seal == "absent" else _ENDINGS
    return tuple(sorted(reasons, key=lambda reason: reason.code not in endings))


def find_stop(evidence: Evidence) -> InvalidReason | None:
    """That the operator stopped the run before it was judged; null where nothing says so."""
    for alert in evidence.facts.alerts:
        if (alert.monitor, alert.rule) == _STOPPED:
            return _build_stop("stopped by the operator before it was judged", alert.seq)
    end = evidence.termination
    if end is None or (end.event.category, end.event.nature) != ("operator-abort", "none"):
        return None
    rationale = end.event.rationale
    detail = "" if rationale == "stopped by the operator" else f": {rationale}"
    return _build_stop(f"stopped by the operator before the agent was done{detail}", end.seq)


def was_stopped_late(evidence: Evidence) -> bool:
    """Whether the operator stopped the run after acting had ended."""
    return any((alert.monitor, alert.rule) == _STOPPED for alert in evidence.facts.alerts)


def _build_stop(message: str, seq: int) -> InvalidReason:
    return InvalidReason(code="operator-abort", message=message, seq=seq)
