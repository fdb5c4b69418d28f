"""How much a test tries: a sample that never changes, or everything under `REPOTRIAL_EXHAUSTIVE=1`."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterable, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

IS_EXHAUSTIVE = os.environ.get("REPOTRIAL_EXHAUSTIVE") == "1"


def sample(items: Sequence[T], count: int) -> list[T]:
    """The first, the last and so many between them, in their order; all of them when asked for everything."""
    if IS_EXHAUSTIVE or count >= len(items):
        return list(items)
    chosen = Random(f"20260307 {len(items)} {count}").sample(range(len(items)), count)
    return [items[index] for index in sorted({0, len(items) - 1, *chosen})]


def examples(usual: int, *, thorough: int) -> int:
    """How many examples Hypothesis looks at."""
    return thorough if IS_EXHAUSTIVE else usual


def one_of_each(items: Iterable[T], kind: Callable[[T], Hashable]) -> list[T]:
    """The first item of each kind; all of them when asked for everything."""
    if IS_EXHAUSTIVE:
        return list(items)
    firsts: dict[Hashable, T] = {}
    for item in items:
        firsts.setdefault(kind(item), item)
    return list(firsts.values())
