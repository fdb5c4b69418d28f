"""The frozen choice of repeats: it sees squared differences alone."""

from __future__ import annotations

import numpy as np
import pytest

from repotrial._core.absence import NotComputable
from repotrial.analysis import BlindedVariance, Pilot, PilotArm, RepeatsDecision, check_pilot
from repotrial.conduct import render_pilot


@pytest.fixture(scope="module")
def pilot() -> Pilot:
    arms = [PilotArm(name="a", agent="script:a.sh"), PilotArm(name="b", agent="script:b.sh")]
    found, problems = check_pilot(render_pilot("p", "suite.toml", arms, tasks=40).encode())
    assert found is not None
    assert problems == []
    return found


def _estimate(pilot: Pilot, tasks: list[tuple[list[int], list[int]]]) -> BlindedVariance:
    found = BlindedVariance.estimate(pilot, tasks)
    assert not isinstance(found, NotComputable)
    return found


def test_swapping_the_arms_of_any_task_changes_nothing(pilot: Pilot) -> None:
    generator = np.random.default_rng(1)
    tasks = [
        ([int(x) for x in generator.integers(0, 2, 2)], [int(generator.integers(0, 2))]) for _ in range(30)
    ]
    swapped = [(b, a) if place % 3 else (a, b) for place, (a, b) in enumerate(tasks)]
    assert _estimate(pilot, [*tasks]) == _estimate(pilot, [*swapped])


def test_by_hand(pilot: Pilot) -> None:
    found = _estimate(pilot, [([1, 0], [0, 0]), ([1, 1], [1, 0])])
    assert found.within == pytest.approx(0.25)
    assert found.squared == pytest.approx((0.25 + 0.25) / 2)
    assert found.runs == 2
    assert found.predict(4) == pytest.approx(max(0.25 - 0.25, 0) + 0.5 / 4)


def test_without_two_runs_of_a_group_the_planned_icc_stays(pilot: Pilot) -> None:
    found = _estimate(pilot, [([1], [0]), ([1], [1])])
    assert found.is_within_planned
    assert found.within == pytest.approx(0.25 * 0.35)


def test_the_smallest_number_that_reaches_the_power_is_chosen(pilot: Pilot) -> None:
    quiet = BlindedVariance(within=0.05, is_within_planned=False, squared=0.2, runs=1.0, tasks=40)
    decision = RepeatsDecision.decide(pilot, [quiet], planned_tasks=40, most_affordable=3)
    assert decision.repeats == 2
    assert RepeatsDecision.decide(pilot, [quiet], planned_tasks=40, most_affordable=1).repeats is None


def test_stage_3_is_refused_where_no_number_does(pilot: Pilot) -> None:
    loud = BlindedVariance(within=0.05, is_within_planned=False, squared=0.9, runs=1.0, tasks=40)
    decision = RepeatsDecision.decide(pilot, [loud], planned_tasks=40, most_affordable=3)
    assert decision.repeats is None
    assert "do not reach power" in decision.reason


def test_a_spread_far_above_the_planned_one_refutes_the_planning_values(pilot: Pilot) -> None:
    usual = BlindedVariance(within=0.09, is_within_planned=False, squared=0.3, runs=1.0, tasks=40)
    assert usual.find_refutation(pilot) is None
    wild = BlindedVariance(within=0.25, is_within_planned=False, squared=0.3, runs=1.0, tasks=40)
    assert wild.find_refutation(pilot) == "runs of one arm on one task vary by 0.250, planned 0.087"


def test_a_large_effect_does_not_refute_the_planning_values(pilot: Pilot) -> None:
    tasks = [((1, 1), (0, 0)) for _ in range(40)]
    variance = BlindedVariance.estimate(pilot, tasks)
    assert not isinstance(variance, NotComputable)
    assert variance.squared == 1
    assert variance.find_refutation(pilot) is None
