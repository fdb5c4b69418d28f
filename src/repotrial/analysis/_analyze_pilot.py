"""From a conducted pilot to figures that decide, from its run directories alone."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from repotrial import __version__
from repotrial._core.absence import NotComputable
from repotrial.analysis._arms import describe_arm
from repotrial.analysis._contrasts import Contrast, describe_contrasts, find_tied
from repotrial.analysis._pilot_flow import count_beside, describe_adjudication, trace_flow
from repotrial.analysis._pilot_records import (
    bound_contrasts,
    build_clusters_of,
    describe_record,
    describe_strata,
    find_already,
    is_failing_otherwise,
    is_satisfied,
)
from repotrial.analysis._pilot_results import PilotFigures, StratumContrast
from repotrial.analysis._pilot_runs import (
    ConductedPilot,
    CountedTrial,
    judge_planned,
    list_artefacts,
    name_runs,
)
from repotrial.analysis._results import Analysis, ArmFigures, ContrastFigures
from repotrial.analysis._stricter_caps import cap_rates, describe_discovery
from repotrial.analysis._summary import find_mixed_conditions
from repotrial.analysis._verdict_errors import find_verdict_errors
from repotrial.cost import PriceBook

_LABEL: Final = "witnessed: every outcome was judged anew from a run directory"


def analyze_pilot(
    pilot: ConductedPilot, book: PriceBook, judged: Sequence[CountedTrial] | None = None
) -> Analysis:
    """Analyze a pilot; every planned trial counts (P5).

    Args:
        pilot: What was frozen, planned and conducted.
        book: Prices of what is not a model.
        judged: Its planned trials, if they were judged already; else they are judged here.
    """
    trials = judge_planned(pilot) if judged is None else judged
    by_arm = {name: [one for one in trials if one.planned.arm == name] for name in pilot.arms}
    by_arm = {name: group for name, group in by_arm.items() if group}
    arms = sorted(
        (
            describe_arm(
                name,
                [one.trial for one in group],
                level=pilot.level,
                role=pilot.arms[name],
                computed_from=(name_runs(name),),
            )
            for name, group in by_arm.items()
        ),
        key=lambda arm: (-_number(arm), arm.name),
    )
    contrasts = describe_contrasts(
        [*_iter_contrasts(pilot, by_arm)],
        {name: build_clusters_of(group) for name, group in by_arm.items()},
        level=pilot.level,
        computed_from={name: (name_runs(name),) for name in by_arm},
        family=pilot.family,
    )
    figures = {arm.name: arm for arm in arms}
    return Analysis(
        code_version=__version__,
        is_witnessed=True,
        label=_LABEL,
        decision=decide(pilot, contrasts, figures),
        level=pilot.level,
        tasks=len({one.planned.task for one in trials}),
        trials=len(trials),
        arms=tuple(arms),
        contrasts=contrasts,
        tied=find_tied([arm.name for arm in arms], contrasts),
        pilot=_describe_pilot(pilot, trials, [arm.name for arm in arms], contrasts, book),
        notes=_NOTES,
        artefacts=list_artefacts(pilot, trials),
    )


def _iter_contrasts(pilot: ConductedPilot, present: Collection[str]) -> Iterator[Contrast]:
    """The registered contrasts, and after them every other pair of candidates, as exploratory."""
    yield from (one for one in pilot.contrasts if one.first in present and one.second in present)
    registered = {frozenset((one.first, one.second)) for one in pilot.contrasts}
    candidates = [name for name in present if pilot.arms[name] == "candidate"]
    for first, second in itertools.combinations(candidates, 2):
        if frozenset((first, second)) not in registered:
            yield Contrast(f"{first} less {second}", first, second, "exploratory")


_NOTES: Final = (
    "rates are over all planned trials; a trial without an outcome counts 0, with bounds beside it",
    "primary: the registered contrasts, adjusted by Holm; everything else is exploratory",
    "a limit of a run is a choice of policy: another one would give other outcomes",
)


def _number(arm: ArmFigures) -> float:
    return 0.0 if isinstance(arm.rate.estimate, NotComputable) else arm.rate.estimate


def decide(
    pilot: ConductedPilot, contrasts: Sequence[ContrastFigures], arms: Mapping[str, ArmFigures]
) -> str:
    """What the frozen rule says, in words."""
    rule = pilot.rule
    if pilot.under_way:
        return f"nothing is decided: {pilot.under_way}"
    found = next((one for one in contrasts if one.name == rule.contrast), None)
    if found is None:
        return f"nothing is decided: the contrast {rule.contrast} has no trials"
    if isinstance(found.low_family, NotComputable) or isinstance(found.high_family, NotComputable):
        reason = found.low_family if isinstance(found.low_family, NotComputable) else found.high_family
        assert isinstance(reason, NotComputable)
        return f"nothing is decided: {reason.reason}"
    reach = f"{found.low_family:+.1%} to {found.high_family:+.1%}"
    if found.high_family < rule.reject_below:
        return f"do not adopt {found.first}: its difference to {found.second} is {reach}"
    if found.low_family <= rule.adopt_above:
        return f"nothing is decided: the difference of {found.first} to {found.second} is {reach}"
    cost = arms[found.first].cost_per_success
    if isinstance(cost, NotComputable) or isinstance(cost.estimate, NotComputable):
        return f"nothing is decided: the cost of a success of {found.first} is not known"
    price = f"{cost.estimate:.2f} USD for a success, {rule.most_usd_per_success:.2f} at most"
    if cost.estimate > rule.most_usd_per_success:
        return f"nothing is decided: {found.first} is ahead ({reach}), but too dear: {price}"
    return f"adopt {found.first}: ahead of {found.second} by {reach}; {price}"


def _describe_pilot(
    pilot: ConductedPilot,
    trials: Sequence[CountedTrial],
    names: Sequence[str],
    contrasts: Sequence[ContrastFigures],
    book: PriceBook,
) -> PilotFigures:
    runs = [one.run for one in trials if one.run is not None]
    return PilotFigures(
        pilot=pilot.id,
        flow=trace_flow(pilot, trials),
        beside=count_beside(pilot),
        adjudication=describe_adjudication(pilot, trials),
        arms=tuple(
            describe_record(
                name, [one for one in trials if one.planned.arm == name], level=pilot.level, book=book
            )
            for name in names
        ),
        contrasts=bound_contrasts(contrasts, trials, level=pilot.level),
        strata=describe_strata(pilot, trials),
        stratum_contrasts=_contrast_strata(pilot, trials, contrasts),
        already_satisfied=find_already(pilot, trials, is_satisfied),
        already_failing=find_already(pilot, trials, is_failing_otherwise),
        verdict_errors=find_verdict_errors(pilot, trials),
        counterfactual=tuple(
            row
            for name in names
            for row in cap_rates(name, [one for one in trials if one.planned.arm == name])
        ),
        discovery=describe_discovery([one for one in trials if pilot.arms[one.planned.arm] == "candidate"]),
        mixed_conditions=find_mixed_conditions(runs),
        deviations=pilot.deviations,
        scope=pilot.scope,
    )


def _contrast_strata(
    pilot: ConductedPilot, trials: Sequence[CountedTrial], contrasts: Sequence[ContrastFigures]
) -> tuple[StratumContrast, ...]:
    """The registered contrasts on the tasks of each stratum, with more than one stratum (exploratory)."""
    strata = sorted({one.planned.stratum for one in trials})
    if len(strata) == 1:
        return ()
    found = []
    for stratum in strata:
        by_arm: dict[str, list[CountedTrial]] = {}
        for one in trials:
            if one.planned.stratum == stratum:
                by_arm.setdefault(one.planned.arm, []).append(one)
        own = describe_contrasts(
            [
                Contrast(one.name, one.first, one.second, "exploratory")
                for one in contrasts
                if one.family == "primary" and {one.first, one.second} <= set(by_arm)
            ],
            {name: build_clusters_of(group) for name, group in by_arm.items()},
            level=pilot.level,
            computed_from={name: (name_runs(name),) for name in by_arm},
        )
        found += [
            StratumContrast(
                stratum=stratum,
                first=one.first,
                second=one.second,
                tasks=one.tasks,
                difference=one.difference,
                low=one.low,
                high=one.high,
                computed_from=one.computed_from,
            )
            for one in own
        ]
    return tuple(found)
