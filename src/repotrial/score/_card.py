"""The score card: evidence → gates → dimensions → taxonomy, in one document that anyone can compute again."""

from __future__ import annotations

from typing import Literal

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.canonical import Count, DecimalText
from repotrial._core.digest import Digest, digest_bytes
from repotrial.contract import Contract
from repotrial.score._delta import BrokenRule, ReadDelta, find_broken_rules, read_delta
from repotrial.score._deviations import Remark, build_deviations
from repotrial.score._evidence import (
    GATES,
    Document,
    Evidence,
    InvalidReason,
    Line,
    SealState,
    Verdict,
)
from repotrial.score._gates import GateResult, Invalid, RunStatus, Scorable, build_gates, build_status
from repotrial.score._graded import Graded, build_graded, render_share
from repotrial.score._interface import (
    ChangeSummary,
    CountedViolation,
    EnvelopeValue,
    ScoreInputs,
    build_interface_score,
)
from repotrial.score._outcomes import CheckResult, build_results, find_patch_verdict
from repotrial.score._review import AttributionSummary, ReviewNote, build_attribution, build_review_notes
from repotrial.score._tags import Findings, build_tags
from repotrial.score._taxonomy import FailureTag
from repotrial.trace import Manifest

_SIGNALS: dict[str, tuple[str, ...]] = {
    "cost_usd": ("cost_usd",),
    "cost_units": ("cost_units",),
    "tokens": ("tokens",),
    "tool_calls": ("tool_calls",),
    "failed_check_cycles": ("failed_check_cycles",),
    "wall_us": ("wall_us",),
    "cpu_us": ("cpu_us",),
    "human_us": ("human_us", "human_wall_us"),
}
_OF_MODELS = frozenset({"cost_usd", "cost_units", "tokens"})


class Cost(Document, frozen=True, kw_only=True):
    """Consumption of the agent, as the termination states it (B2, B16)."""

    cost_usd: DecimalText | Unknown
    """Money."""
    cost_units: DecimalText | Unknown
    """Abstract units, of models that have no price (P21)."""
    tokens: Count | Unknown
    """Tokens of all model calls."""
    tool_calls: Count | Unknown
    """Calls of tools."""
    failed_check_cycles: Count | Unknown
    """Failing test runs."""
    wall_us: Count | Unknown
    """Time by the clock."""
    cpu_us: Count | Unknown
    """Processor time."""
    human_us: Count | Unknown
    """A person's time."""
    method: str | Unknown
    """How the money was projected (P22)."""


def build_cost(evidence: Evidence) -> Cost:
    """What the signals of the termination say; what they do not say is not known."""
    termination = evidence.termination
    signals = {} if termination is None else {s.name: s.value for s in termination.event.signals}
    values: dict[str, int | str | Unknown] = {}
    if evidence.facts.work.is_witnessed:
        # Counted from the trace, as the report does: what was withheld is no call.
        signals["tool_calls"] = evidence.facts.work.tool_calls
        signals["failed_check_cycles"] = evidence.facts.work.failed_test_cycles
    for field, names in _SIGNALS.items():
        value = next((signals[name] for name in names if name in signals), None)
        if value is None:
            values[field] = Unknown(reason=_explain(field, evidence))
        elif field in {"cost_usd", "cost_units"}:
            values[field] = str(value)
        elif isinstance(value, int) and value >= 0:
            values[field] = value
        else:
            values[field] = Unknown(reason=f"expected a count, found {value}")
    return Cost(method=_find_method(evidence, values), **values)  # type: ignore[arg-type]  # of many kinds


def _explain(field: str, evidence: Evidence) -> str:
    """Why something is not stated."""
    manifest = evidence.manifest
    if field in _OF_MODELS and isinstance(manifest, Manifest) and manifest.configuration.models is None:
        return "asks no model"
    return "the termination does not state it"


def _find_method(evidence: Evidence, values: dict[str, int | str | Unknown]) -> str | Unknown:
    """How the cost was projected (P22)."""
    if not any(isinstance(values[field], str) for field in ("cost_usd", "cost_units")):
        return Unknown(reason="no cost was stated")
    manifest = evidence.manifest
    models = manifest.configuration.models if isinstance(manifest, Manifest) else None
    return "as the termination states it" if models is None else models.price_method


