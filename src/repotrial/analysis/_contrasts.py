"""Arms against each other: a family of contrasts, and which arms cannot be told apart."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.seed import ROOT_SEED
from repotrial.analysis._arms import build_figure
from repotrial.analysis._figures import IntervalFigure, Number
from repotrial.analysis._results import ContrastFigures, TiedGroup

if TYPE_CHECKING:
    from repotrial.stats import Cluster, PairedComparison

_OUTSIDE: Final = NotComputable(reason="exploratory: outside of the primary family")
_FLIPS: Final = 2000


class Contrast(NamedTuple):
    """Two arms that are compared."""

    name: str
    first: str
    second: str
    family: Literal["primary", "exploratory"] = "primary"
    looks: tuple[float, ...] = ()
    """Of a contrast that could stop the pilot: shares of information at which it was looked at, the last too.
    Its sequential p-value enters the family."""
    is_open: bool = False
    """Whether the pilot goes on after the last look: then only that look's boundary tells arms apart."""


def describe_contrasts(
    contrasts: Sequence[Contrast],
    clusters: Mapping[str, Sequence[Cluster]],
    *,
    level: float,
    computed_from: Mapping[str, tuple[str, ...]],
    family: int | None = None,
) -> tuple[ContrastFigures, ...]:
    """All contrasts, the primary ones adjusted for each other.

    Args:
        contrasts: Which.
        clusters: Outcomes of each arm, by task.
        level: Of the intervals; the rest is the error rate of the family.
        computed_from: Names of artefacts of each arm.
        family: Over how many the level is split; None: over the primary ones.
    """
    from numpy.random import SeedSequence

    from repotrial.stats import adjust_holm, compare_paired

    found = [
        compare_paired(
            clusters[contrast.first],
            clusters[contrast.second],
            seed_sequence=SeedSequence(ROOT_SEED),
            draws=_FLIPS,
            level=level,
        )
        for contrast in contrasts
    ]
    primary = [place for place, contrast in enumerate(contrasts) if contrast.family == "primary"]
    size = max(1, len(primary), family or 0)
    alpha = (1 - level) / size
    plain = [_find_p(contrast, one, alpha) for contrast, one in zip(contrasts, found, strict=True)]
    # A contrast without a p-value stays in the family: leaving it out would favor the others.
    # So does one that was registered and only describes after a stop.
    p_values = [1.0 if isinstance(p, NotComputable) else p for p in (plain[place] for place in primary)]
    p_values += [1.0] * (size - len(primary))
    adjusted = dict(zip(primary, adjust_holm(p_values), strict=False))
    return tuple(
        _describe(
            contrast,
            one,
            p=plain[place],
            p_holm=plain[place] if isinstance(plain[place], NotComputable) else adjusted.get(place, _OUTSIDE),
            levels=(level, 1 - _find_level(contrast, alpha)),
            computed_from=(*computed_from[contrast.first], *computed_from[contrast.second]),
        )
        for place, (contrast, one) in enumerate(zip(contrasts, found, strict=True))
    )


def _find_level(contrast: Contrast, alpha: float) -> float:
    """What a test of the family may use; at a look before the end, what is spent there."""
    from repotrial.stats import plan_looks

    return plan_looks(contrast.looks, alpha=alpha)[-1].level if contrast.is_open else alpha


def _find_p(contrast: Contrast, found: PairedComparison, alpha: float) -> Number:
    from scipy import special

    from repotrial.stats import compute_sequential_p, plan_looks

    if isinstance(found.t_test, NotComputable):
        return found.t_test
    if contrast.is_open or len(contrast.looks) <= 1:
        return found.t_test.p_value
    statistic = -float(special.ndtri(found.t_test.p_value / 2))
    return compute_sequential_p(plan_looks(contrast.looks, alpha=alpha), statistic)


def _estimate_after_looks(
    contrast: Contrast, found: PairedComparison, alpha: float
) -> IntervalFigure | NotComputable:
    from repotrial.stats import estimate_after_looks, plan_looks

    if contrast.is_open:
        return NotComputable(reason="the pilot is under way")
    if len(contrast.looks) <= 1:
        return NotComputable(reason="it could not stop the pilot: the plain difference is right")
    error = _compute_error(found)
    if isinstance(found.difference, NotComputable) or isinstance(error, NotComputable) or error == 0:
        return NotComputable(reason="the difference has no standard error")
    estimate = estimate_after_looks(
        plan_looks(contrast.looks, alpha=alpha),
        found.difference.value,
        error,
        n_units=found.difference.n_units,
        n_clusters=found.n_pairs,
    )
    return build_figure(estimate)


