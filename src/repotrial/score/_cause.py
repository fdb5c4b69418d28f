"""Why a run ended as it did, and whether that excuses the attempt: a function of logged evidence alone (P5).

An attempt is excused by its cause, whatever its checks said. A cause excuses only with evidence that the
candidate cannot make: whatever an agent can bring about by itself counts against it.
"""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

from repotrial.score._evidence import Evidence
from repotrial.score._gates import RunStatus, Scorable
from repotrial.trace import Exited

Cause: TypeAlias = Literal[
    "finished",
    "gave-up",
    "refused",
    "output-limit",
    "run-limit",
    "safety",
    "operator",
    "provider",
    "configuration",
    "shared-envelope",
    "machine",
    "harness",
]
"""What ended a run. `gave-up`: the agent gave up or crashed; `refused`: the model did; `output-limit`: an
answer was cut by its own limit; `run-limit`: a limit of this run; `machine`: the host lacked something."""

_LOST_SERVERS: Final = frozenset({"launcher-lost", "helper-lost"})
_NEVER_BEGAN: Final = frozenset({"agent-not-started", "agent-preparation"})
_REFUSALS: Final = frozenset({"refusal", "content_filter", "safety", "prohibited_content", "blocklist"})
_OUTPUT_LIMITS: Final = frozenset({"length", "max_tokens", "max_output_tokens"})


class CauseRule(msgspec.Struct, frozen=True, kw_only=True):
    """One row of what the function below decides; the page about verdicts is made of these."""

    cause: Cause
    evidence: str
    """What the record must show."""
    counts: str
    """How the attempt counts."""
    repeated: str
    """What is repeated."""


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


class _Part(msgspec.Struct, frozen=True):
    cause: Cause
    is_excused: bool = False
    evidence: tuple[int, ...] = ()


_FINISHED: Final = _Part("finished")


def find_cause(evidence: Evidence, status: RunStatus) -> RunCause:
    """The causes of a run."""
    acting, acceptance, sealing = (
        _find_acting(evidence),
        _find_acceptance(evidence, status),
        _find_sealing(evidence),
    )
    chosen = acting
    if not _is_invalid(evidence):
        chosen = next((part for part in (acceptance, sealing) if part.cause != "finished"), acting)
    return RunCause(
        acting=acting.cause,
        acceptance=acceptance.cause,
        sealing=sealing.cause,
        cause=chosen.cause,
        is_excused=chosen.is_excused,
        evidence=chosen.evidence,
    )


def _is_invalid(evidence: Evidence) -> bool:
    """Whether the end of acting alone makes the run invalid."""
    end = evidence.termination
    return (
        end is None
        or end.event.category in {"harness-fault", "operator-abort"}
        or end.event.nature == "safety"
    )


def _find_acting(evidence: Evidence) -> _Part:
    end = evidence.termination
    if end is None:
        # Nothing inside a sandbox reaches the harness: it was killed, or the record was cut.
        return _Part("harness", is_excused=not evidence.facts.is_ended)
    event, proof = end.event, (end.seq,)
    if event.nature == "safety":
        return _Part("safety", evidence=proof)
    if event.category == "operator-abort":
        return _Part("operator", is_excused=_is_outcome_unknown(evidence), evidence=proof)
    if event.category == "harness-fault":
        return _find_fault(evidence, event.code, end.seq)
    if event.code == "shared-envelope":
        return _Part("shared-envelope", is_excused=True, evidence=proof)
    if event.nature == "resource" and not evidence.facts.has_briefing:
        # Provisioning and Setup used the run's budget up: its cap is too low for the contract.
        return _Part("configuration", is_excused=True, evidence=proof)
    if event.nature == "resource" or event.category in {"run-timeout", "circuit-breaker"}:
        return _Part("run-limit", evidence=proof)
    return _find_own_end(evidence, end.seq)


def _find_fault(evidence: Evidence, code: str, seq: int) -> _Part:
    if code == "model-unreachable":
        return _find_trouble(evidence) or _Part("gave-up", evidence=(seq,))
    if code in _NEVER_BEGAN:
        return _Part("configuration", is_excused=True, evidence=(seq,))
    if code in _LOST_SERVERS or not evidence.facts.has_briefing:
        return _Part("harness", is_excused=True, evidence=(seq,))
    if code == "agent-sandbox-lost":  # a second sandbox, opened for it, was lost as well
        return _Part("machine", is_excused=True, evidence=(seq,))
    # A candidate may have brought it about: a tree that cannot be read, a record that cannot be sealed.
    return _Part("harness", evidence=(seq,))


def _find_own_end(evidence: Evidence, seq: int) -> _Part:
    """The agent's program ended by itself."""
    trouble = _find_trouble(evidence)
    if trouble is not None:
        return trouble
    facts = evidence.facts
    if facts.provider.open_trouble is not None or facts.program_exit not in (None, Exited(code=0)):
        return _Part("gave-up", evidence=(seq,))
    stop = (facts.provider.last_stop or "").lower()
    if stop in _REFUSALS:
        return _Part("refused", evidence=(seq,))
    return _Part("output-limit", evidence=(seq,)) if stop in _OUTPUT_LIMITS else _Part("finished")


