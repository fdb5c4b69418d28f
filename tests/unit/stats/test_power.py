"""Power: against SciPy's noncentral t where that is defined, and against simulated comparisons."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from repotrial._core.absence import NotComputable
from repotrial.stats import Contrast, compute_power_of_effect, find_smallest_effect
from repotrial.stats._power import Power, compute_power, find_needed_clusters
from support.outcomes import draw_chances

PLANNED = Contrast(rate_a=0.6, rate_b=0.5, runs=3, icc=0.4)


def _power(contrast: Contrast, clusters: int, *, level: float = 0.95) -> float:
    found = compute_power(contrast, clusters, level=level)
    assert isinstance(found, Power)
    return found.value


@pytest.mark.parametrize("clusters", [3, 10, 100])
@pytest.mark.parametrize("rate_b", [0.6, 0.55, 0.4])
def test_power_is_that_of_the_noncentral_t(clusters: int, rate_b: float) -> None:
    contrast = Contrast(rate_a=0.6, rate_b=rate_b, runs=3, icc=0.4)
    shift = (0.6 - rate_b) * math.sqrt(clusters / contrast.variance)
    critical = stats.t.isf(0.025, clusters - 1)
    known = stats.nct.sf(critical, clusters - 1, shift) + stats.nct.cdf(-critical, clusters - 1, shift)
    assert _power(contrast, clusters) == pytest.approx(float(known), abs=2e-5)


@given(
    st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.integers(1, 50), st.floats(0, 1), st.integers(3, 10**5)
)
def test_power_is_a_probability_everywhere(a: float, b: float, runs: int, icc: float, clusters: int) -> None:
    assert 0 <= _power(Contrast(rate_a=a, rate_b=b, runs=runs, icc=icc), clusters) <= 1


@pytest.mark.parametrize("shared", [False, True], ids=["unrelated sides", "same hard contracts"])
def test_simulated_comparisons_find_the_difference_as_often_as_planned(shared: bool) -> None:  # noqa: FBT001
    generator = np.random.default_rng(20260307)
    repeats, clusters, runs, icc = 4000, 40, 4, 0.3
    rates = (0.65, 0.65) if shared else (0.65, 0.5)
    a = draw_chances(generator, rates[0], icc, (repeats, clusters))
    b = 0.8 * a if shared else draw_chances(generator, rates[1], icc, (repeats, clusters))
    differences = (generator.binomial(runs, a) - generator.binomial(runs, b)) / runs
    seen = np.mean(stats.ttest_1samp(differences, 0, axis=1).pvalue < 0.05)
    rate_b = float(rates[1] * (0.8 if shared else 1))
    correlation = 1.0 if shared else 0.0
    planned = Contrast(rate_a=rates[0], rate_b=rate_b, runs=runs, icc=icc, pair_correlation=correlation)
    assert _power(planned, clusters) == pytest.approx(float(seen), abs=0.05)


def test_the_fewest_contracts_are_found() -> None:
    found = find_needed_clusters(PLANNED, 0.8)
    assert isinstance(found, Power)
    assert found.value >= 0.8 > _power(PLANNED, found.n_clusters - 1)
    assert found.value == _power(PLANNED, found.n_clusters)


def test_repeats_help_less_the_more_alike_they_are() -> None:
    def needed(runs: int, icc: float) -> int:
        found = find_needed_clusters(Contrast(rate_a=0.6, rate_b=0.5, runs=runs, icc=icc), 0.8)
        assert isinstance(found, Power)
        return found.n_clusters

    assert needed(1, 0.9) == needed(1, 0.0)
    assert needed(5, 0.0) < needed(5, 0.5) < needed(5, 0.9) < needed(1, 0.9)


def test_a_difference_of_nothing_is_never_found() -> None:
    equal = Contrast(rate_a=0.5, rate_b=0.5, runs=3, icc=0.4)
    assert isinstance(find_needed_clusters(equal, 0.8), NotComputable)
    assert _power(equal, 50) == pytest.approx(0.05, abs=1e-4)


@pytest.mark.parametrize(
    ("contrast", "clusters", "reason"),
    [(PLANNED, 2, "at least 3"), (Contrast(rate_a=1, rate_b=0, runs=1, icc=0.1), 9, "no room for chance")],
)
def test_power_that_has_no_meaning_is_not_computable(contrast: Contrast, clusters: int, reason: str) -> None:
    found = compute_power(contrast, clusters)
    assert isinstance(found, NotComputable)
    assert reason in found.reason


def test_a_contrast_without_chance_needs_no_number_of_contracts() -> None:
    assert isinstance(find_needed_clusters(Contrast(rate_a=1, rate_b=0, runs=1, icc=0.1), 0.8), NotComputable)


@pytest.mark.parametrize(
    "change", [{"rate_a": 1.1}, {"rate_b": -0.1}, {"icc": 2.0}, {"pair_correlation": math.nan}, {"runs": 0}]
)
def test_what_no_runs_could_have_is_refused(change: dict[str, float]) -> None:
    fields: dict[str, float] = {"rate_a": 0.5, "rate_b": 0.5, "icc": 0.1, "pair_correlation": 0.0, "runs": 1}
    fields |= change
    with pytest.raises(ValueError, match=r"expected (rate|icc|pair|at least)"):
        Contrast(**fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("clusters", "runs", "effect"), [(40, 1, 0.2), (40, 3, 0.2), (80, 2, 0.15), (60, 1, 0.15), (127, 3, 0.1)]
)
def test_formula_and_simulation_agree_within_three_points(clusters: int, runs: int, effect: float) -> None:
    contrast = Contrast(
        rate_a=0.5 + effect / 2, rate_b=0.5 - effect / 2, runs=runs, icc=0.65, pair_correlation=0.65
    )
    formula = compute_power_of_effect(effect, math.sqrt(contrast.variance), clusters)
    assert contrast.simulate(clusters) == pytest.approx(formula, abs=0.03)


def test_without_an_effect_simulated_false_alarms_keep_to_the_level() -> None:
    contrast = Contrast(rate_a=0.5, rate_b=0.5, runs=2, icc=0.65, pair_correlation=0.65)
    assert contrast.simulate(40) <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 4000)


@pytest.mark.parametrize("clusters", [10, 40, 200])
@pytest.mark.parametrize("power", [0.8, 0.9])
def test_the_smallest_effect_is_that_of_statsmodels(clusters: int, power: float) -> None:
    oracle = pytest.importorskip("statsmodels.stats.power", reason="statsmodels is not installed")
    known = oracle.TTestPower().solve_power(nobs=clusters, alpha=0.05, power=power, alternative="two-sided")
    found = find_smallest_effect(0.4, clusters, power=power)
    assert found == pytest.approx(0.4 * float(known), abs=2e-4)


def test_the_smallest_effect_has_the_power_that_it_was_asked_for() -> None:
    found = find_smallest_effect(0.4, 40, power=0.8)
    assert isinstance(found, float)
    assert compute_power_of_effect(found, 0.4, 40) == pytest.approx(0.8, abs=1e-6)
