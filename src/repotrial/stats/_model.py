"""What estimators take and give: clusters in, values with intervals and the name of their method out."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from enum import StrEnum

import msgspec

from repotrial._core.absence import NotComputable


class Method(StrEnum):
    """How a figure was computed; printed beside it."""

    WILSON = "wilson"
    """Wilson score interval; every run is its own sampling unit."""
    WILSON_EFFECTIVE = "wilson-effective-size"
    """Wilson score interval with Student's t; its sample size is that of independent runs with the same CR2
    standard error."""
    WILSON_ON_CLUSTERS = "wilson-on-clusters"
    """The same with clusters as sample size: at most one of them has the rarer outcome."""
    BOOTSTRAP_PERCENTILE = "cluster-bootstrap-percentile"
    """Quantiles over resampled clusters."""
    BOOTSTRAP_BCA = "cluster-bootstrap-bca"
    """Quantiles over resampled clusters, corrected for bias and skewness."""
    PAIRED_T = "paired-t-on-clusters"
    """Student's t on one difference for each cluster, cut to the possible range."""
    PAIRED_T_GUARDED = "paired-t-with-two-pseudo-clusters"
    """The same, joined with the interval that two more clusters with differences of 1 and -1 would give: most
    clusters have one and the same difference, so the sample says little about the others."""
    MCNEMAR_EXACT = "mcnemar-exact-on-cluster-majority"
    """Exact binomial test on clusters whose majority outcome differs between the two sides."""
    SIGN_FLIP_EXACT = "sign-flip-exact"
    """All sign assignments of the differences of clusters."""
    SIGN_FLIP_MONTE_CARLO = "sign-flip-monte-carlo"
    """Random sign assignments; the observed one counts among them."""
    CLUSTER_PERMUTATION_EXACT = "cluster-permutation-exact"
    """All rearrangements of whole clusters against each other."""
    CLUSTER_PERMUTATION_MONTE_CARLO = "cluster-permutation-monte-carlo"
    """Random rearrangements of whole clusters; the observed one counts among them."""
    ANOVA = "anova-one-way"
    """One-way analysis of variance; the interval inverts the F distribution, roughly right for 0 and 1."""
    WORST_BEST_CASE = "worst-best-case"
    """Every indeterminate run counted against, then for; the interval spans both Wilson intervals."""
    BETTING = "betting-confidence-sequence"
    """Bets against every possible mean; what has lost too much is left out. Holds at all times at once."""
    STAGEWISE = "stagewise-ordering"
    """Inverts the test whose order is the look at which it stopped, then the statistic there."""
    AALEN_JOHANSEN = "aalen-johansen"
    """Cumulative incidence with competing ends; the band resamples clusters."""
    NONCENTRAL_T = "paired-noncentral-t"
    """Noncentral t on differences of clusters, their variance from rates and intra-cluster correlation."""


class Interval(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="interval"):
    """A confidence interval that says how it was made."""

    low: float
    """Lower end."""
    high: float
    """Upper end."""
    level: float
    """Nominal coverage, between 0 and 1."""
    method: Method
    """How the interval was computed."""


class Estimate(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="estimate"):
    """A value, how sure one can be of it, and what it rests on."""

    value: float
    """The point estimate."""
    interval: Interval | NotComputable
    """The interval around it, or why there is none."""
    n_units: int
    """Runs that entered."""
    n_clusters: int
    """Sampling units that entered: contracts, or runs where every run is its own unit."""


class Cluster(msgspec.Struct, frozen=True, kw_only=True):
    """The outcomes of all runs of one sampling unit (a contract), in any order."""

    key: str
    """Name of the sampling unit."""
    values: tuple[float, ...]
    """One finite number for each run; 1 and 0 for success and anything else."""

    def __post_init__(self) -> None:
        """Refuse a cluster that says nothing, or no number."""
        if not self.values:
            raise ValueError(f"expected at least one value in cluster {self.key!r}, found none")
        if not all(map(math.isfinite, self.values)):
            raise ValueError(f"expected finite values in cluster {self.key!r}")

    @property
    def total(self) -> float:
        """Sum of the values, the same for every order."""
        return math.fsum(self.values)

    @property
    def mean(self) -> float:
        """Mean of the values, the same for every order."""
        return self.total / len(self.values)


def build_clusters(outcomes: Iterable[tuple[str, float]]) -> tuple[Cluster, ...]:
    """Group (key, value) of single runs into clusters, sorted by key."""
    grouped: dict[str, list[float]] = {}
    for key, value in outcomes:
        grouped.setdefault(key, []).append(value)
    return tuple(Cluster(key=key, values=tuple(grouped[key])) for key in sorted(grouped))


def sort_clusters(clusters: Sequence[Cluster]) -> list[Cluster]:
    """The clusters by key, so that no result depends on their order; a key given twice is refused."""
    ordered = sorted(clusters, key=lambda cluster: cluster.key)
    for one, other in itertools.pairwise(ordered):
        if one.key == other.key:
            raise ValueError(f"expected one cluster for each key, found {one.key!r} twice")
    return ordered


def verify_binary(clusters: Sequence[Cluster]) -> None:
    """Raise unless every value is 0 or 1."""
    for cluster in clusters:
        if not is_binary(cluster):
            raise ValueError(f"expected only 0 and 1 in cluster {cluster.key!r}")


def verify_range(clusters: Sequence[Cluster]) -> None:
    """Raise unless every value lies between 0 and 1."""
    for cluster in clusters:
        if min(cluster.values) < 0 or max(cluster.values) > 1:
            raise ValueError(f"expected values between 0 and 1 in cluster {cluster.key!r}")


def is_binary(cluster: Cluster) -> bool:
    """Whether every value is 0 or 1."""
    return all(value in {0, 1} for value in cluster.values)


def verify_level(level: float) -> None:
    """Raise unless a confidence level lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(f"expected a level between 0 and 1, found {level}")
