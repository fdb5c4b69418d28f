"""From a table of trials of any harness to figures that decide."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Final

from repotrial import __version__
from repotrial._core.absence import NotComputable
from repotrial.analysis._arms import build_outcome_clusters, describe_arm
from repotrial.analysis._contrasts import Contrast, describe_contrasts, find_tied
from repotrial.analysis._figures import Artefact
from repotrial.analysis._results import Analysis, ArmFigures
from repotrial.analysis._trials import Trial, TrialTable

_LEVEL: Final = 0.95
_NO_RULE: Final = "none: a table of trials has no frozen decision rule; all pairs of arms were compared"
_SEVERAL: Final = 2


def analyze_trials(table: TrialTable) -> Analysis:
    """Analyze trials of whatever harness; the family is all pairs of their arms."""
    by_arm: dict[str, list[Trial]] = {}
    for trial in sorted(table.trials, key=lambda one: (one.arm, one.task, one.repeat)):
        by_arm.setdefault(trial.arm, []).append(trial)
    source = Artefact(name="table", file=table.file, digest=table.digest)
    arms = sorted(
        (describe_arm(name, by_arm[name], level=_LEVEL, computed_from=(source.name,)) for name in by_arm),
        key=_rank,
    )
    names = [arm.name for arm in arms]
    contrasts = describe_contrasts(
        [
            Contrast(f"{first} less {second}", first, second)
            for first, second in itertools.combinations(names, 2)
        ],
        {name: build_outcome_clusters(by_arm[name]) for name in names},
        level=_LEVEL,
        computed_from=dict.fromkeys(names, (source.name,)),
    )
    return Analysis(
        code_version=__version__,
        is_witnessed=False,
        label=f"not witnessed: outcomes, costs and times are as {table.origin} states them; no run was "
        "verified",
        decision=_NO_RULE,
        level=_LEVEL,
        tasks=len({trial.task for trial in table.trials}),
        trials=len(table.trials),
        arms=tuple(arms),
        contrasts=contrasts,
        tied=find_tied(names, contrasts),
        pilot=NotComputable(reason="a table of trials has no plan and no records of runs"),
        notes=tuple(_list_notes(arms, by_arm)),
        artefacts=(source,),
    )


def _rank(arm: ArmFigures) -> tuple[float, str]:
    estimate = arm.rate.estimate
    return (0.0 if isinstance(estimate, NotComputable) else -estimate, arm.name)


def _list_notes(arms: list[ArmFigures], by_arm: dict[str, list[Trial]]) -> list[str]:
    notes = ["error and invalid trials count 0 in the rate; the counts stand beside it"]
    if len(arms) < _SEVERAL:
        notes.append("one arm alone: there is nothing to compare it with")
    if len({arm.tasks for arm in arms}) > 1:
        notes.append(
            "not all arms have the same tasks: rates of different arms are over different tasks, and a "
            "difference is over the tasks that both arms have"
        )
    uneven = [name for name, trials in by_arm.items() if _is_uneven(trials)]
    if uneven:
        notes.append(
            f"not all tasks have as many trials of {', '.join(uneven)}: a rate weighs trials alike, a "
            "difference weighs tasks alike"
        )
    return notes


def _is_uneven(trials: list[Trial]) -> bool:
    return len(set(Counter(trial.task for trial in trials).values())) > 1
