"""Runs, read and judged anew: every list, table and summary begins here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from repotrial._core.absence import Unknown
from repotrial.score._answerer import describe_answerer, describe_cost, find_upstream
from repotrial.score._card import AgentIdentity, ScoreCard, build_score_card
from repotrial.score._directories import build_run_paths, find_run_directories
from repotrial.score._entry import RunEntry, RunStatusWord
from repotrial.score._evidence import Evidence, InvalidReason
from repotrial.score._graded import Graded
from repotrial.score._load import load_evidence
from repotrial.score._reasons import find_stop, order_reasons
from repotrial.score._status import Scorable
from repotrial.trace import Manifest


class JudgedRun(NamedTuple):
    """A run directory, read and judged anew."""

    directory: Path
    evidence: Evidence
    card: ScoreCard

    @property
    def entry(self) -> RunEntry:
        """In short."""
        return _build_entry(self)

    @property
    def reasons(self) -> tuple[InvalidReason, ...]:
        """Why it is invalid, how it ended first; none where it is not."""
        return order_reasons(self.evidence, self.card)

    @property
    def model_use(self) -> str | None:
        """Model, who answered for it, and the cost, in one line; None if no model was to be asked."""
        upstream = find_upstream(self.evidence)
        if upstream is None:
            return None
        agent = self.card.identity.agent
        model = agent.model if isinstance(agent, AgentIdentity) and isinstance(agent.model, str) else "?"
        cost = describe_cost(self.card, upstream)
        words = f"unknown ({cost.reason})" if isinstance(cost, Unknown) else cost
        who = "asked of" if _is_unanswered(self.card) else "answered by"
        return f"model {model}, {who} {describe_answerer(upstream).words}; cost {words}"


def judge_run(directory: Path) -> JudgedRun:
    """Read a run directory and compute its score card; nothing is written.

    Raises:
        RUN_DIRECTORY_MISSING: there is none.
    """
    evidence = load_evidence(build_run_paths(directory).root)
    return JudgedRun(directory, evidence, build_score_card(evidence))


def iter_judged_runs(directory: Path) -> Iterator[JudgedRun]:
    """Every run directory in a directory, by name; the directory itself, where it is one.

    Raises:
        RUN_DIRECTORY_MISSING: it is no directory.
        NO_RUNS: there are none.
    """
    for run in find_run_directories(directory):
        yield judge_run(run)


def _build_entry(run: JudgedRun) -> RunEntry:
    evidence, card = run.evidence, run.card
    identity = card.identity
    agent = identity.agent if isinstance(identity.agent, AgentIdentity) else None
    status = find_status(card)
    return RunEntry(
        directory=str(run.directory),
        run_id=_known(identity.run_id),
        contract=_known(identity.contract_id),
        contract_version_id=_known(identity.contract_version_id),
        agent=None if agent is None else agent.name,
        agent_version=None if agent is None else _known(agent.version),
        model=None if agent is None else _known(agent.model),
        replicate=None if isinstance(evidence.spec, Unknown) else evidence.spec.replicate,
        status=status,
        gates=card.gate_vector,
        score=card.graded.score if isinstance(card.graded, Graded) else None,
        tags=tuple(dict.fromkeys(tag.id for tag in card.tags)),
        started_at_us=evidence.manifest.started_at_us if isinstance(evidence.manifest, Manifest) else None,
        why=None if status == "success" else _find_why(run),
        is_stopped=status == "invalid" and find_stop(evidence) is not None,
        upstream=find_upstream(evidence),
        is_unanswered=_is_unanswered(card),
    )


def _is_unanswered(card: ScoreCard) -> bool:
    """Money was metered, so a model was to be asked, and no token was ever paid for."""
    cost = card.cost
    is_metered = isinstance(cost.cost_usd, str) or isinstance(cost.cost_units, str)
    return (
        isinstance(card.status, Scorable)
        and is_metered
        and (isinstance(cost.tokens, Unknown) or not cost.tokens)
    )


def find_status(card: ScoreCard) -> RunStatusWord:
    return card.status.verdict if isinstance(card.status, Scorable) else "invalid"


def _find_why(run: JudgedRun) -> str | None:
    if reasons := run.reasons:
        return reasons[0].message
    return next((line for gate in run.card.gates if gate.outcome != "passed" for line in gate.why), None)


def _known(value: str | Unknown) -> str | None:
    return None if isinstance(value, Unknown) else value
