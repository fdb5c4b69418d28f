"""How many contracts and runs it takes to see a difference (B10)."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from scipy import special

from repotrial._core.absence import NotComputable
from repotrial._core.seed import ROOT_SEED
from repotrial.stats._model import Method, verify_level

_MIN_CLUSTERS = 3
_MAX_CLUSTERS = 100_000
_NODES = 4096


class Contrast(msgspec.Struct, frozen=True, kw_only=True):
    """A difference that one plans to see between two agents that run on the same contracts."""

    rate_a: float
    """Presumed rate of the first side."""
    rate_b: float
    """Presumed rate of the second side."""
    runs: int
    """Runs of each side on each contract."""
    icc: float
    """Presumed correlation of two runs of one side on one contract."""
    pair_correlation: float = 0.0
    """Presumed correlation of the two sides' chances on a contract; 0 is the cautious choice."""

    def __post_init__(self) -> None:
        """Refuse rates and correlations that no runs could have."""
        for name in ("rate_a", "rate_b", "icc", "pair_correlation"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"expected {name} between 0 and 1, found {getattr(self, name)}")
        if self.runs < 1:
            raise ValueError(f"expected at least 1 run, found {self.runs}")

    @property
    def variance(self) -> float:
        """Variance of one contract's difference: binomial variances times design effect, less the shared."""
        spread_a, spread_b = self.rate_a * (1 - self.rate_a), self.rate_b * (1 - self.rate_b)
        effect = (1 + (self.runs - 1) * self.icc) / self.runs
        shared = 2 * self.pair_correlation * self.icc * math.sqrt(spread_a * spread_b)
        return (spread_a + spread_b) * effect - shared

    def simulate(
        self, clusters: int, *, level: float = 0.95, draws: int = 4000, seed: int = ROOT_SEED
    ) -> float:
        """The share of simulated comparisons whose paired t test finds the difference."""
        return _simulate(self, clusters, level=level, draws=draws, seed=seed)

    def find_needed(self, power: float, *, level: float = 0.95) -> int | NotComputable:
        """The fewest contracts with which a comparison reaches a power."""
        found = find_needed_clusters(self, power, level=level)
        return found if isinstance(found, NotComputable) else found.n_clusters


class Power(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="power"):
    """The chance that a planned comparison finds the difference it was planned for."""

    value: float
    """Chance that the interval of the mean paired difference leaves out 0."""
    n_clusters: int
    """Planned contracts."""
    level: float
    """Level of that interval."""
    method: Method = Method.NONCENTRAL_T
    """How the chance was computed."""


def compute_power(contrast: Contrast, clusters: int, *, level: float = 0.95) -> Power | NotComputable:
    """The power of a two-sided paired comparison over so many contracts."""
    from scipy import stats  # slow to load: only for those who need it

    verify_level(level)
    if clusters < _MIN_CLUSTERS:
        return NotComputable(reason=f"needs at least {_MIN_CLUSTERS} contracts, found {clusters}")
    if contrast.variance <= 0:
        return NotComputable(reason="the presumed rates leave no room for chance")
    shift = abs(contrast.rate_a - contrast.rate_b) * math.sqrt(clusters / contrast.variance)
    critical = float(stats.t.isf((1 - level) / 2, clusters - 1))
    return Power(value=_compute_rejection(shift, critical, clusters - 1), n_clusters=clusters, level=level)


def _compute_rejection(shift: float, critical: float, degrees: int) -> float:
    """Chance that a noncentral t falls outside of plus and minus the critical value.

    The normal probability is averaged over quantiles of the estimated spread; SciPy's own noncentral t
    gives NaN for some large shifts.
    """
    from scipy import stats  # slow to load: only for those who need it

    quantiles = (np.arange(_NODES) + 0.5) / _NODES
    spread = np.sqrt(np.asarray(stats.chi2.ppf(quantiles, degrees)) / degrees)
    outside = special.ndtr(shift - critical * spread) + special.ndtr(-shift - critical * spread)
    return float(np.mean(outside))