def _find_trouble(evidence: Evidence) -> _Part | None:
    """Trouble that was open at the end, and that the harness met, too; None if it was the agent's own."""
    provider = evidence.facts.provider
    if provider.open_trouble is None or provider.control is None:
        return None
    proof = (provider.open_trouble, provider.control)
    kinds = set(provider.troubles)
    if provider.control_rule == "control-rejected":
        is_every = not provider.answers and "provider-rejected" in kinds
        return _Part("configuration", is_excused=True, evidence=proof) if is_every else None
    if provider.is_throttled and "provider-rate-limited" in kinds:
        return _Part("run-limit", evidence=proof)  # it passed the rate of its plan
    if kinds <= {"other-request", "provider-rejected"}:
        return None
    return _Part("provider", is_excused=True, evidence=proof)


def _find_acceptance(evidence: Evidence, status: RunStatus) -> _Part:
    for alert in evidence.facts.alerts:
        if (alert.monitor, alert.phase, alert.severity) == ("budget", "accept", "critical"):
            if alert.rule == "shared-envelope":  # B4: never held against an agent
                return _Part("shared-envelope", is_excused=True, evidence=(alert.seq,))
            return _Part("run-limit", evidence=(alert.seq,))
        if alert.monitor != "harness" or alert.severity != "critical":
            continue
        if alert.rule == "run-stopped":
            return _Part("operator", is_excused=_is_outcome_unknown(evidence), evidence=(alert.seq,))
        return _Part("harness", is_excused=alert.rule in _LOST_SERVERS, evidence=(alert.seq,))
    if isinstance(status, Scorable) and status.fault == "machine":
        # The same check did not complete on the reference either.
        return _Part("machine", is_excused=True)
    return _FINISHED


def _find_sealing(evidence: Evidence) -> _Part:
    if not evidence.facts.is_ended:
        return _Part("harness", is_excused=True)
    return _FINISHED if evidence.seal != "absent" else _Part("harness")


def _is_outcome_unknown(evidence: Evidence) -> bool:
    """Whether nothing had been judged yet: a stop must not depend on how the run would end.

    That a change applies says nothing about its checks; that it does not apply decides them all.
    """
    facts = evidence.facts
    return not facts.executions and all(patch.event.tree_digest is not None for patch in facts.patches)


CAUSE_RULES: Final = (
    CauseRule(
        cause="finished",
        evidence="the agent's program ended with code 0 after an answer",
        counts="by its checks",
        repeated="nothing",
    ),
    CauseRule(
        cause="gave-up",
        evidence="another exit code, a signal, or trouble with the model that the harness did not meet",
        counts="by its checks",
        repeated="nothing",
    ),
    CauseRule(
        cause="refused",
        evidence="the last answer's stop reason says that the model refused",
        counts="by its checks",
        repeated="nothing",
    ),
    CauseRule(
        cause="output-limit",
        evidence="the last answer's stop reason says that its own limit cut it",
        counts="by its checks",
        repeated="nothing",
    ),
    CauseRule(
        cause="run-limit",
        evidence="a limit or breaker of this run ended it, or a 429 after it passed the rate of its plan",
        counts="by its checks; 0 where it is invalid",
        repeated="nothing",
    ),
    CauseRule(
        cause="safety",
        evidence="a safety rule, or an operator asked by one, ended it",
        counts="0",
        repeated="nothing",
    ),
    CauseRule(
        cause="operator",
        evidence="an operator stopped it; excused if no check had ended, and the change could be applied",
        counts="excused, else 0",
        repeated="the run, if excused",
    ),
    CauseRule(
        cause="provider",
        evidence="trouble that was open at the end (429, 5xx, no answer, a broken stream), and the harness's "
        "own request within the same minute met it, too",
        counts="excused",
        repeated="the run",
    ),
    CauseRule(
        cause="configuration",
        evidence="every request was refused, and so was the harness's own; or the agent never began",
        counts="excused",
        repeated="the run",
    ),
    CauseRule(
        cause="shared-envelope",
        evidence="a budget that runs share was closed, while the run's own caps were not reached",
        counts="excused",
        repeated="the run",
    ),
    CauseRule(
        cause="machine",
        evidence="a check did not complete on the reference either, or a second sandbox was lost as well",
        counts="excused",
        repeated="the run",
    ),
    CauseRule(
        cause="harness",
        evidence="the launch server, the helper or the harness ended, or it failed before the agent began. "
        "Other faults, such as a tree that cannot be read, are not excused: a candidate can make them",
        counts="excused, else 0",
        repeated="the run, if excused",
    ),
)
"""What `find_cause` decides, in words."""
