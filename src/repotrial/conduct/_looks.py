"""Looks in stage 3: registered moments, complete tasks, spent levels (B13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.conduct._journal import Journal, JournalEntry
from repotrial.conduct._state import RecordedState

if TYPE_CHECKING:
    from repotrial.analysis import PilotContrast
    from repotrial.conduct._stages import PilotState
    from repotrial.stats import PairedComparison

LEAST_TASKS: Final = 2
"""Fewer complete tasks have no spread."""
_ASKED = "asked"
_SAME = 1e-9
_PLANNING = "planning-values"
_STABLE = "stable-checks"


class LookResult(msgspec.Struct, frozen=True, kw_only=True):
    """What one look found."""

    fraction: float
    """Complete tasks of planned tasks."""
    tasks: int
    level: float
    """The p-value at or below which it stops."""
    p: float
    p_sign_flip: float | NotComputable
    """Beside it: it does not decide."""
    is_stop: bool
    message: str


def find_refuted(state: PilotState) -> dict[str, str]:
    """Assumptions of the efficacy rule that stage 2 refutes, each with what was found (Q16).

    Only these can be refuted by machine: others stay a matter of judgment, and reports name them.
    """
    rests = state.study.pilot.stopping.assumptions
    found: dict[str, str] = {}
    spread = state.estimate_spread()
    if _PLANNING in rests and not isinstance(spread, NotComputable):
        reasons = [each.find_refutation(state.study.pilot) for each in spread]
        refuted = [reason for reason in reasons if reason is not None]
        if refuted:
            found[_PLANNING] = refuted[0]
    differing, compared = state.measure_flakiness()
    if _STABLE in rests and differing > state.study.pilot.flakiness_tolerance * compared:
        found[_STABLE] = f"{differing} of {compared} judgments differ"
    return found


def find_look(state: RecordedState) -> LookResult | None:
    """The look that is due at this moment; None if none is, or no contrast may stop the pilot."""
    rules = state.pilot.stopping
    if rules.contrast is None or state.journal.rule_off:
        return None
    complete, planned = state.list_complete(), len(state.tasks)
    held = [entry for entry in list_looks(state.journal) if _ASKED not in entry.data]
    last = max((float(entry.data["fraction"]) for entry in held), default=0.0)
    fraction = len(complete) / planned if planned else 0.0
    is_due = any(last + _SAME < float(look) <= fraction + _SAME for look in rules.looks)
    if not is_due or len(complete) < max(rules.least_tasks, LEAST_TASKS):
        return None
    return _hold(state, complete, list_fractions(state.journal, fraction))


def list_looks(journal: Journal) -> list[JournalEntry]:
    """All looks under the registration in force, the asked ones too."""
    last = journal.find_last("look")
    if last is None:
        return []
    return [
        entry for entry in journal.entries if entry.kind == "look" and entry.registration == last.registration
    ]


def list_fractions(journal: Journal, present: float) -> list[float]:
    """Shares of information at which anyone has looked, up to the present one: each has spent its part."""
    return sorted({*(float(entry.data["fraction"]) for entry in list_looks(journal)), present})


def write_look(journal: Journal, look: LookResult) -> None:
    """Put a registered look on record."""
    flips = look.p_sign_flip
    data = {
        "fraction": repr(look.fraction),
        "level": repr(look.level),
        "p": repr(look.p),
        "p_sign_flip": flips.reason if isinstance(flips, NotComputable) else repr(flips),
    }
    journal.append("look", data={**data, "message": look.message})


def write_asked(journal: Journal, fraction: float, *, alpha: float, tasks: str, is_registered: bool) -> None:
    """Put a look on record that a person asked for: every contrast is seen, so every one pays for it."""
    from repotrial.stats import plan_looks

    look = plan_looks(list_fractions(journal, fraction), alpha=alpha)[-1]
    message = f"rates by arm were asked for at {tasks} complete tasks"
    data = {"fraction": repr(look.fraction), "level": repr(look.level), "spent": repr(look.spent)}
    journal.append("look", data={**data, _ASKED: "yes", "message": message})
    if not is_registered:
        words = f"{message}, a moment that is not registered: {look.spent:.2g} of the level is spent by then"
        journal.append("deviation", data={"message": words})


def is_asked(entry: JournalEntry) -> bool:
    """Whether a look was asked for by a person, and showed all arms."""
    return _ASKED in entry.data


def _hold(state: RecordedState, complete: list[str], fractions: list[float]) -> LookResult:
    from repotrial.stats import plan_looks

    pilot = state.pilot
    contrast = pilot.find_contrast(str(pilot.stopping.contrast))
    look = plan_looks(fractions, alpha=float(pilot.level) / len(pilot.contrasts))[-1]
    found = _compare(state, contrast, complete, look.level)
    # The paired t decides; without three tasks there is nothing to decide by.
    p = 1.0 if isinstance(found.t_test, NotComputable) else found.t_test.p_value
    is_futile = pilot.stopping.is_futility_used and _is_within(found, float(pilot.smallest_effect))
    if p <= look.level:
        message = f"efficacy: {contrast.name} crossed its boundary at {len(complete)} tasks"
    elif is_futile:
        message = f"futility: the repeated interval of {contrast.name} lies within the relevant effect"
    else:
        message = f"look at {len(complete)} complete tasks: the pilot goes on"
    flips = found.sign_flip
    return LookResult(
        fraction=fractions[-1],
        tasks=len(complete),
        level=look.level,
        p=p,
        p_sign_flip=flips if isinstance(flips, NotComputable) else flips.p_value,
        is_stop=p <= look.level or is_futile,
        message=message,
    )


def _compare(
    state: RecordedState, contrast: PilotContrast, complete: list[str], level: float
) -> PairedComparison:
    from numpy.random import SeedSequence

    from repotrial.stats import build_clusters, compare_paired

    first, other = (
        build_clusters((task, float(value)) for task in complete for value in outcomes[task])
        for outcomes in map(state.collect_outcomes, (contrast.arm, contrast.against))
    )
    return compare_paired(first, other, seed_sequence=SeedSequence(state.pilot.seed), level=1 - level)


def _is_within(found: PairedComparison, effect: float) -> bool:
    """Whether the repeated interval lies wholly between minus and plus the smallest relevant effect."""
    if isinstance(found.difference, NotComputable):
        return False
    ends = found.difference.interval
    return not isinstance(ends, NotComputable) and -effect < ends.low and ends.high < effect
