"""Runs in a line each: what lists, tables and summaries show of a score card."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import EvidenceError
from repotrial.api._directories import build_run_paths, find_run_directories
from repotrial.score import (
    AgentIdentity,
    Evidence,
    Graded,
    InvalidReason,
    Scorable,
    ScoreCard,
    Verdict,
    build_score_card,
    load_evidence,
    shorten_version,
    write_verdict,
)
from repotrial.trace import Manifest

__all__ = [
    "ChangeLostError",
    "JudgedRun",
    "RunEntry",
    "RunFilter",
    "RunStatusWord",
    "ScoredRun",
    "find_status",
    "identify_agent",
    "iter_judged_runs",
    "judge_run",
    "label_agents",
    "label_versions",
    "list_runs",
    "load_change",
    "score_run",
    "shorten_contract",
]

RunStatusWord: TypeAlias = Literal["success", "failure", "acceptance-error", "invalid"]


_EMPTY = digest_bytes(b"")


class ChangeLostError(EvidenceError):
    """The record speaks of a change, and `change.patch` is gone, cannot be read, or is another one."""

    code = "change-lost"
    default_hint = (
        "restore change.patch from the original run directory; check it with `repotrial run verify`"
    )


class RunEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One run directory."""

    directory: str
    """Where it is."""
    run_id: str | None
    """The attempt; null where nothing says it, here and below."""
    contract: str | None
    """The contract's id."""
    contract_version_id: str | None
    """Its version."""
    agent: str | None
    """Who worked."""
    agent_version: str | None
    """Which of that name, exactly."""
    model: str | None
    """The model that it was to ask; null where none, or nobody knows."""
    replicate: int | None
    """Counted from 0."""
    status: RunStatusWord
    """The verdict (P4)."""
    gates: tuple[Verdict, ...]
    """G1 to G4."""
    score: str | None
    """s; null where some gate does not pass."""
    tags: tuple[str, ...]
    """Failure modes."""
    started_at_us: int | None
    """Microseconds since the epoch."""
    why: str | None
    """The first reason why it is no success, how it ended before all; null where it is one."""
    is_stopped: bool
    """Whether the operator stopped it before it was judged."""
    upstream: str | None
    """Who answered for the model, as the run recorded it: a provider, a script or a recording; null where no
    model was to be asked."""
    is_unanswered: bool
    """Whether the agent asks a model and none ever answered: a wrong key looks like a helpless agent."""


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
        from repotrial.report import order_reasons  # with it comes a template engine

        return order_reasons(self.evidence, self.card)


class ScoredRun(msgspec.Struct, frozen=True, kw_only=True):
    """What `run score` computed of one directory."""

    directory: str
    """Where it is, with `score.json` and `report.json` in it."""
    entry: RunEntry
    """In short."""
    card: ScoreCard
    """All of it."""


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
    from repotrial.report import shorten_digests  # with it comes a template engine

    whole = "@".join(identify_agent(entry))
    return entry.agent or "", whole, shorten_digests(whole)


def shorten_contract(entry: RunEntry) -> str:
    """A contract with its version, as `RunFilter` takes it."""
    return f"{entry.contract or '?'}@{shorten_version(entry.contract_version_id or '?')}"


def judge_run(directory: Path) -> JudgedRun:
    """Read a run directory and compute its score card; nothing is written.

    Raises:
        RunDirectoryMissingError: there is none.
    """
    evidence = load_evidence(build_run_paths(directory).root)
    return JudgedRun(directory, evidence, build_score_card(evidence))


def score_run(directory: Path) -> ScoredRun:
    """Compute the score card and the report of a run anew, and put both into its directory."""
    run = judge_run(directory)
    write_verdict(run.directory, run.evidence, run.card)
    return ScoredRun(directory=str(directory), entry=run.entry, card=run.card)


def load_change(directory: Path) -> bytes:
    """The change that was judged, as a patch; empty where the run left none, or ended before.

    Raises:
        RunDirectoryMissingError: there is no run.
        ChangeLostError: there was a change, and the file does not have it.
    """
    paths = build_run_paths(directory)
    evidence = load_evidence(paths.root)
    change = evidence.change
    recorded = None if evidence.patch is None else evidence.patch.event.patch_digest
    if isinstance(change, Unknown):
        # Without a file: a change that the record says was empty, or a run that ended before there was one.
        if recorded == _EMPTY or (recorded is None and not os.path.lexists(paths.change)):
            return b""
        raise ChangeLostError(f"{paths.root}/{change.reason}; the record speaks of a change")
    if recorded is not None and digest_bytes(change) != recorded:
        raise ChangeLostError(
            f"{paths.change}: expected the change that was judged, {recorded}, found {digest_bytes(change)}"
        )
    return change


def iter_judged_runs(directory: Path) -> Iterator[JudgedRun]:
    """Every run directory in a directory, by name; the directory itself, where it is one.

    Raises:
        RunDirectoryMissingError: it is no directory.
        NoRunsError: there are none.
    """
    for run in find_run_directories(directory):
        yield judge_run(run)


def list_runs(directory: Path, wanted: RunFilter) -> list[RunEntry]:
    """The runs in a directory that are wanted, each judged anew."""
    return [entry for run in iter_judged_runs(directory) if wanted.admits(entry := run.entry)]


def _build_entry(run: JudgedRun) -> RunEntry:
    from repotrial.report import find_stop, find_upstream  # with it comes a template engine

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