SCORE_SCHEMA = "repotrial/score@1"


class AgentIdentity(Document, frozen=True, kw_only=True, tag_field="kind", tag="agent"):
    """Who worked."""

    name: Line
    """The agent."""
    version: str | Unknown
    """Its version."""
    model: str | Unknown
    """The model that it asked."""


class GeneralScore(Document, frozen=True, kw_only=True, tag_field="kind", tag="score"):
    """S = w_ok·[pass] + w_val·V(Δ) - w_viol·P(Viol) (C15)."""

    score: DecimalText
    """S."""
    ok: DecimalText
    """w_ok·[pass]."""
    value: DecimalText
    """w_val·V(Δ)."""
    violation: DecimalText
    """w_viol·P(Viol)."""
    minimum: DecimalText
    """No run under these weights scores less."""
    maximum: DecimalText
    """No run under these weights scores more."""


class RunIdentity(Document, frozen=True, kw_only=True):
    """Which run, of what, by whom."""

    run_id: str | Unknown
    """The run."""
    contract_id: str | Unknown
    """The contract."""
    contract_version_id: Digest | Unknown
    """Its version: scores of different versions are never pooled unasked (C11)."""
    scoring_digest: Digest | Unknown
    """The parameters of grading."""
    agent: AgentIdentity | Unknown
    """Who worked."""
    comparability_class: Digest | Unknown
    """Runs of one class may be compared without a remark (P30)."""
    change_digest: Digest | Unknown
    """Digest of `change.patch`."""
    head_hash: str | Unknown
    """Hash of the last verified event: the evidence that this card was computed from."""
    seal: SealState
    """Whether there is an intact seal; whose it is, `run verify` says."""


class ScoreCard(Document, frozen=True, kw_only=True):
    """The document `score.json`."""

    schema: Literal["repotrial/score@1"] = "repotrial/score@1"
    """Which version of this format."""
    identity: RunIdentity
    """What was judged, and from which evidence."""
    status: RunStatus
    """Scorable or invalid (P4)."""
    gates: tuple[GateResult, ...]
    """G1 to G4 (S2)."""
    graded: Graded | NotComputable
    """s, where all gates pass (S6)."""
    tags: tuple[FailureTag, ...]
    """Failure tags (S8)."""
    checks: tuple[CheckResult, ...]
    """Outcome of each check after reruns."""
    violations: tuple[BrokenRule, ...]
    """Rules of the policy that were broken, hard and compliance."""
    review: tuple[ReviewNote, ...]
    """What a person should look at; never part of a gate."""
    general: GeneralScore | NotComputable
    """The general score interface (C15)."""
    cost: Cost
    """What the run consumed; not part of any score (S13)."""
    attribution: AttributionSummary
    """An interpretation (P31)."""
    deviations: tuple[Remark, ...]
    """Departures from the protocol (X6)."""

    @property
    def gate_vector(self) -> tuple[Verdict, ...]:
        """The four outcomes, in order."""
        return tuple(gate.outcome for gate in self.gates)


def build_score_card(evidence: Evidence) -> ScoreCard:
    """Compute the card; the same evidence gives the same bytes on every machine.

    Of an archived run, the card that was computed from all of its evidence is taken.
    """
    if evidence.archived_card is not None:
        return msgspec.json.decode(evidence.archived_card, type=ScoreCard)
    if isinstance(evidence.record, Unknown):
        return _build_unjudged(evidence, evidence.record)
    contract = evidence.record.contract
    delta = read_delta(evidence)
    results = build_results(contract, evidence)
    broken = find_broken_rules(evidence, contract.policy, delta)
    gates = build_gates(evidence, results, delta, broken)
    status = build_status(evidence, results, gates)
    findings = Findings(
        evidence=evidence, contract=contract, results=results, gates=gates, delta=delta, broken=broken
    )
    change = _summarize(evidence, delta)
    return ScoreCard(
        identity=_identify(evidence),
        status=status,
        gates=gates,
        graded=_grade(evidence, contract, findings, status, change),
        tags=build_tags(findings),
        checks=results,
        violations=broken,
        review=build_review_notes(evidence, results, delta),
        general=_build_general(contract, findings, status, change),
        cost=build_cost(evidence),
        attribution=build_attribution(evidence, results),
        deviations=build_deviations(evidence),
    )


