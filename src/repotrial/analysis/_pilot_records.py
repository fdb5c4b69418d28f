"""What sealed runs show beside outcomes: bounds, endings, curves, phases, strata, baselines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Final, Literal

from repotrial._core.absence import NotComputable
from repotrial._core.errors import RepoTrialError
from repotrial._core.seed import ROOT_SEED
from repotrial.analysis._arms import build_outcome_clusters, describe_arm, describe_spread, spread_amounts
from repotrial.analysis._figures import Number, SpreadFigure
from repotrial.analysis._pilot_results import ArmRecord, ContrastBounds, StratumFigures
from repotrial.analysis._pilot_rubric import describe_rubric
from repotrial.analysis._pilot_runs import ConductedPilot, CountedTrial, find_ending, name_runs
from repotrial.analysis._results import ContrastFigures
from repotrial.analysis._stricter_caps import find_count
from repotrial.cost import Amount, PriceBook
from repotrial.score import JudgedRun, price_run

if TYPE_CHECKING:
    from repotrial.stats import Cluster, Incidence

_FEW_TASKS: Final = 10
_ZERO: Final = Decimal(0)
_PHASES: Final = {"lm": "inference", "exec": "execution", "human": "adjudication", "overhead": "provisioning"}


def describe_record(arm: str, trials: Sequence[CountedTrial], *, level: float, book: PriceBook) -> ArmRecord:
    """All that the runs of an arm show beside their outcomes."""
    successes = sum(one.trial.outcome == "success" for one in trials)
    doubtful = sum(one.is_doubtful for one in trials)
    indeterminate = sum(one.is_indeterminate for one in trials)
    runs = [one.run for one in trials if one.run is not None]
    return ArmRecord(
        arm=arm,
        worst_rate=(successes - doubtful) / len(trials),
        best_rate=(successes + indeterminate) / len(trials),
        doubtful=doubtful,
        endings=_count(map(find_ending, trials)),
        failed_gates=_count(_iter_failed_gates(runs)),
        failure_modes=_count(tag for run in runs for tag in run.entry.tags),
        rubric=describe_rubric(trials),
        time_to_success=_estimate_curve(trials, "wall_seconds", level=level),
        cost_to_success=_estimate_curve(trials, "cost_usd", level=level),
        tokens_per_task=_compute_tokens(trials),
        phases_usd=_add_phases([*runs, *(run for one in trials for run in one.again)], book),
        computed_from=(name_runs(arm),),
    )


def _count(words: Iterator[str] | map[str]) -> dict[str, int]:
    counted = Counter(words)
    return {word: counted[word] for word in sorted(counted)}


def _iter_failed_gates(runs: Sequence[JudgedRun]) -> Iterator[str]:
    for run in runs:
        for gate in run.card.gates:
            if gate.outcome != "passed":
                yield gate.name


def _estimate_curve(
    trials: Sequence[CountedTrial], quantity: Literal["wall_seconds", "cost_usd"], *, level: float
) -> Incidence | NotComputable:
    from numpy.random import SeedSequence

    from repotrial.stats import TimedEnd, estimate_incidence

    ends = []
    for one in trials:
        amount = getattr(one.trial, quantity)
        if one.run is not None and amount is None:
            return NotComputable(reason=f"{quantity} of a run on {one.planned.task} is not known")
        ending = find_ending(one)
        # Indeterminate trials alone are censored, before anything: the curve ends at the rate but for them.
        cause = None if ending == "indeterminate" else ending
        at = 0.0 if amount is None or cause is None else amount
        ends.append(TimedEnd(key=one.planned.task, at=at, cause=cause))
    return estimate_incidence(ends, "success", seed_sequence=SeedSequence(ROOT_SEED), level=level)


def _compute_tokens(trials: Sequence[CountedTrial]) -> Number:
    runs = [one.run for one in trials if one.run is not None]
    counts = [run.card.cost.tokens for run in runs]
    known = [count for count in counts if isinstance(count, int)]
    if not runs or len(known) < len(runs):
        return NotComputable(
            reason=f"the tokens of {len(runs) - len(known)} of {len(runs)} trials are not known"
        )
    return sum(known) / len({one.planned.task for one in trials})


def _add_phases(runs: Sequence[JudgedRun], book: PriceBook) -> dict[str, Number]:
    totals: dict[str, Number] = {}
    sums = dict.fromkeys(_PHASES, _ZERO)
    missing: dict[str, str] = {}
    for run in runs:
        try:
            statement = price_run(run.directory, book).statement
        except RepoTrialError as error:
            missing.update(dict.fromkeys(_PHASES, error.message))
            continue
        for name in _PHASES:
            term = getattr(statement, name)
            if isinstance(term, Amount) and term.unit == "usd":
                sums[name] += Decimal(term.value)
            else:
                reason = "it is in abstract units" if isinstance(term, Amount) else term.reason
                missing.setdefault(name, reason)
    for name, phase in _PHASES.items():
        totals[phase] = NotComputable(reason=missing[name]) if name in missing else float(sums[name])
        if not runs:
            totals[phase] = NotComputable(reason="there are no runs")
    return totals


def describe_strata(pilot: ConductedPilot, trials: Sequence[CountedTrial]) -> tuple[StratumFigures, ...]:
    """Every arm on the tasks of every stratum."""
    groups: dict[tuple[str, str], list[CountedTrial]] = {}
    for one in trials:
        groups.setdefault((one.planned.stratum, one.planned.arm), []).append(one)
    figures = []
    for (stratum, arm), group in sorted(groups.items()):
        own = [one.trial for one in group]
        described = describe_arm(arm, own, level=pilot.level, computed_from=())
        few = described.tasks < _FEW_TASKS
        figures.append(
            StratumFigures(
                stratum=stratum,
                arm=arm,
                rate=described.rate,
                cost_usd=describe_spread(own, "cost_usd"),
                wall_seconds=describe_spread(own, "wall_seconds"),
                tool_calls=_spread_count(group, "tool_calls"),
                failed_check_cycles=_spread_count(group, "failed_check_cycles"),
                caution=f"{described.tasks} tasks: an account of them, hardly of others" if few else "",
            )
        )
    return tuple(figures)


def _spread_count(trials: Sequence[CountedTrial], name: str) -> tuple[SpreadFigure, ...]:
    return spread_amounts([(one.trial.outcome, find_count(one, name)) for one in trials])


def find_already(
    pilot: ConductedPilot, trials: Sequence[CountedTrial], is_such: Callable[[CountedTrial], bool]
) -> tuple[str, ...] | NotComputable:
    """Tasks on which a run of the arm that does nothing is such."""
    idle = [one for one in trials if one.planned.arm == pilot.idle_arm]
    if not any(one.run is not None for one in idle):
        return NotComputable(reason="no arm that does nothing was run")
    return tuple(sorted({one.planned.task for one in idle if one.run is not None and is_such(one)}))


def is_satisfied(one: CountedTrial) -> bool:
    """Whether the contract was met."""
    return one.trial.outcome == "success"


def is_failing_otherwise(one: CountedTrial) -> bool:
    """Whether it failed by something else than the acceptance gate, which is to fail without a change."""
    if one.run is None or one.trial.outcome == "success":
        return False
    outcomes = [gate.outcome for gate in one.run.card.gates]
    return one.trial.outcome in {"error", "invalid"} or outcomes[1] != "passed" or outcomes[3] != "passed"


def bound_contrasts(
    contrasts: Sequence[ContrastFigures], trials: Sequence[CountedTrial], *, level: float
) -> tuple[ContrastBounds, ...]:
    """How far indeterminate and doubtful trials could move each contrast."""
    by_arm: dict[str, list[CountedTrial]] = {}
    for one in trials:
        by_arm.setdefault(one.planned.arm, []).append(one)
    return tuple(_bound(contrast, by_arm, level) for contrast in contrasts)


def _bound(
    contrast: ContrastFigures, by_arm: Mapping[str, Sequence[CountedTrial]], level: float
) -> ContrastBounds:
    sides = by_arm[contrast.first], by_arm[contrast.second]
    ends = [
        _difference(_resolve(sides[0], one), _resolve(sides[1], not one), level)[0] for one in (False, True)
    ]
    return ContrastBounds(
        name=contrast.name, worst=ends[0], best=ends[1], tipping_point=_find_tipping(contrast, sides, level)
    )


def _resolve(trials: Sequence[CountedTrial], succeeded: bool, most: int | None = None) -> tuple[Cluster, ...]:  # noqa: FBT001 - an outcome
    """Outcomes with the first of the open trials, or all of them, resolved so."""
    from repotrial.stats import build_clusters

    left = len(trials) if most is None else most
    values = []
    for one in trials:
        value = one.trial.outcome == "success"
        is_open = one.is_indeterminate if succeeded else one.is_doubtful
        if is_open and left > 0:
            value, left = succeeded, left - 1
        values.append((one.planned.task, float(value)))
    return build_clusters(values)


def _difference(first: Sequence[Cluster], second: Sequence[Cluster], level: float) -> tuple[Number, Number]:
    from numpy.random import SeedSequence

    from repotrial.stats import compare_paired

    found = compare_paired(first, second, seed_sequence=SeedSequence(ROOT_SEED), draws=1, level=level)
    if isinstance(found.difference, NotComputable) or isinstance(found.t_test, NotComputable):
        reason = found.difference if isinstance(found.difference, NotComputable) else found.t_test
        assert isinstance(reason, NotComputable)
        return reason, reason
    return found.difference.value, found.t_test.p_value


def _find_tipping(
    contrast: ContrastFigures, sides: tuple[Sequence[CountedTrial], Sequence[CountedTrial]], level: float
) -> int | NotComputable:
    if isinstance(contrast.difference, NotComputable) or isinstance(contrast.p, NotComputable):
        return NotComputable(reason="the difference is not computable")
    if contrast.p > 1 - level:
        return NotComputable(reason="nothing is told apart that could be undone")
    front, behind = sides if contrast.difference > 0 else sides[::-1]
    lost, gained = sum(one.is_doubtful for one in front), sum(one.is_indeterminate for one in behind)
    if not lost + gained:
        return NotComputable(reason="no trial is indeterminate")
    for count in range(1, lost + gained + 1):
        against = (
            _resolve(front, succeeded=False, most=count),
            _resolve(behind, succeeded=True, most=max(0, count - lost)),
        )
        difference, p = _difference(*against, level)
        if isinstance(difference, float) and isinstance(p, float) and (p > 1 - level or difference <= 0):
            return count
    return NotComputable(reason=f"not even all {lost + gained} of them would undo it")


def build_clusters_of(trials: Sequence[CountedTrial]) -> tuple[Cluster, ...]:
    """Tasks with 1 for each success and 0 for everything else, indeterminate trials included."""
    return build_outcome_clusters(one.trial for one in trials)
