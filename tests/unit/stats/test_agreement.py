"""Cohen's kappa against hand-computed values."""

from __future__ import annotations

import pytest

from repotrial._core.absence import NotComputable
from repotrial.stats import compute_kappa


def test_kappa_of_a_hand_computed_table() -> None:
    # 50 cases: both yes 20, both no 15, only the first yes 5, only the second yes 10.
    pairs = [("y", "y")] * 20 + [("n", "n")] * 15 + [("y", "n")] * 5 + [("n", "y")] * 10
    assert compute_kappa(pairs) == pytest.approx((0.7 - 0.5) / 0.5)


def test_full_agreement_is_one_and_independence_is_zero() -> None:
    assert compute_kappa([("a", "a"), ("b", "b")]) == 1
    assert compute_kappa([("a", "a"), ("a", "b"), ("b", "a"), ("b", "b")]) == 0


def test_without_pairs_or_with_one_answer_there_is_none() -> None:
    assert isinstance(compute_kappa([]), NotComputable)
    assert isinstance(compute_kappa([("a", "a")] * 9), NotComputable)
