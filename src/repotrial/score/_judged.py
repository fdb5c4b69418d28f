"""A run, read and judged anew, and the same in a line: every list, table and summary begins here."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final, Literal, NamedTuple, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.display import shorten_digests, shorten_version
from repotrial.score._assurance import Assurance, AssuranceLevel, find_assurance
from repotrial.score._card import AgentIdentity, ScoreCard, build_score_card
from repotrial.score._cause import RunCause, find_cause
from repotrial.score._cause_rules import Cause
from repotrial.score._evidence import Evidence, InvalidReason, Verdict
from repotrial.score._gates import Invalid, Scorable
from repotrial.score._graded import Graded
from repotrial.score._model_source import (
    describe_answered_by,
    describe_cost,
    describe_model_source,
    find_upstream,
)
from repotrial.score._records import build_run_paths, find_run_directories, load_evidence
from repotrial.score._worker_keys import iter_vouched
from repotrial.signing import Trust, TrustedKeys
from repotrial.trace import Manifest

RunStatusWord: TypeAlias = Literal["success", "failure", "acceptance-error", "invalid"]


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run directory."""

    directory: str
    """Where it is."""
    run_id: str | None
    """The attempt; null if nothing says it, here and below."""
    contract: str | None
    """The contract's id."""
    contract_version_id: str | None
    """Its version."""
    agent: str | None
    """Who worked."""
    agent_version: str | None
    """Which of that name, exactly."""
    model: str | None
    """The model that it was to ask; None if there is none, or it is unknown."""
    replicate: int | None
    """Counted from 0."""
    status: RunStatusWord
    """The verdict (P4)."""
    gates: tuple[Verdict, ...]
    """G1 to G4."""
    score: str | None
    """s; null if some gate does not pass."""
    tags: tuple[str, ...]
    """Failure modes."""
    started_at_us: int | None
    """Microseconds since the epoch."""
    why: str | None
    """The first reason why it is no success, how it ended before all; null if it is one."""
    is_stopped: bool
    """Whether the operator stopped it before it was judged."""
    upstream: str | None
    """Who answered for the model, as the run recorded it: a provider, a script or a recording; None if no
    model was to be asked."""
    deviations: tuple[str, ...]
    """Departures from the protocol, by their codes (X6)."""
    root_seed: int | None
    """From which all randomness was spawned (P8)."""
    cause: Cause
    """Why it ended as it did."""
    is_excused: bool
    """Whether its cause takes the attempt out of the rates, whatever its status (P5)."""
    reason: Literal["policy"] | None
    """`policy`: every check passes, and only the fourth gate does not; null otherwise."""
    trust: Trust
    """Who vouches for the record: only successes of `own` and `listed` ones count as such."""
    retries: int
    """Exchanges with the model's upstream that met trouble; the agent's own retries had to outlive them."""
    is_unanswered: bool
    """Whether the agent asks a model and none ever answered: a wrong key looks like a helpless agent."""
    assurance: AssuranceLevel | None
    """How far the verdict is protected against the code that it judges; null if there is no verdict."""
    twins: int | None
    """Tests with wrong expectations in the weakest check that the verdict rests on; null as above."""

    @property
    def answered_by(self) -> str:
        """The model source, and what that makes of the cost; a dash if no model was asked."""
        return describe_answered_by(self.upstream)

    @property
    def assurance_words(self) -> str:
        """The level, with the number of twins where they are what it rests on; a dash if there is none."""
        if self.assurance is None or self.twins is None:
            return "-"
        return Assurance(level=self.assurance, twins=self.twins).words

    @property
    def contract_label(self) -> str:
        """The contract with its version, as `RunFilter` takes it."""
        return f"{self.contract or '?'}@{shorten_version(self.contract_version_id or '?')}"


class RunFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Which runs are wanted; patterns as the shell has them, none for all."""

    agent: str | None = None
    """A name, or one with its version behind `@`, as `label_agents` has it."""
    contract: str | None = None
    """An id; with `@` behind it, only versions that begin so."""
    status: RunStatusWord | None = None
    tag: str | None = None

    def admits(self, entry: RunEntry) -> bool:
        """Whether a run is wanted."""
        return (
            (self.agent is None or any(fnmatchcase(name, self.agent) for name in _list_names(entry)))
            and self.admits_contract(entry)
            and self.status in (None, entry.status)
            and (self.tag is None or any(fnmatchcase(tag, self.tag) for tag in entry.tags))
        )

    def admits_contract(self, entry: RunEntry) -> bool:
        """Whether a run is on a contract that is wanted."""
        if self.contract is None:
            return True
        name, _, version = self.contract.partition("@")  # no id has one
        found = (entry.contract_version_id or "").removeprefix("sha256:")
        return fnmatchcase(entry.contract or "", name) and found.startswith(version.removeprefix("sha256:"))


def identify_agent(entry: RunEntry) -> tuple[str, str]:
    """Name and version; another model, and who answered for it, make another agent of it."""
    parts = (entry.agent_version, entry.model, entry.upstream)
    return entry.agent or "(unknown)", "/".join(part for part in parts if part is not None)


def label_agents(entries: Sequence[RunEntry]) -> list[str]:
    """For each run its agent; with the version behind `@` where several go by one name."""
    return label_versions([identify_agent(entry) for entry in entries])


def label_versions(agents: Sequence[tuple[str, str]]) -> list[str]:
    """Names; with the version behind `@` where several go by one name."""
    names = Counter(name for name, _ in set(agents))
    return [name if names[name] == 1 else f"{name}@{version}" for name, version in agents]


def _list_names(entry: RunEntry) -> tuple[str, ...]:
    """All that an agent is called in lists and summaries."""
    whole = "@".join(identify_agent(entry))
    return entry.agent or "", whole, shorten_digests(whole)


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
    """That the operator stopped the run before it was judged; null if nothing says so."""
    for alert in evidence.facts.alerts:
        if (alert.monitor, alert.rule) == _STOPPED:
            return _build_stop("stopped by the operator before it was judged", alert.seq)
    end = evidence.termination
    if end is None or (end.event.category, end.event.nature) != ("operator-abort", "none"):
        return None
    rationale = end.event.rationale
    detail = "" if rationale == "stopped by the operator" else f": {rationale}"
    return _build_stop(f"stopped by the operator before the agent was done{detail}", end.seq)


def _build_stop(message: str, seq: int) -> InvalidReason:
    return InvalidReason(code="operator-abort", message=message, seq=seq)


class JudgedRun(NamedTuple):
    """A run directory, read and judged anew."""

    directory: Path
    evidence: Evidence
    card: ScoreCard
    keys: TrustedKeys | None = None
    """Whose seals are believed; None: it was not asked."""

    @property
    def cause(self) -> RunCause:
        """Why it ended, and whether that excuses the attempt."""
        return find_cause(self.evidence, self.card.status)

    @property
    def assurance(self) -> Assurance | NotComputable:
        """How far its verdict is protected against the code that it judges."""
        return find_assurance(self.evidence, self.card)

    @property
    def trust(self) -> Trust:
        """Who vouches for the record."""
        if self.evidence.signer is None:
            return "unsealed" if self.evidence.seal == "absent" else "broken"
        if self.keys is None:
            return "unknown signer"
        # Who took evidence out of a run vouches for what is left of it.
        signers = (self.evidence.signer, *self.evidence.verification.custody.key_ids)
        found = [self._judge_key(self.keys, key_id) for key_id in signers]
        return next((trust for trust in found if trust not in {"own", "listed"}), found[0])

    def _judge_key(self, keys: TrustedKeys, key_id: str) -> Trust:
        """What a key is worth; that of a worker is listed where a key that is believed vouches for it."""
        found = keys.judge(key_id)
        is_vouched = found == "unknown signer" and any(
            worker.key_id == key_id and keys.judge(study.key_id) in {"own", "listed"}
            for worker, study in iter_vouched(self.directory.parent)
        )
        return "listed" if is_vouched else found

    @property
    def is_believed(self) -> bool:
        """Whether its success counts: a seal that holds, by a key that is believed."""
        if self.keys is None:
            return self.evidence.signer is not None
        return self.trust in {"own", "listed"}

    @property
    def is_success(self) -> bool:
        return find_status(self.card) == "success"

    @property
    def entry(self) -> RunEntry:
        """In short."""
        return _build_entry(self)

    @property
    def reasons(self) -> tuple[InvalidReason, ...]:
        """Why it is invalid, how it ended first; none where it is not."""
        return order_reasons(self.evidence, self.card)

    @property
    def ending(self) -> str | None:
        """What ended the run and the fault of an error, in words; None if neither is stated."""
        status = self.card.status
        if isinstance(status, Invalid) or (status.ended_by, status.fault) == ("none", "none"):
            return None
        return f"ended by {status.ended_by}, fault {status.fault}"

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
        return f"model {model}, {who} {describe_model_source(upstream).words}; cost {words}"


def judge_run(directory: Path, keys: TrustedKeys | None = None) -> JudgedRun:
    """Read a run directory and compute its score card; nothing is written.

    Args:
        directory: What the run left.
        keys: Whose seals are believed; None: any seal that holds.

    Raises:
        RUN_DIRECTORY_MISSING: there is none.
    """
    evidence = load_evidence(build_run_paths(directory).root)
    return JudgedRun(directory, evidence, build_score_card(evidence), keys)


def iter_judged_runs(directory: Path, keys: TrustedKeys | None = None) -> Iterator[JudgedRun]:
    """Every run directory in a directory, by name; the directory itself, where it is one.

    Raises:
        RUN_DIRECTORY_MISSING: it is no directory.
        NO_RUNS: there are none.
    """
    for run in find_run_directories(directory):
        yield judge_run(run, keys)


_ONLY_POLICY: Final = ("passed", "passed", "passed", "failed")


def _build_entry(run: JudgedRun) -> RunEntry:
    evidence, card = run.evidence, run.card
    identity = card.identity
    agent = identity.agent if isinstance(identity.agent, AgentIdentity) else None
    status, cause = find_status(card), run.cause
    assurance = None if isinstance(run.assurance, NotComputable) else run.assurance
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
        deviations=tuple(remark.code for remark in card.deviations),
        root_seed=None if isinstance(evidence.spec, Unknown) else evidence.spec.root_seed,
        cause=cause.cause,
        is_excused=cause.is_excused,
        reason="policy" if status == "failure" and card.gate_vector == _ONLY_POLICY else None,
        trust=run.trust,
        retries=sum(evidence.facts.provider.troubles.values()),
        is_unanswered=_is_unanswered(card),
        assurance=None if assurance is None else assurance.level,
        twins=None if assurance is None else assurance.twins,
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
