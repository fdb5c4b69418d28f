"""Everything that a report on retrieval shows, as one document: `retrieval_report.json` (R17)."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial.retrieval._compare import (
    ComparisonCoverage,
    ComparisonOptions,
    RetrievalComparison,
    compare_study,
)
from repotrial.retrieval._match import StatisticsOptions, build_seed
from repotrial.retrieval._metrics import FileMetrics
from repotrial.retrieval._outcomes import OUTCOMES, TrialProgress
from repotrial.retrieval._stages import CUTOFFS
from repotrial.retrieval._study import Artefact, Observation, Study, get_value

if TYPE_CHECKING:
    from repotrial.stats import Estimate


_FEW_FILES: Final = 2


class SupplementOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown beside the core of a report."""

    has_columns: bool = False
    """Whether retrieval stands beside the outcome of each trial."""
    least_recall: float | None = None
    """Outcomes also among trials with at least this recall; None for no such view."""
    has_flags: bool = False
    """Whether reasons for caution stand beside each trial."""


class ConditionedView(msgspec.Struct, frozen=True, kw_only=True):
    """Rewards of one configuration, apart for trials of which enough was found."""

    config_name: str
    """The configuration."""
    least_recall: float
    """What counts as enough of the ground truth."""
    n_found: int
    """Trials with a reward that found enough."""
    n_other: int
    """Trials with a reward that did not."""
    found: Estimate | NotComputable
    """Mean reward among those that did; its interval is over tasks."""
    other: Estimate | NotComputable
    """Mean reward among those that did not."""


def build_conditioned(
    study: Study, least_recall: float, options: StatisticsOptions
) -> tuple[ConditionedView, ...]:
    """Rewards of each configuration, apart by what was found.

    What was found is decided by the agent, so the two sets of tasks differ: this describes, and compares
    nothing.
    """
    views = []
    for name in study.configurations:
        mine = [item for item in study.observations if item.config_name == name]
        known = [
            (item.task, reward, recall)
            for item in mine
            if (reward := get_value(item, "reward")) is not None
            and (recall := get_value(item, "file_recall")) is not None
        ]
        found = [(task, reward) for task, reward, recall in known if recall >= least_recall]
        other = [(task, reward) for task, reward, recall in known if recall < least_recall]
        views.append(
            ConditionedView(
                config_name=name,
                least_recall=least_recall,
                n_found=len(found),
                n_other=len(other),
                found=_estimate(f"{name}: found", found, options),
                other=_estimate(f"{name}: other", other, options),
            )
        )
    return tuple(views)


def list_flags(item: Observation) -> tuple[str, ...]:
    """Reasons to trust a trial's figures less; they change none of them."""
    coverage, files = item.figures.coverage, item.figures.files
    flags = []
    confidence = coverage.get("ground_truth_confidence")
    if isinstance(confidence, str) and confidence != "high":
        flags.append(f"ground truth of {confidence} confidence")
    if isinstance(files, FileMetrics) and files.n_ground_truth < _FEW_FILES:
        flags.append("one file of ground truth: every measure is all or nothing")
    if coverage.get("trace_source") == "transcript":
        flags.append("transcript only: times and usage may be missing")
    skipped = coverage.get("skipped_entries")
    if isinstance(skipped, dict) and skipped:
        flags.append(f"entries of the trace that could not be read: {sum(skipped.values())}")
    if isinstance(coverage.get("degraded_reason"), str):
        flags.append("degraded")
    return tuple(flags)


def list_supplementary(item: Observation) -> dict[str, float]:
    """Columns beside the outcome: how much was looked at, what deep search brought, which repositories."""
    progress = item.progress
    if isinstance(progress, Unknown):
        return {}
    found: dict[str, float] = {"n_events": progress.n_events, "deep_searches": progress.deep_searches}
    if progress.deep_searches:
        found["deep_search_hit_share"] = progress.deep_searches_hitting / progress.deep_searches
    if progress.oracle_items:
        found["oracle_coverage"] = progress.oracle_items_met / progress.oracle_items
        found["oracle_repository_coverage"] = progress.oracle_repositories_met / progress.oracle_repositories
    return found


