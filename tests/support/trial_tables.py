"""Tables of trials, as another harness would write them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

HEADER = "task,arm,repeat,outcome,cost_usd,wall_seconds"


def write_table(path: Path, rows: Iterable[object], *, header: str = HEADER) -> Path:
    """A table with these lines; a line that is no text is joined."""
    lines = [row if isinstance(row, str) else ",".join(map(str, _as_tuple(row))) for row in rows]
    path.write_text("\n".join([header, *lines]) + "\n", encoding="utf-8")
    return path


def _as_tuple(row: object) -> tuple[object, ...]:
    assert isinstance(row, tuple)
    return row


def draw_trials(
    arms: dict[str, float], *, tasks: int = 40, repeats: int = 3, seed: int = 20260307
) -> list[tuple[str, str, int, str, float, float]]:
    """Trials of arms whose chances are shifted on the logit scale; tasks differ much."""
    generator = np.random.default_rng(seed)
    difficulty = generator.normal(0, 1.5, size=tasks)
    rows = []
    for arm, shift in arms.items():
        for task in range(tasks):
            chance = 1 / (1 + np.exp(-(difficulty[task] + shift)))
            for repeat in range(repeats):
                outcome = "success" if generator.random() < chance else "failure"
                cost, wall = generator.gamma(2, 0.3), generator.gamma(2, 90)
                rows.append((f"t{task:03}", arm, repeat, outcome, round(cost, 4), round(wall, 1)))
    return rows
