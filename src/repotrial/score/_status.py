"""Run status (P4): scorable or invalid; missing evidence is never failure and never success."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.words import TerminationNature
from repotrial.score._delta import HARNESS, is_safety_ended
from repotrial.score._document import Document
from repotrial.score._evidence import Evidence, InvalidReason
from repotrial.score._gates import GateResult
from repotrial.score._outcomes import CheckResult, find_patch_verdict

Fault: TypeAlias = Literal["none", "change", "machine", "unclear"]
"""For an acceptance error: whose fault it is, as control executions show it."""


class Scorable(Document, frozen=True, kw_only=True, tag_field="kind", tag="scorable"):
    """Identity is bound and every check has its events."""

    verdict: Literal["success", "failure", "acceptance-error"]
    """success: all gates pass; failure: some do not; acceptance-error: some check did not complete."""
    ended_by: TerminationNature
    """`resource`: a limit ended acting, which is not an acceptance failure (P12)."""
    fault: Fault
    """Whose fault an acceptance error is."""


class Invalid(Document, frozen=True, kw_only=True, tag_field="kind", tag="invalid"):
    """Nothing can be said about success."""

    reasons: Annotated[tuple[InvalidReason, ...], msgspec.Meta(min_length=1)]
    """All of them, up to 200."""


RunStatus: TypeAlias = Scorable | Invalid

_MOST = 200


def build_status(
    evidence: Evidence, results: Sequence[CheckResult], gates: Sequence[GateResult]
) -> RunStatus:
    """The status of a run with a contract."""
    reasons = (*evidence.problems, *_iter_reasons(evidence, results))
    if reasons:
        return Invalid(reasons=reasons[:_MOST])
    errored = [r for r in results if r.is_mandatory and r.verdict == "errored"]
    termination = evidence.termination
    ended_by: TerminationNature = "none" if termination is None else termination.event.nature
    if errored or find_patch_verdict(evidence) == "errored":
        return Scorable(verdict="acceptance-error", ended_by=ended_by, fault=_find_fault(errored, gates))
    is_success = all(gate.outcome == "passed" for gate in gates)
    return Scorable(verdict="success" if is_success else "failure", ended_by=ended_by, fault="none")


def _iter_reasons(evidence: Evidence, results: Sequence[CheckResult]) -> Iterator[InvalidReason]:
    for result in results:
        if not result.is_complete:
            message = f"check {result.check}: expected an event for every execution that its rule needs"
            yield InvalidReason(code="missing-execution", message=f"{message}, found {result.attempts}")
    for alert in evidence.facts.alerts:
        if alert.monitor == HARNESS and alert.severity == "critical":
            message = f"the harness could not go on: {alert.rule}"
            yield InvalidReason(code="harness-fault", message=message, seq=alert.seq)
    known = {result.check: result.gate for result in results}
    for execution in evidence.facts.executions:
        if known.get(execution.check_id) != execution.gate:
            expected = known.get(execution.check_id, "no such check")
            message = f"check {execution.check_id}: expected gate {expected}, found {execution.gate}"
            yield InvalidReason(code="other-check", message=message, seq=execution.seq)
    yield from _iter_endings(evidence)


def _iter_endings(evidence: Evidence) -> Iterator[InvalidReason]:
    """How the run ended, where that keeps anybody from judging it."""
    if not evidence.facts.is_ended:
        message = "expected the phase seal at the end of the trace, found none: the harness did not get there"
        yield InvalidReason(code="not-ended", message=message)
    termination = evidence.termination
    if termination is None:
        yield InvalidReason(code="termination", message="expected one termination, found none or several")
    elif termination.event.category == "harness-fault":
        message = f"the harness failed: {termination.event.code}: {termination.event.rationale}"
        yield InvalidReason(code="harness-fault", message=message, seq=termination.seq)
    elif is_safety_ended(evidence):
        # P12: recorded as such, and unscorable for success.
        message = f"ended for safety: {termination.event.code}: {termination.event.rationale}"
        yield InvalidReason(code="safety-termination", message=message, seq=termination.seq)


def _find_fault(errored: Sequence[CheckResult], gates: Sequence[GateResult]) -> Fault:
    """`machine` only where every error is the machine's and nothing else speaks against the change."""
    blames = {result.attribution for result in errored if result.blocked_by is None}
    if "change" in blames:
        return "change"
    is_clean = all(gate.outcome != "failed" for gate in gates)
    return "machine" if blames == {"machine"} and is_clean else "unclear"