def find_needed_clusters(contrast: Contrast, power: float, *, level: float = 0.95) -> Power | NotComputable:
    """The fewest contracts with which a comparison reaches a power, with the power that they give."""
    verify_level(power)
    low, high = _MIN_CLUSTERS, _MAX_CLUSTERS
    best = compute_power(contrast, high, level=level)
    if isinstance(best, Power) and best.value < power:
        return NotComputable(reason=f"{high} contracts are not enough")
    while isinstance(best, Power) and low < high:
        middle = (low + high) // 2
        found = compute_power(contrast, middle, level=level)
        if isinstance(found, Power) and found.value >= power:
            high, best = middle, found
        else:
            low = middle + 1
    return best


def find_smallest_effect(
    deviation: float, clusters: int, *, power: float, level: float = 0.95
) -> float | NotComputable:
    """The smallest difference that a paired comparison finds with a given chance.

    Args:
        deviation: Standard deviation of one contract's paired difference.
        clusters: Contracts.
        power: The chance.
        level: Of the two-sided interval that has to leave out 0.
    """
    from scipy import optimize, stats  # slow to load: only for those who need it

    verify_level(level)
    verify_level(power)
    if clusters < _MIN_CLUSTERS:
        return NotComputable(reason=f"needs at least {_MIN_CLUSTERS} contracts, found {clusters}")
    critical = float(stats.t.isf((1 - level) / 2, clusters - 1))
    if power <= 1 - level:
        return 0.0
    shift = float(
        optimize.brentq(lambda x: _compute_rejection(x, critical, clusters - 1) - power, 0.0, critical + 20.0)
    )
    return shift * deviation / math.sqrt(clusters)


def compute_power_of_effect(effect: float, deviation: float, clusters: int, *, level: float = 0.95) -> float:
    """The chance to find a difference, where the spread of one contract's difference is known."""
    from scipy import stats  # slow to load: only for those who need it

    verify_level(level)
    critical = float(stats.t.isf((1 - level) / 2, clusters - 1))
    if deviation <= 0:
        return 1.0 if effect else 0.0
    return _compute_rejection(abs(effect) * math.sqrt(clusters) / deviation, critical, clusters - 1)


def _simulate(contrast: Contrast, clusters: int, *, level: float, draws: int, seed: int) -> float:
    """See `Contrast.simulate`.

    Each contract has a chance for each side, from a beta distribution with the presumed rate and ICC. In a
    share of contracts both sides take the same quantile of theirs, so that the chances have the presumed
    correlation, or the largest that such rates allow.
    """
    from scipy import stats  # slow to load: only for those who need it

    verify_level(level)
    generator = np.random.default_rng(np.random.SeedSequence(seed).spawn(1)[0])
    shape = (draws, clusters)
    first, other = generator.random(shape), generator.random(shape)
    is_shared = generator.random(shape) < _find_shared(contrast)
    means = []
    for rate, quantile in (
        (contrast.rate_a, first),
        (contrast.rate_b, np.where(is_shared, first, other)),
    ):
        means.append(
            generator.binomial(contrast.runs, _draw_chances(rate, contrast.icc, quantile)) / contrast.runs
        )
    difference = means[0] - means[1]
    spread = difference.std(axis=1, ddof=1)
    error = spread / math.sqrt(clusters)
    statistic = np.divide(np.abs(difference.mean(axis=1)), error, out=np.zeros(draws), where=error > 0)
    critical = float(stats.t.isf((1 - level) / 2, clusters - 1))
    return float(np.mean(statistic > critical))


def _find_shared(contrast: Contrast) -> float:
    """The share of contracts with one quantile for both sides that gives the presumed correlation."""
    grid = (np.arange(_NODES) + 0.5) / _NODES
    chances = [_draw_chances(rate, contrast.icc, grid) for rate in (contrast.rate_a, contrast.rate_b)]
    if min(float(np.std(each)) for each in chances) <= 0:
        return 0.0
    return min(1.0, contrast.pair_correlation / float(np.corrcoef(chances[0], chances[1])[0, 1]))


def _draw_chances(rate: float, icc: float, quantile: np.ndarray) -> np.ndarray:
    """Chances with a mean and a variance of ICC times that of one run."""
    if icc <= 0 or rate in (0, 1):
        return np.full_like(quantile, rate)
    if icc >= 1:
        return (quantile > 1 - rate).astype(float)
    total = 1 / icc - 1
    chances = np.asarray(special.betaincinv(rate * total, (1 - rate) * total, quantile))
    clipped: np.ndarray = np.clip(chances, 0.0, 1.0)
    return clipped
