"""Holm's adjustment, against its definition as a closed test."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.stats import adjust_holm


def test_the_textbook_case() -> None:
    assert adjust_holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_it_is_what_statsmodels_gives() -> None:
    from statsmodels.stats.multitest import multipletests

    p_values = [0.012, 0.7, 0.0004, 0.03, 0.03, 0.2]
    assert adjust_holm(p_values) == pytest.approx(tuple(multipletests(p_values, method="holm")[1]))


@given(st.lists(st.floats(0, 1), max_size=6))
def test_a_hypothesis_falls_when_every_family_with_it_falls(p_values: list[float]) -> None:
    indices = range(len(p_values))
    families = [family for size in indices for family in itertools.combinations(indices, size + 1)]
    closed = [
        max(
            min(1.0, len(family) * min(p_values[i] for i in family)) for family in families if index in family
        )
        for index in indices
    ]
    assert adjust_holm(p_values) == pytest.approx(tuple(closed))


@pytest.mark.parametrize("p_value", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(p_value: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        adjust_holm([0.5, p_value])
