"""Words that several packages share, each defined here once."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, Literal, TypeAlias


class Level(StrEnum):
    """Isolation levels, strongest first. A back end registers itself for each level that it offers."""

    L3 = "L3"
    """Unprivileged uid, overlay, bubblewrap, syscall supervisor, empty network namespace."""
    L3C = "L3c"
    """A container through the Docker API."""
    L2 = "L2"
    """Bubblewrap on a copied tree: no overlay."""
    L1 = "L1"
    """Retired: Landlock without namespaces. Old contracts and runs name it."""
    L0 = "L0"
    """Retired: a plain subprocess. Old contracts and runs name it."""


RETIRED_LEVELS: Final = frozenset({Level.L1, Level.L0})
OFFERED_LEVELS: Final = tuple(level for level in Level if level not in RETIRED_LEVELS)
"""Strongest first."""

Gate: TypeAlias = Literal["patch", "build", "acceptance", "safety"]
"""Which gate of the verdict a check belongs to (S2)."""

SandboxPhase: TypeAlias = Literal["setup", "act", "accept"]
"""What a sandbox is opened for."""
