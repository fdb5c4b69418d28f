"""The run report (P32, B16): what was judged, what came of it, and what it took, each with its source."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from repotrial._core.absence import Unknown
from repotrial._core.canonical import Count
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.files import write_atomic
from repotrial._core.words import TerminationCategory, TerminationNature
from repotrial.contract import RunSpec
from repotrial.score._card import AgentIdentity, Cost, ScoreCard
from repotrial.score._deviations import Remark
from repotrial.score._evidence import (
    Document,
    Evidence,
    Line,
    SealState,
    Verdict,
    Work,
    build_line,
    render_document,
)
from repotrial.score._gates import RunStatus
from repotrial.score._outcomes import Attribution
from repotrial.score._review import FailureAttribution, build_failure_attribution
from repotrial.trace import GitIdentity, Manifest, OnAlert, RunPaths

REPORT_SCHEMA = "repotrial/report@1"
_MOST = 200


class TreeIdentity(Document, frozen=True, kw_only=True):
    """Which trees."""

    commit: str | Unknown
    """R: the base commit, where the snapshot has one."""
    base_tree_digest: Digest | Unknown
    """R: the tree before the change."""
    final_tree_digest: Digest | Unknown
    """The tree after the change."""
    change_digest: Digest | Unknown
    """The change between them."""


class CheckSummary(Document, frozen=True, kw_only=True):
    """One check."""

    check: Line
    """The contract's check."""
    verdict: Verdict
    """Its outcome after reruns."""
    attempts: Count
    """How often it ran on the candidate."""
    wall_us: Count
    """How long, together."""
    judge: Literal["in-process", "out-of-process"]
    """Whether candidate code ran inside the judging process."""
    attribution: Attribution
    """Who caused an error."""


class Durations(Document, frozen=True, kw_only=True):
    """Times, from the trace (P23)."""

    acting_us: Count | Unknown
    """From the start of acting to the start of acceptance."""
    accepting_us: Count | Unknown
    """From the start of acceptance to sealing."""
    tools_us: Count
    """Active time of the agent's tools."""
    checks_us: Count
    """Executions of checks on the candidate."""


class StageTime(Document, frozen=True, kw_only=True):
    """One stage of privileges."""

    stage: Line
    """Which one."""
    wall_us: Count
    """How long it was in force while the agent acted."""


class WorkSummary(Document, frozen=True, kw_only=True):
    """How the agent worked, from the programs that ran."""

    failed_test_cycles: Count
    """Test runs of the agent that failed, all of them."""
    unknown_test_cycles: Count
    """Test runs whose outcome was not seen."""
    stages: tuple[StageTime, ...] | Unknown
    """How long each stage of privileges was in force (P7)."""
    lines_before_first_test: Count | Unknown
    """Lines that were added and removed before the first test run."""
    last_green: Count | None
    """The last test run that ended well; null if none was seen."""
    first_red: Count | None
    """The first failing test run after that; null if none was seen."""


class InterventionSummary(Document, frozen=True, kw_only=True):
    """One thing that the harness did to the run."""

    seq: Count
    """Its event."""
    action: Line
    """What it did."""
    is_effective: bool
    """Whether it took effect."""
    basis: Count
    """The alert or decision that it answers."""
    rule: str | Unknown
    """The alert's rule, where an alert asked for it."""


class TerminationSummary(Document, frozen=True, kw_only=True, tag_field="kind", tag="termination"):
    """How acting ended (P12)."""

    seq: Count
    """Its event."""
    category: TerminationCategory
    """Who or what ended it."""
    nature: TerminationNature
    """Safety, resource, or neither."""
    code: Line
    """The reason."""
    rationale: str
    """In a sentence."""
    evidence: tuple[Count, ...]
    """Events that it rests on."""


class TraceIdentity(Document, frozen=True, kw_only=True):
    """The evidence."""

    manifest_digest: Digest | Unknown
    """Digest of `manifest.json`."""
    event_count: Count | Unknown
    """Verified events."""
    head_hash: str | Unknown
    """Hash of the last of them."""
    seal: SealState
    """Whether there is an intact seal."""


