"""Simulates the estimators where the truth is known, and writes `docs/reference/simulations.md`.

`python tools/simulation_table.py [REPEATS]`; fixed seeds, so the same code gives the same page.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np
import numpy.typing as npt
from scipy import stats

from repotrial.stats import (
    Cluster,
    Estimate,
    Interval,
    adjust_holm,
    build_always_valid,
    compare_paired,
    compute_sequential_p,
    estimate_clustered_rate,
    plan_looks,
)

PAGE = Path(__file__).resolve().parent.parent / "docs" / "reference" / "simulations.md"
_SEED = 20260307
_ALPHA = 0.05
_Floats = npt.NDArray[np.float64]


def main() -> int:
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 2000
    PAGE.write_text(render(repeats), encoding="utf-8")
    print(f"written: {PAGE}")
    return 0


def render(repeats: int) -> str:
    note = "<!-- Written by `python tools/simulation_table.py`: edit that. -->"
    intro = (
        f"What the [statistics](../explanation/statistics.md) do where the truth is known: {repeats:,} "
        "simulated pilots for each line, seeds fixed. A share near 0.95 has a Monte Carlo error of about "
        f"{np.sqrt(0.95 * 0.05 / repeats):.3f}. Chances of tasks are beta distributed; two arms' chances on "
        "a task go together by a normal copula."
    )
    parts = [
        "# Simulations",
        note,
        intro,
        "## Rates",
        "Coverage of the 95 % interval, and its mean width over that of an interval with known variance.",
        _table(("rate", "ICC", "tasks", "runs", "coverage", "width"), _simulate_rates(repeats)),
        "## Paired differences",
        "Coverage of the 95 % interval, and how often p is at most 0.05 (the size if rates are equal).",
        _table(("rates", "ICC", "shared", "tasks", "runs", "coverage", "rejected"), _simulate_pairs(repeats)),
        "## Looks",
        "How often a test without any difference stops: t at spent levels, and at 0.05 at each look.",
        _table(("tasks", "runs", "looks at", "spent levels", "0.05 each"), _simulate_looks(repeats * 5)),
        "## A family with one contrast that may stop",
        "Three arms without differences, three contrasts, Holm; the first may stop at 16, 28 or 40 tasks.",
        _table(("tasks", "runs", "any rejected"), _simulate_family(repeats)),
        "## Always-valid band",
        "How often the band ever leaves the truth within 200 tasks, and its last width over the fixed one.",
        _table(("rates", "runs", "ever missed", "width"), _simulate_band(max(200, repeats // 5))),
    ]
    return "\n\n".join(parts) + "\n"


def _table(header: tuple[str, ...], rows: Iterator[tuple[object, ...]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{' --- |' * len(header)}"]
    lines += [f"| {' | '.join(map(str, row))} |" for row in rows]
    return "\n".join(lines)


def _draw(generator: np.random.Generator, rate: float, icc: float, shape: tuple[int, ...]) -> _Floats:
    if icc == 0:
        return np.full(shape, rate)
    scale = (1 - icc) / icc
    return generator.beta(rate * scale, (1 - rate) * scale, shape)


def _draw_pair(
    generator: np.random.Generator,
    rates: tuple[float, float],
    icc: float,
    shared: float,
    shape: tuple[int, int],
) -> list[_Floats]:
    if icc == 0:
        return [np.full(shape, rate) for rate in rates]
    one, other = generator.standard_normal((2, *shape))
    scale, ranks = (1 - icc) / icc, np.linspace(0, 1, 2001)
    joined = (one, shared * one + np.sqrt(1 - shared**2) * other)
    return [
        np.interp(stats.norm.cdf(normal), ranks, stats.beta.ppf(ranks, rate * scale, (1 - rate) * scale))
        for normal, rate in zip(joined, rates, strict=True)
    ]


def _cluster(runs: _Floats) -> list[Cluster]:
    return [Cluster(key=f"{place:04}", values=tuple(row)) for place, row in enumerate(runs.T.tolist())]


def _simulate_rates(repeats: int) -> Iterator[tuple[object, ...]]:
    for rate, icc, (tasks, runs) in product(
        (0.1, 0.5, 0.9), (0.0, 0.4, 0.8), ((20, 1), (20, 3), (60, 3), (200, 1))
    ):
        generator = np.random.default_rng(_SEED)
        hits, width = 0, 0.0
        for chances in _draw(generator, rate, icc, (repeats, tasks)):
            found = estimate_clustered_rate(
                _cluster((generator.random((runs, tasks)) < chances).astype(float))
            )
            assert isinstance(found, Estimate)
            assert isinstance(found.interval, Interval)
            hits += found.interval.low <= rate <= found.interval.high
            width += found.interval.high - found.interval.low
        known = 2 * 1.96 * np.sqrt(rate * (1 - rate) * (1 + (runs - 1) * icc) / (runs * tasks))
        yield rate, icc, tasks, runs, f"{hits / repeats:.3f}", f"{width / repeats / known:.2f}"


def _simulate_pairs(repeats: int) -> Iterator[tuple[object, ...]]:
    cells = product(
        ((0.1, 0.1), (0.5, 0.5), (0.1, 0.2), (0.5, 0.7), (0.1, 0.9)),
        ((0.0, 0.0), (0.65, 0.58)),
        ((20, 3), (60, 1)),
    )
    for rates, (icc, shared), (tasks, runs) in cells:
        generator = np.random.default_rng(_SEED)
        truth, covered, rejected = rates[0] - rates[1], 0, 0
        for one, other in zip(*_draw_pair(generator, rates, icc, shared, (repeats, tasks)), strict=True):
            sides = [
                _cluster((generator.random((runs, tasks)) < each).astype(float)) for each in (one, other)
            ]
            found = compare_paired(*sides, seed_sequence=np.random.SeedSequence(1), draws=1)
            assert isinstance(found.difference, Estimate)
            ends = found.difference.interval
            assert isinstance(ends, Interval)
            covered += ends.low <= truth + 1e-12 and truth - 1e-12 <= ends.high
            rejected += getattr(found.t_test, "p_value", 1.0) <= _ALPHA
        yield (
            f"{rates[0]}, {rates[1]}",
            icc,
            shared,
            tasks,
            runs,
            f"{covered / repeats:.3f}",
            f"{rejected / repeats:.3f}",
        )


def _test(differences: _Floats) -> _Floats:
    count, spread = differences.shape[1], differences.std(axis=1, ddof=1)
    t = differences.mean(axis=1) / np.where(spread > 0, spread, np.inf) * np.sqrt(count)
    return np.asarray(2 * stats.t.sf(np.abs(t), count - 1))


def _draw_alike(tasks: int, runs: int, repeats: int, sides: int) -> _Floats:
    generator = np.random.default_rng(_SEED)
    chances = _draw(generator, 0.6, 0.65, (repeats, tasks))
    return np.asarray(generator.binomial(runs, chances, size=(sides, repeats, tasks)) / runs)


def _simulate_looks(repeats: int) -> Iterator[tuple[object, ...]]:
    for tasks, runs, at in (
        (20, 3, (6, 12, 20)),
        (40, 3, (8, 24, 40)),
        (40, 3, (10, 20, 30, 40)),
        (80, 1, (16, 48, 80)),
    ):
        one, other = _draw_alike(tasks, runs, repeats, 2)
        looks = plan_looks([count / tasks for count in at])
        held = [_test((one - other)[:, :count]) for count in at]
        spent = np.any([p <= look.level for p, look in zip(held, looks, strict=True)], axis=0)
        plain = np.any([p <= _ALPHA for p in held], axis=0)
        yield tasks, runs, ", ".join(map(str, at)), f"{spent.mean():.3f}", f"{plain.mean():.3f}"


def _simulate_family(repeats: int) -> Iterator[tuple[object, ...]]:
    at, tasks, runs = (16, 28, 40), 40, 3
    sides = _draw_alike(tasks, runs, repeats, 3)
    looks = plan_looks([count / tasks for count in at])
    held = np.array([_test((sides[0] - sides[1])[:, :count]) for count in at])
    crossed = held <= np.array([look.level for look in looks])[:, None]
    last = np.where(crossed.any(axis=0), crossed.argmax(axis=0), len(at) - 1)
    others = [_test(sides[0] - sides[2]), _test(sides[1] - sides[2])]
    rejected = 0
    for place, stop in enumerate(last):
        sequential = compute_sequential_p(
            looks[: int(stop) + 1], float(stats.norm.isf(held[stop, place] / 2))
        )
        rejected += min(adjust_holm([sequential, *(float(one[place]) for one in others)])) <= _ALPHA
    yield tasks, runs, f"{rejected / repeats:.3f}"


def _simulate_band(repeats: int) -> Iterator[tuple[object, ...]]:
    for rates, runs in (((0.5, 0.5), 1), ((0.5, 0.5), 3), ((0.2, 0.5), 3), ((0.9, 0.9), 3)):
        generator = np.random.default_rng(_SEED)
        one, other = _draw_pair(generator, rates, 0.5, 0.5, (repeats, 200))
        differences = (generator.binomial(runs, one) - generator.binomial(runs, other)) / runs
        truth, missed, width = rates[0] - rates[1], 0, 0.0
        for row in differences:
            band = build_always_valid(row.tolist())
            missed += not all(each.low <= truth <= each.high for each in band)
            width += band[-1].high - band[-1].low
        fixed = 2 * 1.96 * float(np.std(differences)) / np.sqrt(200)
        yield f"{rates[0]}, {rates[1]}", runs, f"{missed / repeats:.3f}", f"{width / repeats / fixed:.2f}"


if __name__ == "__main__":
    sys.exit(main())
