"""Many runs, in a few figures that name what they were taken of (P5, B9), and in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.display import shorten_digests
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.seed import ROOT_SEED
from repotrial.score import (
    NO_RUNS,
    AgentEffort,
    Aggregate,
    JudgedRun,
    RunEntry,
    RunFilter,
    Scorable,
    build_aggregate,
    build_effort,
    find_repeated,
    find_status,
    identify_agent,
    iter_judged_runs,
    label_agents,
)
from repotrial.trace import Manifest

if TYPE_CHECKING:
    from repotrial.stats import Cluster, Estimate, PairedComparison
from collections.abc import Iterator

from repotrial.score import describe_answered_by, is_notional

AGENT_UNKNOWN = ErrorCode(
    "agent-unknown",
    UsageError,
    "No agent of that name was put on trial, or several were.",
    hint="name an agent as the summary does, or by as much of its beginning as no other has",
)


class AgentSummary(msgspec.Struct, frozen=True, kw_only=True):
    """How one agent did."""

    agent: str
    """Its name; with its version, where several have that name."""
    upstream: str | None
    """Who answered for its model, as the runs recorded it; null if none was to be asked."""
    attempted: int
    """Runs that count."""
    success: int
    """All gates pass."""
    failure: int
    """Some gate does not."""
    acceptance_error: int
    """Some check did not complete."""
    invalid: int
    """Nothing can be said."""
    machine_faults: int
    """Acceptance errors that a control execution lays to the machine; not in the rate."""
    rate: Estimate | NotComputable
    """Successes over all attempted runs, without machine faults; contracts are the sampling units."""
    unanswered: int
    """Runs in which no model ever answered; they count, and the operator should look at them first."""
    effort: AgentEffort
    """What these runs took, and what went wrong in them."""

    @property
    def answered_by(self) -> str:
        """The model source, and what that makes of the cost; a dash if no model was asked."""
        return describe_answered_by(self.upstream)


class PairedSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One agent less another, contract by contract."""

    one: str
    """The first agent."""
    other: str
    """The second agent."""
    comparison: PairedComparison
    """The difference, and tests of it."""

    def describe(self) -> Iterator[str]:
        """Lines for a terminal and a page: a title, the difference, its tests, what was left out."""
        found = self.comparison
        one, other = shorten_digests(self.one), shorten_digests(self.other)
        contracts = "1 contract" if found.n_pairs == 1 else f"{found.n_pairs} contracts"
        yield f"{one} less {other}, over {contracts} that both have"
        difference = found.difference
        if isinstance(difference, NotComputable):
            yield f"not computable: {difference.reason}"
        else:
            interval = difference.interval
            reach = ""
            if not isinstance(interval, NotComputable):
                reach = (
                    f", 95 % interval {interval.low:+.1%} to {interval.high:+.1%} ({interval.method.value})"
                )
            yield f"{difference.value:+.1%}{reach}"
        for test in (found.mcnemar, found.sign_flip):
            if not isinstance(test, NotComputable):
                yield f"p = {test.p_value:.4f} ({test.method.value})"
        for name, unmatched in ((one, found.unmatched_a), (other, found.unmatched_b)):
            if unmatched:
                yield f"left out, only {name} has them: {', '.join(unmatched)}"


class RunsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `run summary` found."""

    directory: str
    """Where the runs are."""
    runs: int
    """Run directories, all of them."""
    repeated: tuple[str, ...]
    """Directories that do not count: the operator or the machine ended them before an agent could, or before
    they were sealed, and another attempt was carried through."""
    mixed_conditions: dict[str, tuple[str, ...]]
    """Contracts whose runs are not all of one comparability class, each with what differs between them, as
    paths in their manifests (P30)."""
    agents: tuple[AgentSummary, ...]
    """By agent, over all contracts."""
    aggregate: Aggregate
    """By agent and contract version, categories and denominators apart (P5)."""
    paired: PairedSummary | None
    """None if no comparison was asked for."""

    @property
    def notional_remark(self) -> str | None:
        """Agents whose model costs are notional; None if there are none."""
        names = [shorten_digests(found.agent) for found in self.agents if is_notional(found.upstream)]
        if not names:
            return None
        return (
            f"in the runs of {', '.join(names)} a script or a recording answered for the model: "
            "priced as if its provider had, and nobody was paid"
        )


class CollectedSummary(NamedTuple):
    """A summary with the runs behind it."""

    summary: RunsSummary
    entries: dict[str, tuple[RunEntry, ...]]
    """All that count, by agent as the summary names it."""


def summarize_runs(
    directory: Path,
    *,
    wanted: RunFilter | None = None,
    compare: tuple[str, str] | None = None,
    pool_versions: bool = False,
) -> CollectedSummary:
    """Judge all runs in a directory anew, and count.

    Args:
        directory: Where they are.
        wanted: Which of them.
        compare: Two agents by name.
        pool_versions: Whether versions of one contract are counted together; the result is labeled then.

    Raises:
        NO_RUNS: there are none.
        AGENT_UNKNOWN: an agent that is to be compared is not there.
        MIXED_VERSIONS: one contract occurs in several versions, and pooling was not asked for.
    """
    chosen = wanted or RunFilter()
    everything = _collect_wanted(directory, chosen)
    repeated = find_repeated(everything)
    counted = [run for run in everything if run.directory not in repeated]
    by_agent = _group_by_agent(counted)
    summary = RunsSummary(
        directory=str(directory),
        runs=len(everything),
        repeated=tuple(sorted(map(str, repeated))),
        mixed_conditions=_find_mixed_conditions(counted),
        agents=tuple(_summarize(name, runs) for name, runs in by_agent.items()),
        aggregate=build_aggregate(
            {name: [run.card for run in runs] for name, runs in by_agent.items()},
            pool_versions=pool_versions,
        ),
        paired=None if compare is None else _compare(by_agent, *compare),
    )
    entries = {name: tuple(run.entry for run in runs) for name, runs in by_agent.items()}
    return CollectedSummary(summary, entries)


def _collect_wanted(directory: Path, wanted: RunFilter) -> list[JudgedRun]:
    runs = list(iter_judged_runs(directory))
    chosen = [run for run in runs if wanted.admits(run.entry)]
    if chosen:
        return chosen
    entries = [run.entry for run in runs]
    agents = ", ".join(sorted({entry.agent or "?" for entry in entries}))
    contracts = ", ".join(sorted({entry.contract_label for entry in entries}))
    raise NO_RUNS.error(
        f"{directory}: expected runs that fit --agent and --contract, found none among "
        f"those of the agents: {agents}; on the contracts: {contracts}",
        hint="name one of these with --agent or --contract, or leave the option out",
    )


def _group_by_agent(runs: Iterable[JudgedRun]) -> dict[str, list[JudgedRun]]:
    groups: dict[tuple[str, str], list[JudgedRun]] = {}
    for run in runs:
        groups.setdefault(identify_agent(run.entry), []).append(run)
    labels = label_agents([group[0].entry for group in groups.values()])
    return {label: group for _, label, group in sorted(zip(groups, labels, groups.values(), strict=True))}


def _summarize(name: str, runs: Sequence[JudgedRun]) -> AgentSummary:
    from repotrial.stats import estimate_clustered_rate

    words = [find_status(run.card) for run in runs]
    return AgentSummary(
        agent=name,
        upstream=runs[0].entry.upstream,
        attempted=len(runs),
        success=words.count("success"),
        failure=words.count("failure"),
        acceptance_error=words.count("acceptance-error"),
        invalid=words.count("invalid"),
        machine_faults=sum(_is_machines_fault(run) for run in runs),
        rate=estimate_clustered_rate(_build_clusters(runs)),
        unanswered=sum(run.entry.is_unanswered for run in runs),
        effort=build_effort([run.card for run in runs]),
    )


def _build_clusters(runs: Iterable[JudgedRun]) -> tuple[Cluster, ...]:
    from repotrial.stats import build_clusters

    return build_clusters(
        (run.entry.contract or "", float(find_status(run.card) == "success"))
        for run in runs
        if not _is_machines_fault(run)
    )


def _is_machines_fault(run: JudgedRun) -> bool:
    return isinstance(run.card.status, Scorable) and run.card.status.fault == "machine"


def _find_mixed_conditions(runs: Iterable[JudgedRun]) -> dict[str, tuple[str, ...]]:
    classes: dict[str, dict[str, Manifest]] = {}
    for run in runs:
        if isinstance(run.evidence.manifest, Manifest) and isinstance(run.card.status, Scorable):
            manifest = run.evidence.manifest
            found = classes.setdefault(manifest.contract.id, {})
            found.setdefault(manifest.comparability_class, manifest)
    return {
        contract: _list_differing([*found.values()])
        for contract, found in sorted(classes.items())
        if len(found) > 1
    }


def _list_differing(manifests: Sequence[Manifest]) -> tuple[str, ...]:
    first, *others = manifests
    fields = {difference.field for other in others for difference in first.list_differences(other)}
    return tuple(sorted(fields))


def _compare(by_agent: Mapping[str, Sequence[JudgedRun]], one: str, other: str) -> PairedSummary:
    from numpy.random import SeedSequence

    from repotrial.stats import compare_paired

    one, other = (_find_agent(by_agent, name) for name in (one, other))
    comparison = compare_paired(
        _build_clusters(by_agent[one]),
        _build_clusters(by_agent[other]),
        seed_sequence=SeedSequence(ROOT_SEED),
    )
    return PairedSummary(one=one, other=other, comparison=comparison)


def _find_agent(names: Iterable[str], wanted: str) -> str:
    """The agent of that name, or the only one whose name begins so, as it is written or as people see it."""
    labels = {name: shorten_digests(name) for name in names}
    exact = [name for name, label in labels.items() if wanted in (name, label)]
    begun = exact or [
        name for name, label in labels.items() if name.startswith(wanted) or label.startswith(wanted)
    ]
    if len(begun) == 1:
        return begun[0]
    shown = ", ".join(labels[name] for name in begun or labels)
    if begun:
        raise AGENT_UNKNOWN.error(f"expected one agent, found that {wanted!r} may be any of: {shown}")
    raise AGENT_UNKNOWN.error(f"expected one of: {shown}; found {wanted!r}")
