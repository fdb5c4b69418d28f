from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from repotrial._core.absence import NotComputable
from repotrial.stats import Cluster, Estimate, Interval, Shift, estimate_shift


def estimate(values: dict[str, tuple[float, ...]], *, draws: int = 500) -> Shift | NotComputable:
    clusters = [Cluster(key=key, values=found) for key, found in values.items()]
    return estimate_shift(clusters, seed_sequence=np.random.SeedSequence(3), draws=draws)


def test_four_tasks_by_hand() -> None:
    found = estimate({"a": (1.0, 3.0), "b": (-1.0,), "c": (0.0,), "d": (3.0,)})
    assert isinstance(found, Shift)
    # One difference for each task: 2, -1, 0, 3.
    assert found.mean.value == pytest.approx(1.0)
    assert found.mean.n_clusters == 4
    assert (found.positive, found.negative, found.zero) == (2, 1, 1)
    assert found.median == pytest.approx(1.0)
    assert found.std == pytest.approx((10 / 3) ** 0.5)
    assert found.iqr == pytest.approx(2.25 - -0.25)
    assert isinstance(found.standardized, Estimate)
    assert found.standardized.value == pytest.approx(1 / (10 / 3) ** 0.5)
    # Sums of ±2 ±1 ±3 that are at least 4 from 0: ±(2-1+3), ±(2+1+3).
    assert found.sign_flip.p_value == pytest.approx(4 / 8)
    assert found.sign_flip.method == "sign-flip-exact"


@settings(max_examples=30)
@given(st.lists(st.integers(-50, 50).filter(bool), min_size=3, max_size=9))
def test_the_p_value_is_that_of_scipy(differences: list[int]) -> None:
    found = estimate({f"t{n}": (float(v),) for n, v in enumerate(differences)}, draws=20)
    expected = scipy_stats.permutation_test(
        (differences,), np.mean, permutation_type="samples", n_resamples=10**6, vectorized=False
    )
    assert isinstance(found, Shift)
    assert found.sign_flip.p_value == pytest.approx(float(expected.pvalue))


def test_intervals_contain_what_they_are_around_and_say_how_they_were_made() -> None:
    rng = np.random.default_rng(9)
    found = estimate({f"t{n}": (float(v),) for n, v in enumerate(rng.normal(1, 2, size=40))})
    assert isinstance(found, Shift)
    for part in (found.mean, found.standardized):
        assert isinstance(part, Estimate)
        assert isinstance(part.interval, Interval)
        assert part.interval.low < part.value < part.interval.high


def test_too_few_tasks_and_differences_that_are_all_equal() -> None:
    assert estimate({"a": (1.0,), "b": (2.0,)}) == NotComputable("needs at least 3 matched tasks, found 2")
    equal = estimate({"a": (2.0,), "b": (2.0,), "c": (2.0,)})
    assert isinstance(equal, Shift)
    assert equal.mean.value == 2
    assert isinstance(equal.mean.interval, NotComputable)
    assert isinstance(equal.standardized, NotComputable)
    assert equal.sign_flip.p_value == pytest.approx(0.25)
