"""Randomness and multiplicity of statistics, the same way for every figure."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.seed import ROOT_SEED

if TYPE_CHECKING:
    import numpy as np


class StatisticsOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How sure, and how hard one tries."""

    draws: int = 2000
    """Resamples for intervals."""
    rearrangements: int = 20_000
    """Random rearrangements for p-values, where they cannot all be counted."""
    level: float = 0.95
    """Of intervals."""


def build_seed(label: str) -> np.random.SeedSequence:
    """A stream for one figure: the same whatever else is computed."""
    import numpy as np

    digest = sha256(label.encode("utf-8", "surrogatepass")).digest()
    return np.random.SeedSequence([ROOT_SEED, *(int.from_bytes(digest[i : i + 4]) for i in range(0, 16, 4))])


def adjust(p_values: Sequence[float | NotComputable]) -> list[float | NotComputable]:
    """Holm's adjustment over those that there are; the others stay as they are."""
    from repotrial.stats import adjust_holm

    known = [p for p in p_values if not isinstance(p, NotComputable)]
    adjusted = iter(adjust_holm(known))
    return [p if isinstance(p, NotComputable) else next(adjusted) for p in p_values]
