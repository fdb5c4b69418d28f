"""What goes in and what comes out: nothing empty, nothing twice, no NaN; results survive serialization."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest

from repotrial._core.absence import NotComputable
from repotrial.stats import (
    Cluster,
    Estimate,
    PairedComparison,
    bootstrap_clustered,
    build_clusters,
    compare_paired,
    estimate_clustered_rate,
    estimate_icc,
)
from support.outcomes import clusters_of


def test_runs_are_grouped_by_key_and_keep_their_order() -> None:
    assert build_clusters([("b", 1), ("a", 0), ("b", 0)]) == (
        Cluster(key="a", values=(0,)),
        Cluster(key="b", values=(1, 0)),
    )


@pytest.mark.parametrize("values", [(), (math.nan,), (1.0, math.inf)], ids=["none", "nan", "infinite"])
def test_a_cluster_without_numbers_is_refused(values: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="expected"):
        Cluster(key="a", values=values)


def test_a_cluster_given_twice_is_refused() -> None:
    twice = [Cluster(key="a", values=(1,)), Cluster(key="a", values=(0,))]
    seed = np.random.SeedSequence(1)
    with pytest.raises(ValueError, match="'a' twice"):
        estimate_clustered_rate(twice)
    with pytest.raises(ValueError, match="'a' twice"):
        bootstrap_clustered(twice, seed_sequence=seed)
    with pytest.raises(ValueError, match="'a' twice"):
        compare_paired([], twice, seed_sequence=seed)
    with pytest.raises(ValueError, match="'a' twice"):
        estimate_icc(twice)


@pytest.mark.parametrize("level", [0.0, 1.0, -1.0, 95.0, math.nan])
def test_a_level_that_is_no_share_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="expected a level between 0 and 1"):
        estimate_clustered_rate(clusters_of([0, 1], [1]), level=level)


def test_results_round_trip_as_documents() -> None:
    estimate = estimate_clustered_rate(clusters_of([0, 1], [1, 1], [0]))
    lonely = estimate_clustered_rate(clusters_of([0, 1]))
    for result in (estimate, lonely):
        data = msgspec.json.encode(result)
        assert msgspec.json.decode(data, type=Estimate | NotComputable) == result
    compared = compare_paired(
        clusters_of([1], [1], [0, 1]), clusters_of([0], [0], [1]), seed_sequence=np.random.SeedSequence(1)
    )
    assert msgspec.json.decode(msgspec.json.encode(compared), type=PairedComparison) == compared
