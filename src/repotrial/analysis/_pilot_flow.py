"""Trials on their way from the plan to the estimates, and what stands beside them (B5, B11, B13)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from repotrial._core.absence import NotComputable
from repotrial.analysis._pilot_results import AdjudicatedTrial, AdjudicationFigures
from repotrial.analysis._pilot_runs import ConductedPilot, CountedTrial, find_own_outcome, judge_trials


def trace_flow(pilot: ConductedPilot, trials: Sequence[CountedTrial]) -> dict[str, int]:
    """Every planned contract and trial, by what became of it."""
    outcomes = [one.trial.outcome for one in trials]
    tasks = {one.planned.task for one in trials}
    return {
        "contracts planned": len(tasks | {one.task for one in pilot.beside} | set(pilot.removed)),
        "contracts removed": len(pilot.removed),
        "contracts analyzed": len(tasks),
        "trials planned": len(trials) + len(pilot.beside) + pilot.never_started,
        "trials never started": pilot.never_started,
        "trials beside the estimates": len(pilot.beside),
        "trials of earlier registrations": pilot.shown_apart,
        "trials analyzed": len(trials),
        "attempts": sum(one.planned.attempts for one in trials),
        "trials with an outcome": len(trials) - outcomes.count("indeterminate"),
        "indeterminate": outcomes.count("indeterminate"),
        "success": outcomes.count("success"),
        "failure": outcomes.count("failure"),
        "error": outcomes.count("error"),
        "invalid": outcomes.count("invalid"),
    }


def count_beside(pilot: ConductedPilot) -> dict[str, dict[str, int]]:
    """Outcomes by arm of trials on tasks that a stop left incomplete."""
    counted: dict[str, Counter[str]] = {}
    for one in judge_trials(pilot, pilot.beside):
        counted.setdefault(one.planned.arm, Counter())[one.trial.outcome] += 1
    return {arm: dict(sorted(outcomes.items())) for arm, outcomes in sorted(counted.items())}


def describe_adjudication(
    pilot: ConductedPilot, trials: Sequence[CountedTrial]
) -> AdjudicationFigures | NotComputable:
    """What the registered rule made of the changes of flaky contracts, beside the contracts' own verdicts."""
    rule = pilot.adjudication
    if not rule.contracts:
        return NotComputable(reason="no contract is listed as flaky")
    found = tuple(
        AdjudicatedTrial(
            task=one.planned.task,
            arm=one.planned.arm,
            repeat=one.planned.repeat,
            own=find_own_outcome(one.run),
            outcome=one.trial.outcome,
            passes=one.adjudicated.passes,
            judgments=one.adjudicated.judgments,
            reason=one.adjudicated.reason,
        )
        for one in trials
        if one.adjudicated is not None and one.run is not None
    )
    own = {
        arm: [one.run is not None and one.run.is_success for one in trials if one.planned.arm == arm]
        for arm in pilot.arms
    }
    words = f"{rule.passes} passes within {rule.reruns} judgments of a change"
    return AdjudicationFigures(
        rule=f"on {', '.join(rule.contracts)}, {words}",
        trials=found,
        own_rates={arm: sum(values) / len(values) for arm, values in own.items() if values},
    )
