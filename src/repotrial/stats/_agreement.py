"""How far two people agree beyond chance: Cohen's kappa."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from repotrial._core.absence import NotComputable


def compute_kappa(pairs: Sequence[tuple[str, str]]) -> float | NotComputable:
    """(observed - expected) / (1 - expected) agreement; a pair holds what each of two people said of a case.

    The expected agreement is that of two people who answer as often, and independently of the case.
    """
    if not pairs:
        return NotComputable(reason="no case has labels of two people")
    count = len(pairs)
    observed = sum(one == other for one, other in pairs) / count
    first, second = (Counter(pair[side] for pair in pairs) for side in (0, 1))
    expected = sum(first[word] * second[word] for word in first) / count**2
    if expected == 1:
        return NotComputable(reason="both people gave the same answer to every case: chance agrees as often")
    return (observed - expected) / (1 - expected)
