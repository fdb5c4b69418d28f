"""Many runs, in a few figures that name what they were taken of (P5, B9), and in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from repotrial._core.display import shorten_digests
from repotrial.analysis._agents import (
    AgentSummary,
    PairedSummary,
    compare_agents,
    count_words,
    summarize_agent,
)
from repotrial.score import (
    NO_RUNS,
    Aggregate,
    AssuranceLevel,
    Cause,
    JudgedRun,
    PlannedOutcome,
    RunFilter,
    Scorable,
    ScoreCard,
    build_aggregate,
    count_deviations,
    describe_deviations,
    find_uncounted,
    group_attempts,
    identify_agent,
    is_notional,
    iter_judged_runs,
    label_agents,
)
from repotrial.signing import Trust, TrustedKeys
from repotrial.trace import HostEnvironment, Manifest


class RunsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """What `run summary` found."""

    directory: str
    """Where the runs are."""
    runs: int
    """Run directories, all of them."""
    repeated: tuple[str, ...]
    """Directories that do not count: their cause excuses them, or an earlier attempt counts."""
    causes: dict[Cause, int]
    """All attempts, by why they ended."""
    trust: dict[Trust, int]
    """All attempts, by who vouches for the record."""
    assurance: dict[AssuranceLevel, int]
    """Successes that count, by how far they are protected against the code that was judged."""
    mixed_conditions: dict[str, tuple[str, ...]]
    """Contracts whose runs are not all of one comparability class, each with what differs between them, as
    paths in their manifests (P30)."""
    deviations: dict[str, int]
    """Departures from the protocol, each with the number of runs that have it (X6)."""
    root_seeds: tuple[int, ...]
    """All that the runs have; over several of them, every figure is provisional (Q13)."""
    environments: dict[str, int]
    """Environments of the runs that pin constraints only (`image = "host"`), each with its number of runs."""
    agents: tuple[AgentSummary, ...]
    """By agent, over all contracts."""
    aggregate: Aggregate
    """By agent and contract version, categories and denominators apart (P5)."""
    paired: PairedSummary | None
    """None if no comparison was asked for."""

    @property
    def remarks(self) -> tuple[tuple[str, str], ...]:
        """What a reader must know of the conditions, each with a word for it."""
        counted = sum(found.attempted for found in self.agents)
        found = [("deviations", describe_deviations(self.deviations, runs=counted))]
        if (provisional := describe_root_seeds(self.root_seeds)) is not None:
            found.insert(0, ("root seeds", provisional))
        if self.environments:
            ids = ", ".join(f"{shorten_digests(name)} in {n} run(s)" for name, n in self.environments.items())
            text = (
                f"contracts with the host's tools pin constraints; the environment ids that runs had: {ids}"
            )
            found.append(("environment", text))
        if self.assurance:
            levels = ", ".join(f"{number} {level}" for level, number in self.assurance.items())
            found.append(("assurance", f"successes by level: {levels}"))
        return tuple(found)

    @property
    def untrusted(self) -> dict[str, int]:
        """Attempts whose record nothing vouches for, by why."""
        return {word: number for word, number in self.trust.items() if word not in ("own", "listed")}

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
    planned: dict[str, tuple[PlannedOutcome, ...]]
    """What became of each planned run, by agent as the summary names it."""

    @property
    def runs(self) -> dict[str, tuple[JudgedRun, ...]]:
        """The attempts that count, by agent."""
        return {
            name: tuple(each.counted for each in planned if each.counted is not None)
            for name, planned in self.planned.items()
        }


def summarize_runs(
    directory: Path | Sequence[Path],
    *,
    wanted: RunFilter | None = None,
    compare: tuple[str, str] | None = None,
    pool_versions: bool = False,
    keys: TrustedKeys | None = None,
) -> CollectedSummary:
    """Judge all runs in a directory, or in several, anew, and count.

    Args:
        directory: Where they are; run directories themselves may be among several.
        wanted: Which of them.
        compare: Two agents by name.
        pool_versions: Whether versions of one contract are counted together; the result is labeled then.
        keys: Whose seals are believed; None: any seal that holds.

    Raises:
        NO_RUNS: there are none.
        AGENT_UNKNOWN: an agent that is to be compared is not there.
        MIXED_VERSIONS: one contract occurs in several versions, and pooling was not asked for.
    """
    places = [directory] if isinstance(directory, Path) else directory
    named = ", ".join(map(str, places))
    everything = _collect_wanted(places, named, wanted or RunFilter(), keys)
    uncounted = find_uncounted(everything)
    counted = [run for run in everything if run.directory not in uncounted]
    by_agent = {name: group_attempts(runs) for name, runs in _group_by_agent(everything).items()}
    root_seeds = tuple(sorted({seed for run in counted if (seed := run.entry.root_seed) is not None}))
    summary = RunsSummary(
        directory=named,
        runs=len(everything),
        repeated=tuple(sorted(map(str, uncounted))),
        causes=count_words(run.cause.cause for run in everything),
        trust=count_words(run.trust for run in everything),
        assurance=count_words(
            level
            for run in counted
            if run.is_success and run.is_believed and (level := run.entry.assurance) is not None
        ),
        mixed_conditions=find_mixed_conditions(counted),
        deviations=count_deviations(run.entry.deviations for run in counted),
        root_seeds=root_seeds,
        environments=_count_environments(counted),
        agents=tuple(summarize_agent(name, planned) for name, planned in by_agent.items()),
        aggregate=build_aggregate(
            {name: _list_cards(planned) for name, planned in by_agent.items()},
            indeterminate={
                name: [each.attempts[0].card for each in planned if each.is_indeterminate]
                for name, planned in by_agent.items()
            },
            pool_versions=pool_versions,
            provisional=describe_root_seeds(root_seeds),
        ),
        paired=None if compare is None else compare_agents(by_agent, *compare),
    )
    return CollectedSummary(summary, {name: tuple(planned) for name, planned in by_agent.items()})


def _list_cards(planned: Iterable[PlannedOutcome]) -> list[ScoreCard]:
    return [each.counted.card for each in planned if each.counted is not None and not each.is_indeterminate]


def _collect_wanted(
    places: Sequence[Path], named: str, wanted: RunFilter, keys: TrustedKeys | None
) -> list[JudgedRun]:
    found = {run.directory.resolve(): run for place in places for run in iter_judged_runs(place, keys)}
    runs = list(found.values())  # each once, however often it is named
    chosen = [run for run in runs if wanted.admits(run.entry)]
    if chosen:
        return chosen
    entries = [run.entry for run in runs]
    agents = ", ".join(sorted({entry.agent or "?" for entry in entries}))
    contracts = ", ".join(sorted({entry.contract_label for entry in entries}))
    raise NO_RUNS.error(
        f"{named}: expected runs that fit --agent and --contract, found none among "
        f"those of the agents: {agents}; on the contracts: {contracts}",
        hint="name one of these with --agent or --contract, or leave the option out",
    )


def _group_by_agent(runs: Iterable[JudgedRun]) -> dict[str, list[JudgedRun]]:
    groups: dict[tuple[str, str], list[JudgedRun]] = {}
    for run in runs:
        groups.setdefault(identify_agent(run.entry), []).append(run)
    labels = label_agents([group[0].entry for group in groups.values()])
    return {label: group for _, label, group in sorted(zip(groups, labels, groups.values(), strict=True))}


def describe_root_seeds(seeds: Sequence[int]) -> str | None:
    """The label of what is counted over several root seeds (Q13); None where there is one."""
    if len(seeds) <= 1:
        return None
    return f"provisional over the root seeds {', '.join(map(str, seeds))}, until computed again under one"


def _count_environments(runs: Iterable[JudgedRun]) -> dict[str, int]:
    manifests = [run.evidence.manifest for run in runs if isinstance(run.evidence.manifest, Manifest)]
    found = [m.environment.observed_id for m in manifests if isinstance(m.environment, HostEnvironment)]
    return dict(sorted(Counter(found).items()))


def find_mixed_conditions(runs: Iterable[JudgedRun]) -> dict[str, tuple[str, ...]]:
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