def _describe(
    contrast: Contrast,
    found: PairedComparison,
    *,
    p: Number,
    p_holm: Number,
    levels: tuple[float, float],
    computed_from: tuple[str, ...],
) -> ContrastFigures:
    low, high, method = _find_ends(found)
    low_family, high_family = _find_family_ends(contrast, found, levels[1])
    difference = found.difference if isinstance(found.difference, NotComputable) else found.difference.value
    in_tasks = difference if isinstance(difference, NotComputable) else difference * found.n_pairs
    is_told_apart = isinstance(p_holm, float) and p_holm <= 1 - levels[0] + 1e-12
    if contrast.is_open and isinstance(p, float):
        is_told_apart = p <= 1 - levels[1]
        p_holm = NotComputable(reason=f"under way: at this look p tells apart from {1 - levels[1]:.2g} down")
    flips = found.sign_flip
    figures = ContrastFigures(
        name=contrast.name,
        first=contrast.first,
        second=contrast.second,
        family=contrast.family,
        tasks=found.n_pairs,
        difference=difference,
        difference_in_tasks=in_tasks,
        standard_error=_compute_error(found),
        low=low,
        high=high,
        p=p,
        p_holm=p_holm,
        low_family=low_family,
        high_family=high_family,
        after_looks=_estimate_after_looks(contrast, found, 1 - levels[1]),
        p_sign_flip=flips if isinstance(flips, NotComputable) else flips.p_value,
        is_told_apart=is_told_apart,
        method=method,
        only_first=found.unmatched_a,
        only_second=found.unmatched_b,
        sentence="",
        computed_from=tuple(dict.fromkeys(computed_from)),
    )
    return msgspec.structs.replace(figures, sentence=_put_in_words(figures))


def _find_ends(found: PairedComparison) -> tuple[Number, Number, str]:
    if isinstance(found.difference, NotComputable):
        return found.difference, found.difference, "none"
    ends = found.difference.interval
    if isinstance(ends, NotComputable):
        return ends, ends, "none"
    return ends.low, ends.high, ends.method.value


def _find_family_ends(contrast: Contrast, found: PairedComparison, level: float) -> tuple[Number, Number]:
    from repotrial.stats import build_difference_interval

    if contrast.family != "primary":
        return _OUTSIDE, _OUTSIDE
    if isinstance(found.difference, NotComputable):
        return found.difference, found.difference
    ends = build_difference_interval([*found.differences.values()], level=level)
    return ends.low, ends.high


def _compute_error(found: PairedComparison) -> Number:
    if isinstance(found.difference, NotComputable):
        return found.difference
    values = [*found.differences.values()]
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1) / len(values))


def _put_in_words(found: ContrastFigures) -> str:
    if isinstance(found.difference, NotComputable):
        return f"{found.first} and {found.second} cannot be compared: {found.difference.reason}."
    tasks = abs(found.difference_in_tasks) if isinstance(found.difference_in_tasks, float) else 0.0
    size = f"{abs(found.difference):.1%} of {found.tasks} tasks, as much as {tasks:.1f} tasks"
    if found.difference == 0:
        size = "the same mean over tasks"
    first, second = found.first, found.second
    if found.difference < 0:
        first, second = second, first
    ahead = (
        f"{first} is ahead of {second} by {size}" if found.difference else f"{first} and {second} have {size}"
    )
    if found.family != "primary":
        return f"Exploratory: {ahead}."
    if found.is_told_apart:
        return f"{first} is better than {second} here, by {size}."
    if not found.difference:
        return f"{first} and {second} cannot be told apart here: {size}."
    return f"{first} and {second} cannot be told apart here; {first} is ahead by {size}."


def find_tied(arms: Sequence[str], contrasts: Sequence[ContrastFigures]) -> tuple[TiedGroup, ...]:
    """The largest groups of arms no two of which the primary family tells apart.

    Being tied is not transitive (A and B, B and C, but not A and C), so groups overlap.

    Args:
        arms: In the order in which groups list them.
        contrasts: A pair that no primary contrast is about is in no group.
    """
    tied: dict[str, set[str]] = {}
    for contrast in contrasts:
        if contrast.family == "primary" and not contrast.is_told_apart:
            tied.setdefault(contrast.first, set()).add(contrast.second)
            tied.setdefault(contrast.second, set()).add(contrast.first)
    groups = [[arm for arm in arms if arm in group] for group in _iter_cliques(tied)]
    groups.sort(key=lambda group: [arms.index(arm) for arm in group])
    return tuple(TiedGroup(arms=tuple(group), sentence=_name_tied(group)) for group in groups)


def _iter_cliques(tied: Mapping[str, set[str]]) -> Iterator[set[str]]:
    """All largest sets whose members are all tied to each other (Bron and Kerbosch, with a pivot)."""
    stack: list[tuple[set[str], set[str], set[str]]] = [(set(), set(tied), set())]
    while stack:
        chosen, possible, excluded = stack.pop()
        if not possible and not excluded:
            if len(chosen) > 1:
                yield chosen
            continue
        pivot = max(sorted(possible | excluded), key=lambda arm: len(tied[arm] & possible))
        for arm in sorted(possible - tied[pivot]):
            stack.append((chosen | {arm}, possible & tied[arm], excluded & tied[arm]))
            possible = possible - {arm}
            excluded = excluded | {arm}


def _name_tied(group: Sequence[str]) -> str:
    return f"{', '.join(group[:-1])} and {group[-1]} cannot be told apart here."
