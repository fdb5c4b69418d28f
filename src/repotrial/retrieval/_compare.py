"""What retrieval goes along with, and what configurations change: `retrieval_comparison.json` (R15, R16)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.seed import ROOT_SEED
from repotrial.retrieval._match import MatchedComparison, StatisticsOptions, adjust, build_seed, match
from repotrial.retrieval._metrics import FileMetrics, LeftOutAttempt, describe_left_out
from repotrial.retrieval._outcomes import OUTCOMES
from repotrial.retrieval._stages import NO_GROUND_TRUTH
from repotrial.retrieval._study import Artefact, Observation, Study, get_value

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
            values.append(
                PairedValue(
                    key=item.task, slot=f"{item.config_name}/{counts[item.task, item.config_name]}", x=x, y=y
                )
            )
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


SCHEMA_VERSION: Final = "1.0"

CAVEATS: Final = (
    "Association only: figures that rise together over these tasks need not bring each other about.",
    "Hard tasks are hard to search and hard to solve: difficulty alone can make an association.",
    "Retrieval figures never enter a verdict, a score or a reward.",
    "Intervals and tests take tasks as sampling units; repeats of a task tell less than other tasks would.",
    "Every p-value also stands after Holm's adjustment for its family: many questions are asked at once.",
    "Tasks without ground truth, and trials of which nothing was seen, enter no figure; they are counted.",
)
"""What a reader must know before believing a figure."""


RETRIEVAL_CONFIGURATION = ErrorCode(
    "retrieval-configuration",
    UsageError,
    "There are no metrics of a configuration of that name.",
    hint="name configurations as the directories below retrieval_events are called",
)


class ComparisonOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is compared."""

    baseline: str | None = None
    """None: every configuration in its turn."""
    treatment: str | None = None
    """None: every other configuration."""
    statistics: StatisticsOptions = StatisticsOptions()
    """How figures are computed."""
    generated_at: str
    """For the document: time in ISO 8601, UTC."""


class ComparisonCoverage(msgspec.Struct, frozen=True, kw_only=True):
    """What there is, of one configuration."""

    config_name: str
    """Its name."""
    n_trials: int
    """Metrics documents."""
    n_tasks: int
    """Tasks that they are of."""
    computable: int
    """Trials with figures."""
    without_ground_truth: int
    """Trials of tasks of which it is not known what matters."""
    degraded: int
    """Trials of which nothing was seen."""
    with_reward: int
    """Trials joined with a valid reward."""
    without_outcome: int
    """Trials whose directory was not found, or fits several."""


class RetrievalComparison(msgspec.Struct, frozen=True, kw_only=True):
    """All figures, each with the tasks it is taken over and its method."""

    schema_version: str
    """Of this document."""
    generated_at: str
    """When."""
    label: str
    """What these figures are, and what not."""
    ranking: str
    """By which rule files were ranked."""
    seed: int
    """Root of all random streams."""
    statistics: StatisticsOptions
    """Resamples and level."""
    coverage: tuple[ComparisonCoverage, ...]
    """By configuration."""
    unreadable: tuple[str, ...]
    """Metrics that could not be read, and why."""
    unjoined_trials: tuple[str, ...]
    """Trials with an outcome and without metrics."""
    left_out: tuple[LeftOutAttempt, ...]
    """Attempts that were broken off and repeated; they enter nothing."""
    associations: tuple[AssociationScope, ...]
    """Pooled, then by configuration."""
    matched: tuple[MatchedComparison, ...]
    """By pair of configurations."""
    caveats: tuple[str, ...]
    """What a reader must know."""
    sources: tuple[Artefact, ...]
    """Every metrics document that entered."""


def compare_study(study: Study, options: ComparisonOptions) -> RetrievalComparison:
    """Associations and matched comparisons; the same study gives the same figures.

    Raises:
        RETRIEVAL_CONFIGURATION: a configuration that was asked for is not there.
    """
    pairs = list(_iter_pairs(study, options))
    return RetrievalComparison(
        schema_version=SCHEMA_VERSION,
        generated_at=options.generated_at,
        label="association only; matched differences are over tasks that both configurations tried",
        ranking=study.ranking,
        seed=ROOT_SEED,
        statistics=options.statistics,
        coverage=tuple(count_coverage(study, name) for name in study.configurations),
        unreadable=study.unreadable,
        unjoined_trials=study.unjoined,
        left_out=study.left_out,
        associations=associate(study, options.statistics),
        matched=tuple(match(study, one, other, options.statistics) for one, other in pairs),
        caveats=(*CAVEATS, *describe_left_out(study.left_out)),
        sources=tuple(item.artefact for item in study.observations),
    )


def count_coverage(study: Study, config: str) -> ComparisonCoverage:
    """What there is of a configuration."""
    mine = [item for item in study.observations if item.config_name == config]
    gaps = [files.reason for item in mine if not isinstance(files := item.figures.files, FileMetrics)]
    return ComparisonCoverage(
        config_name=config,
        n_trials=len(mine),
        n_tasks=len({item.task for item in mine}),
        computable=len(mine) - len(gaps),
        without_ground_truth=gaps.count(NO_GROUND_TRUTH),
        degraded=len(gaps) - gaps.count(NO_GROUND_TRUTH),
        with_reward=sum(1 for item in mine if get_value(item, "reward") is not None),
        without_outcome=sum(1 for item in mine if isinstance(item.outcome, Unknown)),
    )


def _iter_pairs(study: Study, options: ComparisonOptions) -> Iterator[tuple[str, str]]:
    names = study.configurations
    for name in (options.baseline, options.treatment):
        if name is not None and name not in names:
            raise RETRIEVAL_CONFIGURATION.error(f"expected one of {', '.join(names)}, found {name}")
    if options.baseline is None and options.treatment is None:
        yield from combinations(names, 2)
        return
    for one in names if options.baseline is None else (options.baseline,):
        for other in names if options.treatment is None else (options.treatment,):
            if one != other:
                yield one, other
