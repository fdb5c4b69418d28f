"""Do trials that found more also end better, cost less, end sooner? Association only (R15)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.retrieval._outcomes import OUTCOMES
from repotrial.retrieval._seeds import StatisticsOptions, adjust, build_seed
from repotrial.retrieval._study import Observation, Study, get_value

if TYPE_CHECKING:
    from repotrial.stats import Association

ASSOCIATED: Final = ("file_recall", "mrr", "map_score", "context_efficiency")
"""Measures that are held against outcomes."""
POOLED: Final = "all configurations pooled"


class MeasureAssociation(msgspec.Struct, frozen=True, kw_only=True):
    """One measure against one outcome."""

    measure: str
    """The retrieval measure."""
    outcome: str
    """What it is held against."""
    n_trials: int
    """Trials that have both."""
    n_tasks: int
    """Tasks that those are of."""
    association: Association | NotComputable
    """Spearman's correlation with interval and p-value, each with its method."""
    p_adjusted: float | NotComputable
    """The p-value after Holm's adjustment over all associations of this scope."""


class AssociationScope(msgspec.Struct, frozen=True, kw_only=True):
    """All measures against all outcomes, over some of the trials."""

    scope: str
    """A configuration, or all of them pooled."""
    is_pooled: bool
    """Whether trials of several configurations are taken together: differences between them enter."""
    n_tests: int
    """Associations with a p-value: the family of the adjustment."""
    associations: tuple[MeasureAssociation, ...]
    """By measure and outcome."""


def associate(study: Study, options: StatisticsOptions) -> tuple[AssociationScope, ...]:
    """Associations over all trials, then within each configuration."""
    names = study.configurations
    scopes = [_build_scope(POOLED, study.observations, options, is_pooled=True)] if len(names) > 1 else []
    for name in names:
        mine = [item for item in study.observations if item.config_name == name]
        scopes.append(_build_scope(name, mine, options, is_pooled=False))
    return tuple(scopes)


def _build_scope(
    scope: str, observations: Sequence[Observation], options: StatisticsOptions, *, is_pooled: bool
) -> AssociationScope:
    found = [
        _associate(scope, observations, (measure, outcome), options)
        for measure in ASSOCIATED
        for outcome in OUTCOMES
    ]
    adjusted = adjust([_get_p(item) for item in found])
    return AssociationScope(
        scope=scope,
        is_pooled=is_pooled,
        n_tests=sum(1 for p in adjusted if not isinstance(p, NotComputable)),
        associations=tuple(
            msgspec.structs.replace(item, p_adjusted=p) for item, p in zip(found, adjusted, strict=True)
        ),
    )


def _get_p(item: MeasureAssociation) -> float | NotComputable:
    found = item.association
    return found if isinstance(found, NotComputable) else found.p_value


def _associate(
    scope: str, observations: Iterable[Observation], names: tuple[str, str], options: StatisticsOptions
) -> MeasureAssociation:
    from repotrial.stats import PairedValue, estimate_association

    measure, outcome = names
    values = []
    counts: Counter[tuple[str, str]] = Counter()
    for item in observations:
        x, y = get_value(item, measure), get_value(item, outcome)
        if x is not None and y is not None:
            # Runs are repeats: a task that was tried in another run can stand for this one.
            counts[item.task, item.config_name] += 1
            slot = f"{item.config_name}/{counts[item.task, item.config_name]}"
            values.append(PairedValue(key=item.task, slot=slot, x=x, y=y))
    found = estimate_association(
        values,
        seed_sequence=build_seed(f"{scope}: {measure} and {outcome}"),
        draws=options.draws,
        rearrangements=options.rearrangements,
        level=options.level,
    )
    return MeasureAssociation(
        measure=measure,
        outcome=outcome,
        n_trials=len(values),
        n_tasks=len({value.key for value in values}),
        association=found,
        p_adjusted=NotComputable("not adjusted yet"),
    )