def _estimate(
    label: str, known: Sequence[tuple[str, float]], options: StatisticsOptions
) -> Estimate | NotComputable:
    from repotrial.stats import bootstrap_clustered, build_clusters

    if not known:
        return NotComputable("there are no such trials")
    return bootstrap_clustered(
        build_clusters(known), seed_sequence=build_seed(label), draws=options.draws, level=options.level
    )


_SINGLE: Final = ("file_recall", "mrr", "map_score", "context_efficiency")
_BY_CUTOFF: Final = ("precision", "recall", "f1", "ndcg")
_TIMES: Final = ("ttfr_seconds", "ttfr_tokens", "n_retrieved", "n_ground_truth", "n_overlap")
MEASURED: Final = (*_SINGLE, *(f"{name}@{k}" for k in CUTOFFS for name in _BY_CUTOFF), *_TIMES)
"""Measures of a trial, by name, in the order of tables."""

RULES: Final = {
    "reads": "reads: files that were only written do not count as retrieved",
    "reference": "reference: written files count as retrieved, as in the reference implementation",
    "unstated": "not stated by the documents; those of the reference implementation count written files",
}


class Figure(msgspec.Struct, frozen=True, kw_only=True):
    """One quantity over the trials of a configuration that have it."""

    name: str
    """The quantity."""
    mean: Estimate | NotComputable
    """Mean over trials, its interval over tasks."""
    median: float
    """Over trials."""
    std: float
    """Over trials (n - 1); 0 for one."""
    n_trials: int
    """Trials that have it."""
    n_tasks: int
    """Tasks that those are of."""


class ConfigurationFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one configuration."""

    config_name: str
    """Its name."""
    quality: tuple[Figure, ...]
    """What was found (R10)."""
    utilization: tuple[Figure, ...]
    """Whether it was used (R12)."""
    errors: tuple[Figure, ...]
    """What went wrong, in files for each trial (R13)."""
    outcomes: tuple[Figure, ...]
    """How trials ended."""
    slices: dict[str, dict[str, int]]
    """Trials by slice and value (R13)."""


class TrialRow(msgspec.Struct, frozen=True, kw_only=True):
    """One trial."""

    group: str
    """Its run, or all runs of this harness."""
    config_name: str
    """The configuration."""
    task: str
    """The task."""
    repeat: int
    """Counted from 1."""
    values: dict[str, float]
    """Measures, probes and outcomes that it has."""
    reason: str | None
    """Why it has no measures; None if it has."""
    progress: TrialProgress | Unknown
    """What its events say over time."""
    artefact: Artefact
    """Its metrics on disk."""
    flags: tuple[str, ...] = ()
    """Reasons for caution, where they were asked for."""
    supplementary: dict[str, float] = {}
    """Further columns, where they were asked for."""


class RetrievalReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a report shows."""

    schema_version: str
    """Of this document."""
    generated_at: str
    """When."""
    ranking: str
    """By which rule files were ranked."""
    ranking_note: str
    """The rule in words."""
    coverage: tuple[ComparisonCoverage, ...]
    """What there is, by configuration."""
    configurations: tuple[ConfigurationFigures, ...]
    """Figures by configuration; those of different ones are never pooled."""
    comparison: RetrievalComparison
    """Associations and matched comparisons."""
    supplements: SupplementOptions
    """Which of the further views were asked for."""
    conditioned: tuple[ConditionedView, ...]
    """Outcomes among tasks of which enough was found, where that was asked for."""
    caveats: tuple[str, ...]
    """What a reader must know."""
    trials: tuple[TrialRow, ...]
    """Every trial."""


def build_retrieval_report(
    study: Study, options: ComparisonOptions, supplements: SupplementOptions
) -> RetrievalReport:
    """Compute all that a report shows; the same study gives the same figures."""
    comparison = compare_study(study, options)
    caveats = [*comparison.caveats, *_list_own_caveats(study, comparison)]
    return RetrievalReport(
        schema_version="1.0",
        generated_at=options.generated_at,
        ranking=study.ranking,
        ranking_note=RULES[study.ranking],
        coverage=comparison.coverage,
        configurations=tuple(
            _build_configuration(study, name, options.statistics) for name in study.configurations
        ),
        comparison=comparison,
        supplements=supplements,
        conditioned=()
        if supplements.least_recall is None
        else build_conditioned(study, supplements.least_recall, options.statistics),
        caveats=tuple(caveats),
        trials=tuple(_build_row(item, supplements) for item in study.observations),
    )


