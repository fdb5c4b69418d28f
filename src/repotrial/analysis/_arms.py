"""Figures of one arm: its rate, how alike repeats are, what success costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final, Literal

from repotrial._core.absence import NotComputable
from repotrial._core.seed import ROOT_SEED
from repotrial.analysis._figures import IntervalFigure, Number, RepeatFigure, SpreadFigure
from repotrial.analysis._results import ArmFigures
from repotrial.analysis._trials import Trial

if TYPE_CHECKING:
    from repotrial.stats import Cluster, Estimate

_MOST_K: Final = 10
_SCORABLE: Final = frozenset({"success", "failure", "error"})
_NO_ERROR: Final = NotComputable(reason="the method has no standard error")


def describe_arm(
    name: str,
    trials: Sequence[Trial],
    *,
    level: float,
    role: Literal["candidate", "baseline"] = "candidate",
    computed_from: tuple[str, ...],
) -> ArmFigures:
    """All figures of an arm with at least one trial."""
    from repotrial.stats import Estimate, compute_standard_error, estimate_clustered_rate, estimate_icc

    clusters = build_outcome_clusters(trials)
    words = Counter(trial.outcome for trial in trials)
    rate = estimate_clustered_rate(clusters, level=level)
    assert isinstance(rate, Estimate)
    icc = estimate_icc(clusters, level=level)
    icc_ends = icc if isinstance(icc, NotComputable) else icc.interval
    scorable = build_outcome_clusters(trial for trial in trials if trial.outcome in _SCORABLE)
    return ArmFigures(
        name=name,
        role=role,
        tasks=len(clusters),
        trials=len(trials),
        successes=words["success"],
        failures=words["failure"],
        errors=words["error"],
        invalid=words["invalid"],
        indeterminate=words["indeterminate"],
        rate=build_figure(rate, compute_standard_error(clusters)),
        scorable_rate=_describe_scorable(scorable, level),
        icc=icc if isinstance(icc, NotComputable) else icc.value,
        icc_low=icc_ends if isinstance(icc_ends, NotComputable) else icc_ends.low,
        icc_high=icc_ends if isinstance(icc_ends, NotComputable) else icc_ends.high,
        repeats=_describe_repeats(clusters, level),
        cost_per_success=describe_cost_per_success(trials, level=level),
        cost_usd=describe_spread(trials, "cost_usd"),
        wall_seconds=describe_spread(trials, "wall_seconds"),
        computed_from=computed_from,
    )


def build_outcome_clusters(trials: Iterable[Trial]) -> tuple[Cluster, ...]:
    """Tasks with 1 for each success and 0 for everything else."""
    from repotrial.stats import build_clusters

    return build_clusters((trial.task, float(trial.outcome == "success")) for trial in trials)


def build_figure(found: Estimate, standard_error: Number = _NO_ERROR) -> IntervalFigure:
    """An estimate as a figure."""
    ends = found.interval
    return IntervalFigure(
        estimate=found.value,
        low=ends if isinstance(ends, NotComputable) else ends.low,
        high=ends if isinstance(ends, NotComputable) else ends.high,
        standard_error=standard_error,
        method="none" if isinstance(ends, NotComputable) else ends.method.value,
        n_units=found.n_units,
        n_clusters=found.n_clusters,
    )


def _describe_scorable(clusters: Sequence[Cluster], level: float) -> IntervalFigure | NotComputable:
    from repotrial.stats import compute_standard_error, estimate_clustered_rate

    found = estimate_clustered_rate(clusters, level=level)
    if isinstance(found, NotComputable):
        return NotComputable(reason="no trial is scorable")
    return build_figure(found, compute_standard_error(clusters))


def _describe_repeats(clusters: Sequence[Cluster], level: float) -> tuple[RepeatFigure, ...]:
    from repotrial.stats import estimate_pass_k

    most = max(len(cluster.values) for cluster in clusters)
    figures = []
    for k in range(1, min(most, _MOST_K) + 1):
        one, every = (estimate_pass_k(clusters, k, of=of, level=level) for of in ("any", "all"))
        figures.append(
            RepeatFigure(
                k=k,
                any=one if isinstance(one, NotComputable) else build_figure(one),
                all=every if isinstance(every, NotComputable) else build_figure(every),
            )
        )
    return tuple(figures)


def describe_cost_per_success(trials: Sequence[Trial], *, level: float) -> IntervalFigure | NotComputable:
    """Cost of all trials over successes: only where every trial has a cost."""
    from numpy.random import SeedSequence

    from repotrial.stats import bootstrap_ratio, build_clusters

    costs = [(trial.task, trial.cost_usd) for trial in trials]
    known = [(task, cost) for task, cost in costs if cost is not None]
    if len(known) < len(costs):
        missing = len(costs) - len(known)
        return NotComputable(reason=f"the cost of {missing} of {len(costs)} trials is not known")
    found = bootstrap_ratio(
        build_clusters(known),
        build_outcome_clusters(trials),
        seed_sequence=SeedSequence(ROOT_SEED),
        level=level,
    )
    if isinstance(found, NotComputable):
        return NotComputable(reason="no trial succeeded")
    return build_figure(found)


def describe_spread(
    trials: Sequence[Trial], quantity: Literal["cost_usd", "wall_seconds"]
) -> tuple[SpreadFigure, ...]:
    """Quartiles of an amount over all trials, and over those with each outcome; none where none is known."""
    return spread_amounts([(trial.outcome, getattr(trial, quantity)) for trial in trials])


def spread_amounts(pairs: Sequence[tuple[str, float | None]]) -> tuple[SpreadFigure, ...]:
    """The same of (outcome, amount) pairs; None is an amount that is not known."""
    present = sorted({outcome for outcome, _ in pairs})
    figures = []
    for outcome in ("all", *present) if len(present) > 1 else ("all",):
        group = [amount for word, amount in pairs if outcome in {"all", word}]
        amounts = [amount for amount in group if amount is not None]
        if amounts:
            figures.append(_describe_amounts(outcome, amounts, missing=len(group) - len(amounts)))
    return tuple(figures)


def _describe_amounts(outcome: str, amounts: Sequence[float], *, missing: int) -> SpreadFigure:
    import numpy as np

    lower, median, upper = np.quantile(amounts, (0.25, 0.5, 0.75))
    return SpreadFigure(
        outcome=outcome,
        trials=len(amounts),
        missing=missing,
        lower_quartile=float(lower),
        median=float(median),
        upper_quartile=float(upper),
        maximum=max(amounts),
        total=float(np.sum(amounts)),
    )
