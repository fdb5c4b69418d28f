"""Further views of retrieval, each off unless it is asked for (R18, ADR 0014). None of them is a score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial.retrieval._metrics import FileMetrics
from repotrial.retrieval._seeds import StatisticsOptions, build_seed
from repotrial.retrieval._study import Observation, Study, get_value

if TYPE_CHECKING:
    from repotrial.stats import Estimate

_FEW_FILES: Final = 2


class SupplementOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown beside the core of a report."""

    has_columns: bool = False
    """Whether retrieval stands beside the outcome of each trial."""
    least_recall: float | None = None
    """Outcomes also among trials with at least this recall; null for no such view."""
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
