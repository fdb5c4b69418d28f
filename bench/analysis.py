"""Analysis of a table of trials, against the same figures by statsmodels and SciPy; equal values first."""

from __future__ import annotations

import csv
import itertools
import math
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np

from bench.trace import Part, Ratio
from repotrial.analysis import Analysis, analyze_trials, read_trials

_ARMS, _TASKS, _REPEATS = 9, 78, 5
_ROUNDS = 5
_MOST_SECONDS = 2.0


class _Peer(msgspec.Struct, frozen=True, kw_only=True):
    rates: dict[str, tuple[float, float]]
    """Estimate and standard error of each arm."""
    contrasts: dict[frozenset[str], tuple[float, float]]
    """Difference without its sign, and the adjusted p-value."""


def bench_analysis() -> Ratio:
    """3,510 trials of 9 arms: rates with cluster-robust errors, ICC, all pairs with paired t and Holm."""
    with tempfile.TemporaryDirectory() as place:
        table = _write_table(Path(place) / "trials.csv")
        _compare(analyze_trials(read_trials(table)), _analyze_with_statsmodels(table))
        ours, peer = [], []
        for _ in range(_ROUNDS):
            ours.append(_measure(lambda: analyze_trials(read_trials(table))))
            peer.append(_measure(lambda: _analyze_with_statsmodels(table)))
    trials = _ARMS * _TASKS * _REPEATS
    seconds = sorted(ours)[len(ours) // 2]
    note = f"{trials} trials: ours {seconds:.2f} s of processor time (goal at most {_MOST_SECONDS:g} s)"
    part = Part(
        name="figures of a table",
        ours_us=[1e6 * one / trials for one in ours],
        peer_us=[1e6 * one / trials for one in peer],
        note=note,
    )
    return Ratio(name="analysis of 3,510 trials against statsmodels", goal=5, parts=(part,))


def _measure(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def _write_table(path: Path) -> Path:
    generator = np.random.default_rng(20260307)
    difficulty = generator.normal(0, 2, size=_TASKS)
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["task", "arm", "repeat", "outcome", "cost_usd", "wall_seconds"])
        for arm, task in itertools.product(range(_ARMS), range(_TASKS)):
            chance = 1 / (1 + np.exp(-(difficulty[task] + 0.2 * arm)))
            for repeat in range(_REPEATS):
                outcome = "success" if generator.random() < chance else "failure"
                cost, wall = generator.gamma(2, 0.3), generator.gamma(2, 90)
                writer.writerow([f"t{task}", f"a{arm}", repeat, outcome, f"{cost:.4f}", f"{wall:.1f}"])
    return path


def _analyze_with_statsmodels(table: Path) -> _Peer:
    import pandas as pd
    import statsmodels.formula.api as smf
    from scipy import stats
    from statsmodels.stats.anova import anova_lm
    from statsmodels.stats.multitest import multipletests

    frame = pd.read_csv(table)
    frame["y"] = (frame["outcome"] == "success").astype(float)
    frame["group"] = frame["task"].astype("category").cat.codes
    rates = {}
    for name, part in frame.groupby("arm"):
        fit = smf.ols("y ~ 1", data=part).fit(cov_type="cluster", cov_kwds={"groups": part["group"]})
        fit.conf_int()
        anova_lm(smf.ols("y ~ C(task)", data=part).fit())
        rates[str(name)] = (float(fit.params.iloc[0]), float(fit.bse.iloc[0]))
    means = frame.pivot_table(index="arm", columns="task", values="y")
    pairs = list(itertools.combinations(means.index, 2))
    tests = [stats.ttest_rel(means.loc[one], means.loc[other]) for one, other in pairs]
    for test in tests:
        test.confidence_interval(0.95)
    adjusted = multipletests([test.pvalue for test in tests], method="holm")[1]
    contrasts = {
        frozenset(pair): (abs(float(means.loc[pair[0]].mean() - means.loc[pair[1]].mean())), float(p))
        for pair, p in zip(pairs, adjusted, strict=True)
    }
    return _Peer(rates=rates, contrasts=contrasts)


def _compare(ours: Analysis, peer: _Peer) -> None:
    pairs: list[tuple[object, float]] = []
    for arm in ours.arms:
        pairs += zip((arm.rate.estimate, arm.rate.standard_error), peer.rates[arm.name], strict=True)
    for one in ours.contrasts:
        assert isinstance(one.difference, float)
        known = peer.contrasts[frozenset((one.first, one.second))]
        pairs += zip((abs(one.difference), one.p_holm), known, strict=True)
    for found, known_value in pairs:
        assert isinstance(found, float)
        assert math.isclose(found, known_value, rel_tol=1e-8, abs_tol=1e-12)
