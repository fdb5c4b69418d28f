"""How one agent did over its planned runs, and two of them against each other (P5)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.display import shorten_digests
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.seed import ROOT_SEED
from repotrial.score import (
    AgentEffort,
    Cause,
    PlannedOutcome,
    build_effort,
    describe_answered_by,
    find_status,
)

if TYPE_CHECKING:
    from repotrial.stats import Cluster, Estimate, PairedComparison

_SIGNIFICANT: Final = 0.05
WordT = TypeVar("WordT", bound=str)

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
    planned: int
    """Places in the plan; each counts by its first attempt that is not excused."""
    attempts: int
    """Run directories: attempts at them."""
    attempted: int
    """Planned runs that have an attempt that counts."""
    success: int
    """All gates pass, and the record is sealed by a key that is believed."""
    failure: int
    """Some gate does not."""
    acceptance_error: int
    """Some check did not complete."""
    invalid: int
    """Nothing can be said, and the attempt is not excused."""
    policy_failures: int
    """Failures in which every check passes, and only the fourth gate does not."""
    indeterminate: int
    """Planned runs without anything that can be believed: all attempts are excused, or the seal is missing,
    broken or by an unknown key."""
    excused: dict[Cause, int]
    """Attempts that their cause excuses, by cause; not in any rate."""
    repeats: int
    """Attempts beyond the first; they cost the study, not the agent."""
    retries: int
    """Exchanges with the provider that met trouble, in all attempts."""
    machine_faults: int
    """Attempts that are excused because the machine was at fault."""
    rate: Estimate | NotComputable
    """Successes over all planned runs; contracts are the sampling units. The worst case: indeterminate runs
    count 0."""
    best_case: float | NotComputable
    """The same share, if every indeterminate run were a success."""
    first_attempts: float | NotComputable
    """The share of planned runs whose first attempt alone is a success."""
    unanswered: int
    """Runs in which no model ever answered; they count, and the operator should look at them first."""
    effort: AgentEffort
    """What these runs took, and what went wrong in them."""

    @property
    def answered_by(self) -> str:
        """The model source, and what that makes of the cost; a dash if no model was asked."""
        return describe_answered_by(self.upstream)

    def describe_counting(self) -> Iterator[str]:
        """What a reader must know of how its runs were counted; nothing where each has one plain attempt."""
        if self.excused:
            listed = ", ".join(f"{cause} {number}" for cause, number in self.excused.items())
            yield f"excused attempts, in no rate: {listed}; {self.repeats} repeat(s)"
            if not isinstance(self.first_attempts, NotComputable):
                yield f"by first attempts alone the rate is {self.first_attempts:.1%}"
        if self.indeterminate and not isinstance(self.best_case, NotComputable):
            yield (
                f"{self.indeterminate} planned run(s) are indeterminate and count 0; "
                f"in the best case the rate is {self.best_case:.1%}"
            )
        if self.policy_failures:
            yield f"{self.policy_failures} failure(s) pass every check and break a rule of the policy"
        if self.retries:
            yield f"{self.retries} exchange(s) with the provider met trouble"


class PairedSummary(msgspec.Struct, frozen=True, kw_only=True):
    """One agent less another, contract by contract."""

    one: str
    """The first agent."""
    other: str
    """The second agent."""
    comparison: PairedComparison
    """The difference, and tests of it."""
    repeats_p: float
    """Fisher's exact test of the numbers of excused attempts in both arms."""

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
        if self.repeats_p < _SIGNIFICANT:
            yield (
                f"the arms differ in excused attempts beyond chance (p = {self.repeats_p:.4f}, Fisher's "
                "exact test): what excused them may have favored one"
            )
        for name, unmatched in ((one, found.unmatched_a), (other, found.unmatched_b)):
            if unmatched:
                yield f"left out, only {name} has them: {', '.join(unmatched)}"


def count_words(words: Iterable[WordT]) -> dict[WordT, int]:
    return dict(sorted(Counter(words).items()))


def summarize_agent(name: str, planned: Sequence[PlannedOutcome]) -> AgentSummary:
    from repotrial.stats import estimate_clustered_rate

    attempts = [run for each in planned for run in each.attempts]
    believed = [each.counted for each in planned if each.counted is not None and not each.is_indeterminate]
    words = [find_status(run.card) for run in believed]
    excused = count_words(run.cause.cause for run in attempts if run.cause.is_excused)
    firsts = [each.attempts[0] for each in planned]
    return AgentSummary(
        agent=name,
        upstream=attempts[0].entry.upstream,
        planned=len(planned),
        attempts=len(attempts),
        attempted=sum(each.counted is not None for each in planned),
        success=words.count("success"),
        failure=words.count("failure"),
        acceptance_error=words.count("acceptance-error"),
        invalid=words.count("invalid"),
        policy_failures=sum(run.entry.reason == "policy" for run in believed),
        indeterminate=sum(each.is_indeterminate for each in planned),
        excused=excused,
        repeats=len(attempts) - len(planned),
        retries=sum(run.entry.retries for run in attempts),
        machine_faults=excused.get("machine", 0),
        rate=estimate_clustered_rate(_build_clusters(planned)),
        best_case=_share(each.could_be_success for each in planned),
        first_attempts=_share(run.is_success and run.is_believed for run in firsts),
        unanswered=sum(run.entry.is_unanswered for run in believed),
        effort=build_effort([run.card for run in believed]),
    )


def _share(flags: Iterable[bool]) -> float | NotComputable:
    values = [*flags]
    return sum(values) / len(values) if values else NotComputable("no run was planned")


def _build_clusters(planned: Iterable[PlannedOutcome]) -> tuple[Cluster, ...]:
    from repotrial.stats import build_clusters

    return build_clusters((each.attempts[0].entry.contract or "", float(each.is_success)) for each in planned)


def compare_agents(by_agent: Mapping[str, Sequence[PlannedOutcome]], one: str, other: str) -> PairedSummary:
    from numpy.random import SeedSequence

    from repotrial.stats import compare_paired

    one, other = (_find_agent(by_agent, name) for name in (one, other))
    comparison = compare_paired(
        _build_clusters(by_agent[one]),
        _build_clusters(by_agent[other]),
        seed_sequence=SeedSequence(ROOT_SEED),
    )
    tables = [_count_excused(by_agent[name]) for name in (one, other)]
    return PairedSummary(
        one=one, other=other, comparison=comparison, repeats_p=_test_exactly(*tables[0], *tables[1])
    )


def _count_excused(planned: Iterable[PlannedOutcome]) -> tuple[int, int]:
    flags = [run.cause.is_excused for each in planned for run in each.attempts]
    return sum(flags), len(flags)


def _test_exactly(first: int, of_first: int, second: int, of_second: int) -> float:
    """Fisher's exact test, two-sided, of two shares."""
    hits, total = first + second, of_first + of_second

    def weigh(count: int) -> int:
        return math.comb(of_first, count) * math.comb(of_second, hits - count)

    seen = weigh(first)
    tables = [weigh(count) for count in range(max(0, hits - of_second), min(hits, of_first) + 1)]
    return sum(table for table in tables if table <= seen) / math.comb(total, hits)


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
