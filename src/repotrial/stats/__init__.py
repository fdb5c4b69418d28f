"""Estimators, intervals and tests: pure functions from outcomes to figures that name their method (B9, X2).

Loads NumPy and SciPy: import it inside the functions that need it, so that `import repotrial` stays light.
"""

from __future__ import annotations

from repotrial.stats._association import Association, PairedValue, estimate_association
from repotrial.stats._bootstrap import bootstrap_clustered
from repotrial.stats._model import Cluster, Estimate, Interval, build_clusters
from repotrial.stats._paired import PairedComparison, Shift, compare_paired, estimate_shift
from repotrial.stats._permutation import adjust_holm
from repotrial.stats._rate import estimate_clustered_rate

__all__ = [
    "Association",
    "Cluster",
    "Estimate",
    "Interval",
    "PairedComparison",
    "PairedValue",
    "Shift",
    "adjust_holm",
    "bootstrap_clustered",
    "build_clusters",
    "compare_paired",
    "estimate_association",
    "estimate_clustered_rate",
    "estimate_shift",
]