def _identify(evidence: Evidence) -> RunIdentity:
    manifest, record = evidence.manifest, evidence.record
    change = evidence.change
    return RunIdentity(
        run_id=evidence.run_id,
        contract_id=record if isinstance(record, Unknown) else record.contract.id,
        contract_version_id=record if isinstance(record, Unknown) else record.lock.version_id,
        scoring_digest=record if isinstance(record, Unknown) else record.lock.scoring_digest,
        agent=_identify_agent(evidence),
        comparability_class=manifest if isinstance(manifest, Unknown) else manifest.comparability_class,
        change_digest=change if isinstance(change, Unknown) else digest_bytes(change),
        head_hash=evidence.head if isinstance(evidence.head, Unknown) else evidence.head.hash,
        seal=evidence.seal,
    )


def _identify_agent(evidence: Evidence) -> AgentIdentity | Unknown:
    if isinstance(evidence.manifest, Unknown):
        if isinstance(evidence.spec, Unknown):
            return evidence.spec
        agent = evidence.spec.agent
        model: str | Unknown = agent.model or Unknown(reason="the specification names none")
        return AgentIdentity(name=agent.name, version=agent.version, model=model)
    worker = evidence.manifest.agent
    return AgentIdentity(name=worker.name, version=worker.version, model=worker.model)


def _summarize(evidence: Evidence, delta: ReadDelta) -> ChangeSummary | NotComputable:
    if isinstance(delta.view, NotComputable):
        return delta.view
    return ChangeSummary(
        change_digest=delta.view.digest,
        is_applicable=find_patch_verdict(evidence) == "passed",
        lines_changed=delta.view.line_count,
        files_changed=delta.view.file_count,
    )


def _grade(
    evidence: Evidence,
    contract: Contract,
    findings: Findings,
    status: RunStatus,
    change: ChangeSummary | NotComputable,
) -> Graded | NotComputable:
    if isinstance(status, Invalid):
        return NotComputable(reason="the run is invalid")
    if findings.open_gates:
        return NotComputable(reason=f"not passed: {', '.join(findings.open_gates)}")
    if isinstance(change, NotComputable):
        return change
    return build_graded(evidence, contract.scoring, change, findings.results)


def _build_general(
    contract: Contract, findings: Findings, status: RunStatus, change: ChangeSummary | NotComputable
) -> GeneralScore | NotComputable:
    if isinstance(change, NotComputable):
        return change
    inputs = ScoreInputs(
        outcome=_find_oracle_outcome(findings.results, status),
        change=change,
        violations=tuple(
            CountedViolation(rule=rule.rule, severity=rule.severity, count=rule.count)
            for rule in findings.broken
        ),
    )
    value = EnvelopeValue.from_scoring(contract.scoring)
    score = build_interface_score(inputs, contract.scoring.interface, value=value)
    if isinstance(score, NotComputable):
        return score
    return GeneralScore(**{name: render_share(getattr(score, name)) for name in score.__struct_fields__})


def _find_oracle_outcome(
    results: tuple[CheckResult, ...], status: RunStatus
) -> Literal["pass", "fail"] | Unknown:
    match status:
        case Invalid():
            return Unknown(reason="the run is invalid")
        case Scorable(verdict="acceptance-error"):
            return Unknown(reason="a check did not complete")
        case Scorable():
            return "pass" if all(r.verdict == "passed" for r in results if r.is_mandatory) else "fail"


def _build_unjudged(evidence: Evidence, why: Unknown) -> ScoreCard:
    """A run without a contract to judge it by: honest about everything else."""
    absent = NotComputable(reason=why.reason)
    names = ("patch validity", "build and static checks", "functional acceptance", "safety and policy")
    return ScoreCard(
        identity=_identify(evidence),
        status=Invalid(reasons=evidence.problems or (InvalidReason(code="no-contract", message=why.reason),)),
        gates=tuple(
            GateResult(
                gate=gate,
                name=name,
                outcome="errored",
                why=("there is no contract to judge by",),
                evidence=(),
                checks=(),
            )
            for gate, name in zip(GATES, names, strict=True)
        ),
        graded=absent,
        tags=(),
        checks=(),
        violations=(),
        review=(),
        general=absent,
        cost=build_cost(evidence),
        attribution=build_attribution(evidence, ()),
        deviations=build_deviations(evidence),
    )
