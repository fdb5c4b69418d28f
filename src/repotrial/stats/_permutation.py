"""The sign-flip test, and Holm's adjustment for several tests of the same data.

If the two sides were alike, every difference could as well have had the other sign.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction

import msgspec
import numpy as np
import numpy.typing as npt

from repotrial.stats._model import Cluster, Method, is_binary


def adjust_holm(p_values: Sequence[float]) -> tuple[float, ...]:
    """Holm's step-down adjustment, in the order given, which keeps the family-wise error rate."""
    if not all(0 <= p <= 1 for p in p_values):
        raise ValueError("expected p-values between 0 and 1")
    adjusted = [0.0] * len(p_values)
    running = 0.0
    for rank, index in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        running = max(running, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = running
    return tuple(adjusted)


_ENUMERATED = 15
"""Differences up to which all sign assignments are listed."""
_LATTICE_STEPS = 10**8
"""Additions up to which the exact distribution on a lattice is worth its time."""
_CELLS = 1 << 20
"""Random signs held at a time; fixed, because the random stream is read in these portions."""


class PermutationTest(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="permutation-test"):
    """Two-sided test that the differences of clusters are symmetric around 0."""

    p_value: float
    """Share of sign assignments whose mean is at least as far from 0 as the observed one."""
    n_nonzero: int
    """Clusters with a difference; the others have no sign to flip."""
    method: Method
    """Whether all assignments were counted or a random sample of them."""


def compare_sign_flips(
    differences: Sequence[float],
    lattice: Sequence[int] | None,
    *,
    seed_sequence: np.random.SeedSequence,
    draws: int,
) -> PermutationTest:
    """Test differences against their sign flips: exactly where that is feasible, else by seeded sampling.

    Args:
        differences: One for each cluster.
        lattice: The same as whole multiples of a common step, if there is one (`find_lattice`).
        seed_sequence: For the random sample, if one is needed.
        draws: Size of that sample.
    """
    nonzero = np.array([value for value in differences if value != 0])
    method = Method.SIGN_FLIP_EXACT
    if len(nonzero) == 0:
        p_value = 1.0
    elif lattice is not None and sum(map(abs, lattice)) * len(nonzero) <= _LATTICE_STEPS:
        p_value = _count_on_lattice(lattice)
    elif len(nonzero) <= _ENUMERATED:
        p_value = _enumerate(nonzero)
    else:
        method = Method.SIGN_FLIP_MONTE_CARLO
        p_value = _sample(nonzero, draws, seed_sequence)
    return PermutationTest(p_value=p_value, n_nonzero=len(nonzero), method=method)


def find_lattice(pairs: Sequence[tuple[Cluster, Cluster]]) -> list[int] | None:
    """Differences of rates as whole multiples of a common step; None if values are not 0 and 1."""
    if not all(is_binary(a) and is_binary(b) for a, b in pairs):
        return None
    exact = [Fraction(int(a.total), len(a.values)) - Fraction(int(b.total), len(b.values)) for a, b in pairs]
    denominator = math.lcm(*(value.denominator for value in exact))
    return [int(value * denominator) for value in exact]


def _count_on_lattice(lattice: Sequence[int]) -> float:
    # With W the sum of the steps that come out positive, the flipped total is 2W - T: a subset sum.
    total, observed = sum(map(abs, lattice)), abs(sum(lattice))
    chances = np.zeros(total + 1)
    chances[0] = 1.0
    reached = 0
    for step in filter(None, map(abs, lattice)):
        chances[: reached + 1] /= 2
        chances[step : reached + step + 1] += chances[: reached + 1].copy()
        reached += step
    extreme = np.abs(2 * np.arange(total + 1) - total) >= observed
    # The observed assignment is one of them, so the true value is above 0 even where it underflows.
    return min(1.0, max(float(chances[extreme].sum()), float(np.finfo(np.float64).tiny)))


def _enumerate(differences: npt.NDArray[np.float64]) -> float:
    # Flipping all signs gives the same distance from 0, so the first sign can stay.
    free = len(differences) - 1
    bits = (np.arange(1 << free)[:, None] >> np.arange(free)) & 1
    totals = differences[0] + (1 - 2 * bits) @ differences[1:]
    return float(np.mean(np.abs(totals) >= _threshold(differences)))


def _sample(differences: npt.NDArray[np.float64], draws: int, seed_sequence: np.random.SeedSequence) -> float:
    generator = np.random.default_rng(seed_sequence)
    rows = max(1, _CELLS // len(differences))
    threshold, extreme = _threshold(differences), 0
    for start in range(0, draws, rows):
        shape = (min(rows, draws - start), len(differences))
        signs = 1 - 2 * generator.integers(2, size=shape, dtype=np.int8)
        extreme += int(np.count_nonzero(np.abs(signs @ differences) >= threshold))
    return (extreme + 1) / (draws + 1)


def _threshold(differences: npt.NDArray[np.float64]) -> float:
    # Equal totals may differ in their last bits, by the order of summation.
    return abs(float(differences.sum())) - 1e-12 * float(np.abs(differences).sum())
