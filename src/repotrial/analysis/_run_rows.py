"""One run in one flat row: for data frames, spreadsheets and tables of pages."""

from __future__ import annotations

import msgspec

from repotrial._core.absence import Unknown
from repotrial.change import scan_headers
from repotrial.score import JudgedRun, Scorable

_US_PER_SECOND = 1_000_000


class RunRow(msgspec.Struct, frozen=True, kw_only=True):
    """One run; null where no record states a value."""

    directory: str
    """Where it is."""
    run_id: str | None
    """The attempt."""
    contract: str | None
    """The contract's id."""
    contract_version_id: str | None
    """Its version: results of different versions are not pooled unasked."""
    agent: str | None
    """Who worked."""
    agent_version: str | None
    """Which of that name, exactly."""
    model: str | None
    """The model that it was to ask."""
    upstream: str | None
    """Who answered for the model: a provider, a script or a recording."""
    replicate: int | None
    """Counted from 0."""
    status: str
    """success, failure, acceptance-error or invalid."""
    ended: str
    """Why it ended: one word."""
    fault: str | None
    """Whose fault an acceptance error is; null if the run is invalid."""
    patch: str
    """Gate G1: passed, failed or errored."""
    build: str
    """Gate G2."""
    acceptance: str
    """Gate G3."""
    safety: str
    """Gate G4."""
    score: float | None
    """s; null if some gate does not pass."""
    tags: str
    """Failure modes, separated by spaces."""
    cost_usd: float | None
    """Models, in money; notional where no provider was paid."""
    tokens: int | None
    """Of all model calls."""
    tool_calls: int | None
    """Calls of tools."""
    wall_seconds: float | None
    """The agent's time by the clock."""
    acting_seconds: float | None
    """From the start of acting to the start of acceptance."""
    accepting_seconds: float | None
    """From the start of acceptance to sealing."""
    files_changed: int | None
    """Files that the change touches."""
    started_at_us: int | None
    """Microseconds since the epoch."""
    why: str | None
    """The first reason why it is no success; null if it is one."""
    trust: str
    """Who vouches for the record: its seal by a key that is believed, or why there is none."""
    is_believed: bool
    """Whether a success of this record counts."""
    assurance: str | None
    """How far the verdict is protected against the code that it judges: outside, twins or bare."""
    twins: int | None
    """Tests with wrong expectations in the weakest check that the verdict rests on."""
    head_hash: str | None
    """Hash of the last verified event: the evidence that all of this was computed from."""


def build_run_row(run: JudgedRun) -> RunRow:
    """A judged run as a row; nothing is computed anew."""
    entry, card = run.entry, run.card
    cost, facts = card.cost, run.evidence.facts
    gates = card.gate_vector
    return RunRow(
        directory=entry.directory,
        run_id=entry.run_id,
        contract=entry.contract,
        contract_version_id=entry.contract_version_id,
        agent=entry.agent,
        agent_version=entry.agent_version,
        model=entry.model,
        upstream=entry.upstream,
        replicate=entry.replicate,
        status=entry.status,
        ended=run.cause.cause,
        fault=card.status.fault if isinstance(card.status, Scorable) else None,
        patch=gates[0],
        build=gates[1],
        acceptance=gates[2],
        safety=gates[3],
        score=None if entry.score is None else float(entry.score),
        tags=" ".join(entry.tags),
        cost_usd=None if isinstance(cost.cost_usd, Unknown) else float(cost.cost_usd),
        tokens=None if isinstance(cost.tokens, Unknown) else cost.tokens,
        tool_calls=None if isinstance(cost.tool_calls, Unknown) else cost.tool_calls,
        wall_seconds=None if isinstance(cost.wall_us, Unknown) else cost.wall_us / _US_PER_SECOND,
        acting_seconds=None if facts.acting_us is None else facts.acting_us / _US_PER_SECOND,
        accepting_seconds=None if facts.accepting_us is None else facts.accepting_us / _US_PER_SECOND,
        files_changed=_count_files(run.evidence.change),
        started_at_us=entry.started_at_us,
        why=entry.why,
        trust=run.trust,
        is_believed=run.is_believed,
        assurance=entry.assurance,
        twins=entry.twins,
        head_hash=None if isinstance(card.identity.head_hash, Unknown) else card.identity.head_hash,
    )


def _count_files(change: bytes | Unknown) -> int | None:
    return None if isinstance(change, Unknown) else sum(1 for _ in scan_headers(change))
