"""Estimators, intervals and tests: pure functions from outcomes to figures that name their method (B9, X2).

Loads NumPy and SciPy: import it inside the functions that need it, so that `import repotrial` stays light.
"""

from __future__ import annotations

from repotrial.stats._agreement import compute_kappa
from repotrial.stats._always_valid import build_always_valid
from repotrial.stats._association import Association, PairedValue, estimate_association
from repotrial.stats._bootstrap import bootstrap_clustered, bootstrap_ratio
from repotrial.stats._incidence import Incidence, TimedEnd, estimate_incidence
from repotrial.stats._model import Cluster, Estimate, Interval, build_clusters
from repotrial.stats._paired import (
    PairedComparison,
    Shift,
    build_difference_interval,
    compare_paired,
    estimate_shift,
)
from repotrial.stats._permutation import adjust_holm
from repotrial.stats._power import (
    Contrast,
    compute_power_of_effect,
    find_smallest_effect,
)
from repotrial.stats._rate import compute_standard_error, estimate_clustered_rate
from repotrial.stats._repeat import estimate_icc, estimate_pass_k
from repotrial.stats._sequential import compute_sequential_p, estimate_after_looks, plan_looks

__all__ = [
    "Association",
    "Cluster",
    "Contrast",
    "Estimate",
    "Incidence",
    "Interval",
    "PairedComparison",
    "PairedValue",
    "Shift",
    "TimedEnd",
    "adjust_holm",
    "bootstrap_clustered",
    "bootstrap_ratio",
    "build_always_valid",
    "build_clusters",
    "build_difference_interval",
    "compare_paired",
    "compute_kappa",
    "compute_power_of_effect",
    "compute_sequential_p",
    "compute_standard_error",
    "estimate_after_looks",
    "estimate_association",
    "estimate_clustered_rate",
    "estimate_icc",
    "estimate_incidence",
    "estimate_pass_k",
    "estimate_shift",
    "find_smallest_effect",
    "plan_looks",
]
