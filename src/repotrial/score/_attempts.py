"""Which attempts at a run count: one that was broken off and repeated stands for nothing."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from repotrial.contract import RunSpec
from repotrial.score._judged import JudgedRun
from repotrial.score._reasons import was_stopped_late
from repotrial.score._status import Scorable

_NOTHING_MEASURED: Final = {
    "model-unreachable": "no model answered",
    "agent-not-started": "the agent's program could not be started",
}
"""Faults of the harness while the agent was to work, by their code: of the agent they say nothing."""


def find_repeated(runs: Iterable[JudgedRun]) -> dict[Path, str]:
    """Attempts that stand for nothing, each with how it ended: no agent can have brought that about.

    A harness that was killed before it could seal conducts the run again, whatever its verdict would be.

    Whatever ends while an agent works counts, so that breaking the harness never raises an agent's rate (P5).
    """
    by_spec: dict[str, list[JudgedRun]] = {}
    for run in runs:
        if isinstance(run.evidence.spec, RunSpec):
            by_spec.setdefault(run.evidence.spec.run_spec_id, []).append(run)
    return {
        run.directory: reason
        for attempts in by_spec.values()
        if any(isinstance(run.card.status, Scorable) for run in attempts)
        for run in attempts
        if (reason := _find_reason(run, attempts)) is not None
    }


def _find_reason(run: JudgedRun, attempts: Sequence[JudgedRun]) -> str | None:
    facts, end = run.evidence.facts, run.evidence.termination
    if end is not None and not isinstance(run.card.status, Scorable):
        if end.event.category == "operator-abort" or was_stopped_late(run.evidence):
            return "stopped by the operator"
        if end.event.category == "harness-fault" and not facts.has_briefing:
            return "ended by a fault of the harness before the agent began"
        if end.event.category == "harness-fault" and end.event.code in _NOTHING_MEASURED:
            return _NOTHING_MEASURED[end.event.code]
    if _is_unsealed(run) and any(map(_is_carried_through, attempts)):
        return "not sealed when the harness ended"
    return None


def _is_unsealed(run: JudgedRun) -> bool:
    """Everything that an agent could have a hand in had ended, and then the seal was not made."""
    return run.evidence.facts.is_ended and run.evidence.seal == "absent"


def _is_carried_through(run: JudgedRun) -> bool:
    return isinstance(run.card.status, Scorable) and run.evidence.seal != "absent"