class RunReport(Document, frozen=True, kw_only=True):
    """The document `report.json`."""

    schema: Literal["repotrial/report@1"] = "repotrial/report@1"
    """Which version of this format."""
    run_id: str | Unknown
    """The run."""
    run_spec_id: Digest | Unknown
    """What was to be run: equal for attempts at the same thing."""
    contract_id: str | Unknown
    """T: the contract."""
    contract_version_id: Digest | Unknown
    """T: its version."""
    statement_digest: Digest | Unknown
    """T: what the agent was asked."""
    trees: TreeIdentity
    """R and the final tree."""
    agent: AgentIdentity | Unknown
    """Who worked."""
    harness_version: str | Unknown
    """What carried the run out."""
    sandbox_level: str | Unknown
    """The isolation that was in force."""
    root_seed: Count | Unknown
    """The root seed."""
    comparability_class: Digest | Unknown
    """Runs of one class may be compared without a remark (P30)."""
    status: RunStatus
    """Scorable or invalid."""
    gate_vector: tuple[Verdict, ...]
    """G1 to G4."""
    checks: tuple[CheckSummary, ...]
    """Acceptance outcomes."""
    termination: TerminationSummary | Unknown
    """How acting ended."""
    event_counts: dict[str, Count]
    """Events by type."""
    alert_counts: dict[str, Count]
    """Alerts by rule."""
    tool_calls: Count
    """Calls of tools that a model asked for and the agent made."""
    test_cycles: Count
    """Test runs of the agent that the trace shows."""
    work: WorkSummary | msgspec.UnsetType = msgspec.UNSET
    """How the agent worked; absent for runs without a witness of programs."""
    durations: Durations
    """Times, from the trace."""
    interventions: tuple[InterventionSummary, ...]
    """What the harness did to the run; the first 200."""
    cost: Cost
    """What the run consumed, and the method by which money was projected."""
    deviations: tuple[Remark, ...]
    """Departures from the protocol."""
    attribution: FailureAttribution | UnsetType = UNSET
    """Failing tests, recent diffs, and a labeled reading of them (P31); since version 2 of the manifest."""
    evidence: TraceIdentity
    """What all of this was computed from."""
    score_digest: Digest
    """Digest of the score card."""


def build_run_report(evidence: Evidence, card: ScoreCard) -> RunReport:
    """Everything that P32 asks for, derived from the evidence and its card."""
    manifest = evidence.manifest if isinstance(evidence.manifest, Manifest) else None
    unread = Unknown(reason="the manifest cannot be read")
    spec = evidence.spec
    return RunReport(
        run_id=card.identity.run_id,
        run_spec_id=spec.run_spec_id if isinstance(spec, RunSpec) else spec,
        contract_id=card.identity.contract_id,
        contract_version_id=card.identity.contract_version_id,
        statement_digest=unread if manifest is None else manifest.contract.statement_digest,
        trees=_build_trees(evidence, card),
        agent=card.identity.agent,
        harness_version=unread if manifest is None else manifest.harness.version,
        sandbox_level=unread if manifest is None else manifest.configuration.sandbox_level,
        root_seed=unread if manifest is None else manifest.seeds.root,
        comparability_class=card.identity.comparability_class,
        status=card.status,
        gate_vector=card.gate_vector,
        checks=_build_checks(card),
        termination=_build_termination(evidence),
        event_counts={_key(name): count for name, count in sorted(evidence.facts.event_counts.items())},
        alert_counts={_key(rule): count for rule, count in evidence.facts.alert_counts.items()},
        tool_calls=evidence.facts.work.tool_calls,
        test_cycles=evidence.facts.work.test_cycles,
        work=_build_work(evidence.facts.work),
        durations=_build_durations(evidence, card),
        interventions=_build_interventions(evidence),
        cost=card.cost,
        deviations=card.deviations,
        attribution=UNSET
        if manifest is None or manifest.schema == "repotrial/manifest@1"
        else build_failure_attribution(evidence, card.checks, card.attribution),
        evidence=_build_trace_identity(evidence),
        score_digest=digest_bytes(render_document(card)),
    )


def _key(name: str) -> str:
    """Names of events and rules as keys of a canonical document."""
    return name.encode("ascii", "backslashreplace").decode("ascii")


