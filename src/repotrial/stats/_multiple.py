"""Several questions asked of the same data."""

from __future__ import annotations

from collections.abc import Sequence


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
