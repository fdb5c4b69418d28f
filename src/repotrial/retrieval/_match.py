"""Matched comparisons: the same task under two configurations, one difference for each (R16)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial.retrieval._outcomes import OUTCOMES
from repotrial.retrieval._study import Observation, Study, get_value

if TYPE_CHECKING:
    import numpy as np

    from repotrial.stats import Shift
from hashlib import sha256
from typing import TYPE_CHECKING

from repotrial._core.seed import ROOT_SEED


class StatisticsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How sure, and how hard one tries."""

    draws: int = 2000
    """Resamples for intervals."""
    rearrangements: int = 20_000
    """Random rearrangements for p-values, where they cannot all be counted."""
    level: float = 0.95
    """Of intervals."""


def build_seed(label: str) -> np.random.SeedSequence:
    """A stream for one figure: the same whatever else is computed."""
    import numpy as np

    digest = sha256(label.encode("utf-8", "surrogatepass")).digest()
    return np.random.SeedSequence([ROOT_SEED, *(int.from_bytes(digest[i : i + 4]) for i in range(0, 16, 4))])


def adjust(p_values: Sequence[float | NotComputable]) -> list[float | NotComputable]:
    """Holm's adjustment over those that there are; the others stay as they are."""
    from repotrial.stats import adjust_holm

    known = [p for p in p_values if not isinstance(p, NotComputable)]
    adjusted = iter(adjust_holm(known))
    return [p if isinstance(p, NotComputable) else next(adjusted) for p in p_values]


QUANTITIES: Final = (
    *OUTCOMES,
    "file_recall",
    "mrr",
    "map_score",
    "context_efficiency",
    "ttfr_seconds",
    "ttfr_tokens",
)
"""What is compared, by name."""

_FEWEST: Final = 3


class MatchedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task that both configurations tried."""

    task: str
    """Its name."""
    group: str
    """The run in which both sides are, or all runs of this harness."""
    n_baseline: int
    """Trials with a reward on the side of the baseline; their mean counts."""
    n_treatment: int
    """The same on the other side."""
    baseline: dict[str, float]
    """Means of that side, by quantity; those that it has."""
    treatment: dict[str, float]
    """Means of the other side."""
    deltas: dict[str, float]
    """Treatment less baseline, where both sides have a value."""


class Mismatch(msgspec.Struct, frozen=True, kw_only=True):
    """A task that both tried, under conditions that differ: it enters nothing."""

    task: str
    """Its name."""
    group: str
    """The run."""
    field: str
    """What differs: `model` or `harness`."""
    baseline: str
    """As the baseline has it."""
    treatment: str
    """As the treatment has it."""


class MatchedDelta(msgspec.Struct, frozen=True, kw_only=True):
    """Treatment less baseline, for one quantity, over all matched tasks that have it."""

    quantity: str
    """Its name."""
    n_tasks: int
    """Tasks that enter."""
    shift: Shift | NotComputable
    """Mean, effect size, intervals and test, each with its method."""
    p_adjusted: float | NotComputable
    """The test's p-value after Holm's adjustment over all quantities of this pair."""


class MatchedComparison(msgspec.Struct, frozen=True, kw_only=True):
    """Two configurations on the same tasks."""

    baseline: str
    """The configuration that is subtracted."""
    treatment: str
    """The other one."""
    n_tasks: int
    """Matched tasks; repeats and runs of one task are averaged, for they tell less than other tasks would."""
    deltas: tuple[MatchedDelta, ...] | NotComputable
    """By quantity, or why none is stated."""
    tasks: tuple[MatchedTask, ...]
    """Every matched task in every run."""
    mismatched: tuple[Mismatch, ...]
    """Tasks left out because model or harness differ."""
    unverified: tuple[str, ...]
    """Conditions that could not be checked, because a side does not state them: `field: number of tasks`."""
    without_reward: tuple[str, ...]
    """Tasks that both tried and of which a side has no reward."""
    only_baseline: tuple[str, ...]
    """Tasks that only the baseline tried."""
    only_treatment: tuple[str, ...]
    """Tasks that only the treatment tried."""


def match(study: Study, baseline: str, treatment: str, options: StatisticsOptions) -> MatchedComparison:
    """Compare two configurations on the tasks that both have a reward for, under the same conditions."""
    left, right = (_by_task(study.observations, name) for name in (baseline, treatment))
    tasks: list[MatchedTask] = []
    mismatched: list[Mismatch] = []
    unverified: dict[str, int] = {}
    without_reward = []
    for key in sorted(left.keys() & right.keys()):
        one, other = (_list_rewarded(side[key]) for side in (left, right))
        if not one or not other:
            without_reward.append(key[1])
            continue
        differing = list(_iter_mismatches(key, one, other, unverified))
        mismatched += differing
        if not differing:
            tasks.append(_build_task(key, one, other))
    count = len({task.task for task in tasks})
    label = f"{treatment} less {baseline}"
    return MatchedComparison(
        baseline=baseline,
        treatment=treatment,
        n_tasks=count,
        deltas=_estimate(tasks, label, options)
        if count >= _FEWEST
        else NotComputable(f"needs at least {_FEWEST} matched tasks, found {count}"),
        tasks=tuple(tasks),
        mismatched=tuple(mismatched),
        unverified=tuple(f"{field}: {number}" for field, number in sorted(unverified.items())),
        without_reward=tuple(without_reward),
        only_baseline=tuple(sorted({task for _, task in left.keys() - right.keys()})),
        only_treatment=tuple(sorted({task for _, task in right.keys() - left.keys()})),
    )


def _by_task(observations: Iterable[Observation], config: str) -> dict[tuple[str, str], list[Observation]]:
    found: dict[tuple[str, str], list[Observation]] = {}
    for item in observations:
        if item.config_name == config:
            found.setdefault((item.group, item.task), []).append(item)
    return found


def _list_rewarded(side: Iterable[Observation]) -> list[Observation]:
    return [item for item in side if get_value(item, "reward") is not None]


def _iter_mismatches(
    key: tuple[str, str],
    left: Sequence[Observation],
    right: Sequence[Observation],
    unverified: dict[str, int],
) -> Iterable[Mismatch]:
    for field in ("model", "harness"):
        sides = [_list_conditions(side, field) for side in (left, right)]
        if any(None in side for side in sides):
            unverified[field] = unverified.get(field, 0) + 1
        known = [sorted(side - {None}, key=str) for side in sides]
        if len({*known[0], *known[1]}) > 1:
            one, other = (" or ".join(map(str, side)) or "not stated" for side in known)
            yield Mismatch(group=key[0], task=key[1], field=field, baseline=one, treatment=other)


def _list_conditions(side: Iterable[Observation], field: str) -> set[str | None]:
    values = {getattr(item.outcome, field) for item in side}
    return {None if isinstance(value, Unknown) else value for value in values}


def _build_task(
    key: tuple[str, str], left: Sequence[Observation], right: Sequence[Observation]
) -> MatchedTask:
    baseline, treatment = _average(left), _average(right)
    return MatchedTask(
        group=key[0],
        task=key[1],
        n_baseline=len(left),
        n_treatment=len(right),
        baseline=baseline,
        treatment=treatment,
        deltas={name: treatment[name] - baseline[name] for name in baseline if name in treatment},
    )


def _average(side: Iterable[Observation]) -> dict[str, float]:
    items = list(side)
    found = {}
    for name in QUANTITIES:
        values = [value for item in items if (value := get_value(item, name)) is not None]
        if values:
            found[name] = math.fsum(values) / len(values)
    return found


def _estimate(
    tasks: Sequence[MatchedTask], label: str, options: StatisticsOptions
) -> tuple[MatchedDelta, ...]:
    from repotrial.stats import build_clusters, estimate_shift

    found: list[tuple[str, int, Shift | NotComputable]] = []
    for name in QUANTITIES:
        clusters = build_clusters((task.task, task.deltas[name]) for task in tasks if name in task.deltas)
        seed = build_seed(f"{label}: {name}")
        shift = estimate_shift(
            clusters,
            seed_sequence=seed,
            draws=options.draws,
            flips=options.rearrangements,
            level=options.level,
        )
        found.append((name, len(clusters), shift))
    adjusted = adjust([s if isinstance(s, NotComputable) else s.sign_flip.p_value for _, _, s in found])
    return tuple(
        MatchedDelta(quantity=name, n_tasks=count, shift=shift, p_adjusted=p)
        for (name, count, shift), p in zip(found, adjusted, strict=True)
    )
