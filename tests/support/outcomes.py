"""Outcomes of runs in clusters: strategies, and draws from a population with a known rate and correlation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from hypothesis import strategies as st
from scipy import special, stats

from repotrial.stats import Cluster

LEVELS = st.floats(0.01, 0.999)


def cluster_lists(
    values: st.SearchStrategy[float], *, min_size: int = 0, max_size: int = 8
) -> st.SearchStrategy[list[Cluster]]:
    """Lists of clusters with different keys, in no particular order."""
    runs = st.lists(values, min_size=1, max_size=6).map(tuple)
    named = st.dictionaries(
        st.text("abcdef", min_size=1, max_size=3), runs, min_size=min_size, max_size=max_size
    )
    return named.map(lambda found: [Cluster(key=key, values=found[key]) for key in found])


def binary_cluster_lists(*, min_size: int = 0, max_size: int = 8) -> st.SearchStrategy[list[Cluster]]:
    """The same with successes and failures only."""
    return cluster_lists(st.sampled_from([0.0, 1.0]), min_size=min_size, max_size=max_size)


def clusters_of(*outcomes: Sequence[float]) -> list[Cluster]:
    """One cluster for each argument, with keys in their order."""
    return [Cluster(key=f"{index:05}", values=tuple(values)) for index, values in enumerate(outcomes)]


def draw_chances(
    generator: np.random.Generator, rate: float, icc: float, shape: tuple[int, ...]
) -> npt.NDArray[np.float64]:
    """Chances from the beta distribution with this mean; runs that share a chance correlate by `icc`."""
    if icc == 0:
        return np.full(shape, rate)
    scale = (1 - icc) / icc
    return generator.beta(rate * scale, (1 - rate) * scale, shape)


def draw_paired_chances(
    generator: np.random.Generator,
    rates: tuple[float, float],
    icc: float,
    shared: float,
    shape: tuple[int, ...],
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The same for two sides whose chances on a task go together, by a normal copula of this correlation."""
    one, other = generator.standard_normal((2, *shape))
    joined = (one, shared * one + np.sqrt(1 - shared**2) * other)
    if icc == 0:
        return np.full(shape, rates[0]), np.full(shape, rates[1])
    scale = (1 - icc) / icc
    ranks = np.linspace(0, 1, 2001)
    first, second = (
        np.interp(special.ndtr(normal), ranks, stats.beta.ppf(ranks, rate * scale, (1 - rate) * scale))
        for normal, rate in zip(joined, rates, strict=True)
    )
    return first, second


def shuffle(clusters: Sequence[Cluster], seed: int) -> list[Cluster]:
    """The same clusters in another order, and the runs within each in another order."""
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(clusters))
    return [
        Cluster(
            key=clusters[index].key,
            values=tuple(float(value) for value in generator.permutation(clusters[index].values)),
        )
        for index in order
    ]
