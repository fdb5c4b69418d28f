"""Measures of ranked lists of files against sets of relevant ones (R10), for many lists at once.

Everything follows from the ranks at which relevant files stand. Values are exact; documents round them.

- precision@K = hits among the first K / K, also if fewer than K were retrieved.
- recall@K = hits among the first K / relevant files.
- f1@K = 2 P R / (P + R) of precision@K and recall@K; 0 if both are 0.
- ndcg@K = sum over hits among the first K of 1 / log2(rank + 1), over that of an ideal list.
- mrr = reciprocal rank = 1 / rank of the first hit; 0 without one.
- map_score of one list = sum over hits of (hits so far / rank) / relevant files.
- file_recall = relevant files anywhere in the list / relevant files.
- context_efficiency = hits / retrieved files; 0 if nothing was retrieved.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

CUTOFFS: Final = (1, 3, 5, 10)
"""Depths at which measures with a cutoff are stated."""
PORTION: Final = 256
"""Lists that are measured at once: enough for speed, few enough to hold their documents."""

_DEEPEST: Final = max(CUTOFFS)
_GAINS: Final = tuple(1 / math.log2(rank + 1) for rank in range(1, _DEEPEST + 1))


def measure_lists(
    lists: Iterable[tuple[Sequence[str], Collection[str]]],
) -> dict[str, npt.NDArray[np.float64]]:
    """Every measure of every list, by name (`precision@5`), in the order given.

    Args:
        lists: Files in the order in which they were met, without repeats, and the files that matter: a set,
            or anything else without repeats; never empty.
    """
    import numpy as np

    marks, lengths, counts = [], [], []
    for retrieved, relevant in lists:
        marks.append(bytes(map(frozenset(relevant).__contains__, retrieved)))
        lengths.append(len(retrieved))
        counts.append(len(relevant))
    retrieved_counts = np.array(lengths, dtype=np.intp)
    relevant_counts = np.array(counts, dtype=np.intp)
    # Only hits matter: for each its list, its rank, and its number within its list.
    places = np.flatnonzero(np.frombuffer(b"".join(marks), dtype=np.uint8))
    ends = np.cumsum(retrieved_counts)
    owners = np.searchsorted(ends, places, side="right")
    ranks = places - (ends - retrieved_counts)[owners] + 1
    total = len(lengths)
    hits = np.bincount(owners, minlength=total)
    firsts = np.cumsum(hits) - hits
    numbers = np.arange(len(places)) - firsts[owners] + 1
    found: dict[str, npt.NDArray[np.float64]] = {}
    gains = np.array(_GAINS)[np.minimum(ranks, _DEEPEST) - 1]
    ideal = np.cumsum(_GAINS)
    for cutoff in CUTOFFS:
        near = ranks <= cutoff
        within = np.bincount(owners[near], minlength=total)
        precision, recall = within / cutoff, within / relevant_counts
        both = precision + recall
        found[f"precision@{cutoff}"] = precision
        found[f"recall@{cutoff}"] = recall
        found[f"f1@{cutoff}"] = 2 * precision * recall / np.where(both > 0, both, 1.0)
        gained = np.bincount(owners[near], weights=gains[near], minlength=total)
        found[f"ndcg@{cutoff}"] = gained / ideal[np.minimum(relevant_counts, cutoff) - 1]
    is_first = numbers == 1
    reciprocal = np.zeros(total)
    reciprocal[owners[is_first]] = 1 / ranks[is_first]
    found["mrr"] = reciprocal
    found["map_score"] = np.bincount(owners, weights=numbers / ranks, minlength=total) / relevant_counts
    found["file_recall"] = hits / relevant_counts
    found["context_efficiency"] = hits / np.maximum(retrieved_counts, 1)
    return found
