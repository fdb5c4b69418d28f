"""Why a run ended as it did, and whether that excuses the attempt: a function of logged evidence alone (P5).

An attempt is excused by its cause, whatever its checks said. A cause excuses only with evidence that the
candidate cannot make: whatever an agent can bring about by itself counts against it. Of each part of a run
the first rule that holds says why it ended.
"""

from __future__ import annotations

import msgspec

from repotrial.score._cause_rules import CAUSE_RULES, Cause, CauseRule, CauseView, Part
from repotrial.score._evidence import Evidence
from repotrial.score._gates import RunStatus


class RunCause(msgspec.Struct, frozen=True, kw_only=True):
    """Why acting, acceptance and sealing ended, and the run."""

    acting: Cause
    acceptance: Cause
    sealing: Cause
    cause: Cause
    """Of the run: the first of the three that makes it invalid, else that of acting."""
    is_excused: bool
    """Whether the attempt leaves the rates, whatever its checks said."""
    evidence: tuple[int, ...] = ()
    """The events that the cause rests on."""


def find_cause(evidence: Evidence, status: RunStatus) -> RunCause:
    """The causes of a run."""
    view = CauseView(evidence, status)
    acting, acceptance, sealing = (_find_first(part, view) for part in ("acting", "acceptance", "sealing"))
    chosen, proof = acting
    if not _is_invalid(evidence):
        later = (found for found in (acceptance, sealing) if found[0].cause != "finished")
        chosen, proof = next(later, acting)
    return RunCause(
        acting=acting[0].cause,
        acceptance=acceptance[0].cause,
        sealing=sealing[0].cause,
        cause=chosen.cause,
        is_excused=chosen.is_excused,
        evidence=proof,
    )


def _find_first(part: Part, view: CauseView) -> tuple[CauseRule, tuple[int, ...]]:
    for rule in CAUSE_RULES:
        if rule.part == part and (proof := rule.find(view)) is not None:
            return rule, proof
    raise AssertionError(f"the last rule of {part} always holds")


def _is_invalid(evidence: Evidence) -> bool:
    """Whether the end of acting alone makes the run invalid."""
    end = evidence.termination
    return (
        end is None
        or end.event.category in {"harness-fault", "operator-abort"}
        or end.event.nature == "safety"
    )
