"""Estimators, intervals and tests: pure functions from outcomes to figures that name their method (B9, X2).

Loads NumPy and SciPy: import it inside the functions that need it, so that `import repotrial` stays light.
"""

from __future__ import annotations

from repotrial.stats._association import Association, PairedValue, estimate_association
from repotrial.stats._bootstrap import bootstrap_clustered
from repotrial.stats._model import Cluster, Estimate, Interval, Method, build_clusters
from repotrial.stats._multiple import adjust_holm
from repotrial.stats._paired import McNemarTest, PairedComparison, compare_paired
from repotrial.stats._permutation import PermutationTest
from repotrial.stats._power import Contrast, Power, compute_power, find_needed_clusters
from repotrial.stats._rate import RateBounds, bound_rate, estimate_clustered_rate, estimate_rate
from repotrial.stats._repeat import compute_pass_at_k, estimate_icc
from repotrial.stats._shift import Shift, estimate_shift

__all__ = [
    "Association",
    "Cluster",
    "Contrast",
    "Estimate",
    "Interval",
    "McNemarTest",
    "Method",
    "PairedComparison",
    "PairedValue",
    "PermutationTest",
    "Power",
    "RateBounds",
    "Shift",
    "adjust_holm",
    "bootstrap_clustered",
    "bound_rate",
    "build_clusters",
    "compare_paired",
    "compute_pass_at_k",
    "compute_power",
    "estimate_association",
    "estimate_clustered_rate",
    "estimate_icc",
    "estimate_rate",
    "estimate_shift",
    "find_needed_clusters",
]
