"""The measures of many lists at once: the same definitions as `MEASURES`, computed on arrays."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from repotrial.retrieval._measures import CUTOFFS

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

__all__ = ["measure_lists"]


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
    gains = 1 / np.log2(ranks + 1)
    ideal = np.cumsum(1 / np.log2(np.arange(2, max(CUTOFFS) + 2)))
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