def _list_own_caveats(study: Study, comparison: RetrievalComparison) -> Iterable[str]:
    unverified = sorted({note.partition(":")[0] for pair in comparison.matched for note in pair.unverified})
    if unverified:
        yield (
            f"Not every trial states its {' and '.join(unverified)}: for such pairs it could not be checked"
            " that both sides had the same."
        )
    if study.unjoined:
        yield f"Trials with an outcome and without metrics: {len(study.unjoined)}; they enter nothing."
    if study.unreadable:
        yield f"Metrics documents that could not be read: {len(study.unreadable)}."


def _build_configuration(study: Study, config: str, options: StatisticsOptions) -> ConfigurationFigures:
    mine = [item for item in study.observations if item.config_name == config]
    probes = sorted({name for item in mine for name in item.figures.probes})
    labels = list(dict.fromkeys(name for item in mine for name in item.figures.labels))

    def figure(name: str, values: Iterable[tuple[str, float | None]]) -> Figure | None:
        known = [(task, value) for task, value in values if value is not None]
        return _build_figure(f"{config}: {name}", name, known, options) if known else None

    def measured(names: Iterable[str]) -> tuple[Figure, ...]:
        found = (figure(name, ((item.task, get_value(item, name)) for item in mine)) for name in names)
        return tuple(item for item in found if item is not None)

    used = (figure(n, ((item.task, item.figures.probes.get(n)) for item in mine)) for n in probes)
    wrong = (figure(n, ((item.task, item.figures.labels.get(n)) for item in mine)) for n in labels)
    return ConfigurationFigures(
        config_name=config,
        quality=measured(MEASURED),
        utilization=tuple(item for item in used if item is not None),
        errors=tuple(item for item in wrong if item is not None),
        outcomes=measured(OUTCOMES),
        slices=_count_slices(mine),
    )


def _build_figure(
    label: str, name: str, known: Sequence[tuple[str, float]], options: StatisticsOptions
) -> Figure:
    from repotrial.stats import bootstrap_clustered, build_clusters

    values = [value for _, value in known]
    clusters = build_clusters(known)
    mean = bootstrap_clustered(
        clusters, seed_sequence=build_seed(label), draws=options.draws, level=options.level
    )
    if not isinstance(mean, NotComputable) and (len(clusters) == 1 or min(values) == max(values)):
        reason = "there is one task" if len(clusters) == 1 else "it is the same in all trials"
        mean = msgspec.structs.replace(mean, interval=NotComputable(reason))
    return Figure(
        name=name,
        mean=mean,
        median=statistics.median(values),
        std=statistics.stdev(values) if len(values) > 1 else 0.0,
        n_trials=len(values),
        n_tasks=len(clusters),
    )


def _count_slices(mine: Iterable[Observation]) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for item in mine:
        for name, value in item.figures.slices.items():
            if isinstance(value, str):
                counts = found.setdefault(name, {})
                counts[value] = counts.get(value, 0) + 1
    return {name: dict(sorted(counts.items())) for name, counts in sorted(found.items())}


def _build_row(item: Observation, supplements: SupplementOptions) -> TrialRow:
    named = ((name, get_value(item, name)) for name in (*OUTCOMES, *MEASURED))
    files = item.figures.files
    return TrialRow(
        group=item.group,
        config_name=item.config_name,
        task=item.task,
        repeat=item.repeat,
        values={name: value for name, value in named if value is not None} | item.figures.probes,
        reason=None if isinstance(files, FileMetrics) else files.reason,
        progress=item.progress,
        artefact=item.artefact,
        flags=list_flags(item) if supplements.has_flags else (),
        supplementary=list_supplementary(item) if supplements.has_columns else {},
    )
