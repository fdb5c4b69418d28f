"""Measures of a ranked list of files against a set of relevant ones (R10).

Everything follows from the ranks at which relevant files stand: one pass over the list serves all measures.
Values are exact floats; whoever writes a document rounds them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from functools import cache
from typing import Final

import msgspec

__all__ = ["CUTOFFS", "MEASURES", "Measure", "Ranking", "rank"]

CUTOFFS: Final = (1, 3, 5, 10)
"""Depths at which measures with a cutoff are stated."""


class Ranking(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """All that a measure needs to know of a ranked list."""

    hits: tuple[int, ...]
    """Ranks of relevant files, from 1, ascending."""
    retrieved: int
    """Length of the list."""
    relevant: int
    """Number of relevant files; never 0."""


class Measure(msgspec.Struct, frozen=True, kw_only=True):
    """A named figure; its function's docstring has the formula."""

    name: str
    compute: Callable[[Ranking, int], float]
    has_cutoff: bool

    def at(self, ranking: Ranking, cutoff: int = 0) -> float:
        """The value, at a depth where the measure has one."""
        return self.compute(ranking, cutoff)


def rank(retrieved: Sequence[str], relevant: AbstractSet[str]) -> Ranking:
    """Where the relevant files stand in a list without repeats."""
    hits = tuple(place for place, path in enumerate(retrieved, start=1) if path in relevant)
    return Ranking(hits=hits, retrieved=len(retrieved), relevant=len(relevant))


def _found(ranking: Ranking, cutoff: int) -> int:
    return sum(1 for place in ranking.hits if place <= cutoff)


def _precision(ranking: Ranking, cutoff: int) -> float:
    """precision@K = hits among the first K / K, also where fewer than K were retrieved."""
    return _found(ranking, cutoff) / cutoff


def _recall(ranking: Ranking, cutoff: int) -> float:
    """recall@K = hits among the first K / relevant files."""
    return _found(ranking, cutoff) / ranking.relevant


def _f1(ranking: Ranking, cutoff: int) -> float:
    """f1@K = 2 P R / (P + R) of precision@K and recall@K; 0 where both are 0."""
    precision, recall = _precision(ranking, cutoff), _recall(ranking, cutoff)
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _ndcg(ranking: Ranking, cutoff: int) -> float:
    """ndcg@K = sum over hits among the first K of 1 / log2(rank + 1), over that of an ideal list."""
    gain = sum(1 / math.log2(place + 1) for place in ranking.hits if place <= cutoff)
    return gain / _ideal_gain(min(cutoff, ranking.relevant))


def _reciprocal_rank(ranking: Ranking, _: int) -> float:
    """Reciprocal rank (`mrr` in documents) = 1 / rank of the first hit; 0 without one."""
    return 1 / ranking.hits[0] if ranking.hits else 0.0


def _average_precision(ranking: Ranking, _: int) -> float:
    """map_score of one list = sum over hits of (hits so far / rank) / relevant files."""
    return sum(number / place for number, place in enumerate(ranking.hits, start=1)) / ranking.relevant


def _file_recall(ranking: Ranking, _: int) -> float:
    """file_recall = relevant files anywhere in the list / relevant files."""
    return len(ranking.hits) / ranking.relevant


def _context_efficiency(ranking: Ranking, _: int) -> float:
    """context_efficiency = hits / retrieved files; 0 where nothing was retrieved."""
    return len(ranking.hits) / ranking.retrieved if ranking.retrieved else 0.0


@cache
def _ideal_gain(ranks: int) -> float:
    return sum(1 / math.log2(place + 1) for place in range(1, ranks + 1))


MEASURES: Final[dict[str, Measure]] = {
    measure.name: measure
    for measure in (
        Measure(name="precision", compute=_precision, has_cutoff=True),
        Measure(name="recall", compute=_recall, has_cutoff=True),
        Measure(name="f1", compute=_f1, has_cutoff=True),
        Measure(name="mrr", compute=_reciprocal_rank, has_cutoff=False),
        Measure(name="ndcg", compute=_ndcg, has_cutoff=True),
        Measure(name="map_score", compute=_average_precision, has_cutoff=False),
        Measure(name="file_recall", compute=_file_recall, has_cutoff=False),
        Measure(name="context_efficiency", compute=_context_efficiency, has_cutoff=False),
    )
}
"""By name, in the order of documents."""