def _build_trees(evidence: Evidence, card: ScoreCard) -> TreeIdentity:
    unread = Unknown(reason="the manifest does not say")
    repository = evidence.manifest.repository if isinstance(evidence.manifest, Manifest) else unread
    patch = evidence.patch
    final = None if patch is None else patch.event.tree_digest
    return TreeIdentity(
        commit=repository.commit if isinstance(repository, GitIdentity) else unread,
        base_tree_digest=repository if isinstance(repository, Unknown) else repository.tree_digest,
        final_tree_digest=Unknown(reason="the change was not applied") if final is None else final,
        change_digest=card.identity.change_digest,
    )


def _build_checks(card: ScoreCard) -> tuple[CheckSummary, ...]:
    return tuple(
        CheckSummary(
            check=result.check,
            verdict=result.verdict,
            attempts=result.attempts,
            wall_us=result.wall_us,
            judge=result.judge,
            attribution=result.attribution,
        )
        for result in card.checks
    )


def _build_termination(evidence: Evidence) -> TerminationSummary | Unknown:
    termination = evidence.termination
    if termination is None:
        return Unknown(reason="no single termination was recorded")
    event = termination.event
    return TerminationSummary(
        seq=termination.seq,
        category=event.category,
        nature=event.nature,
        code=event.code,
        rationale=build_line(event.rationale),
        evidence=event.evidence,
    )


def _build_durations(evidence: Evidence, card: ScoreCard) -> Durations:
    facts = evidence.facts
    unseen = Unknown(reason="the phase did not begin or did not end")
    return Durations(
        acting_us=unseen if facts.acting_us is None else facts.acting_us,
        accepting_us=unseen if facts.accepting_us is None else facts.accepting_us,
        tools_us=facts.work.tool_us,
        checks_us=sum(result.wall_us for result in card.checks),
    )


def _build_work(work: Work) -> WorkSummary | msgspec.UnsetType:
    if not work.is_witnessed:
        return msgspec.UNSET
    times = work.stage_us
    return WorkSummary(
        failed_test_cycles=work.failed_test_cycles,
        unknown_test_cycles=work.unknown_test_cycles,
        stages=times
        if isinstance(times, Unknown)
        else tuple(StageTime(stage=stage, wall_us=wall_us) for stage, wall_us in times.items()),
        lines_before_first_test=work.lines_before_first_test,
        last_green=work.last_green,
        first_red=work.first_red_after_green,
    )


def _build_interventions(evidence: Evidence) -> tuple[InterventionSummary, ...]:
    rules = {alert.seq: alert.rule for alert in evidence.facts.alerts}
    found = []
    for item in evidence.facts.interventions[:_MOST]:
        basis = item.event.basis
        seq = basis.alert if isinstance(basis, OnAlert) else basis.decision
        found.append(
            InterventionSummary(
                seq=item.seq,
                action=str(item.event.action.__struct_config__.tag),
                is_effective=item.event.effective,
                basis=seq,
                rule=rules.get(seq) or Unknown(reason="no alert asked for it"),
            )
        )
    return tuple(found)


def _build_trace_identity(evidence: Evidence) -> TraceIdentity:
    head = evidence.head
    return TraceIdentity(
        manifest_digest=evidence.manifest_digest,
        event_count=head if isinstance(head, Unknown) else head.count,
        head_hash=head if isinstance(head, Unknown) else head.hash,
        seal=evidence.seal,
    )


SCORE_WRITE = ErrorCode(
    "score-write",
    MachineError,
    "The score card or the report cannot be written into the run directory.",
    hint="make room, fix the permissions, or score a copy of the directory",
)


def write_verdict(run_directory: Path, evidence: Evidence, card: ScoreCard) -> None:
    """The same for a run that was read and judged before.

    Raises:
        SCORE_WRITE: the machine does not let us write.
    """
    report = build_run_report(evidence, card)
    paths = RunPaths(run_directory)
    try:
        write_atomic(paths.score, render_document(card))
        write_atomic(paths.report, render_document(report))
    except OSError as error:
        raise SCORE_WRITE.error(f"{run_directory}: expected to write the score, found: {error}") from error
