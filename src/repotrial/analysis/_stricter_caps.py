"""Outcomes under stricter caps than those enforced (B17), and what one more failure mode would cost (Q20)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from repotrial._core.absence import NotComputable
from repotrial.analysis._figures import Number
from repotrial.analysis._pilot_results import CappedRate, Discovery
from repotrial.analysis._pilot_runs import CountedTrial
from repotrial.contract import ContractRecord, Limits, RunSpec

_SHARES: Final = (0.5, 0.25)
_USED: Final[dict[str, Callable[[CountedTrial], float | None]]] = {
    "wall_seconds": lambda one: one.trial.wall_seconds,
    "cost_usd": lambda one: one.trial.cost_usd,
    "tool_calls": lambda one: find_count(one, "tool_calls"),
    "tokens": lambda one: find_count(one, "tokens"),
}
"""Caps of a run that a contract states, and what a trial used of each."""


def find_count(trial: CountedTrial, name: str) -> float | None:
    """A count of the score card; None if it is not known."""
    count = None if trial.run is None else getattr(trial.run.card.cost, name)
    return float(count) if isinstance(count, int) else None


def cap_rates(arm: str, trials: Sequence[CountedTrial]) -> Iterator[CappedRate]:
    """An arm's rate if each run had been ended at a share of its caps; looser caps cannot be known."""
    for cap in _USED:
        for share in _SHARES:
            rate = _cap(trials, cap, share)
            if rate is not None:
                yield CappedRate(arm=arm, cap=cap, share=share, rate=rate)


def _cap(trials: Sequence[CountedTrial], cap: str, share: float) -> Number | None:
    """None if no run has this cap."""
    within = 0
    is_capped = False
    for one in trials:
        limits = _find_limits(one)
        most = None if limits is None else getattr(limits, cap)
        is_capped |= most is not None
        if one.trial.outcome != "success":
            continue
        used = _USED[cap](one)
        if most is not None and used is None:
            return NotComputable(reason=f"{cap} of a run on {one.planned.task} is not known")
        within += most is None or used is None or used <= share * float(most)
    return within / len(trials) if is_capped else None


def _find_limits(trial: CountedTrial) -> Limits | None:
    if trial.run is None or not isinstance(trial.run.evidence.record, ContractRecord):
        return None
    limits = trial.run.evidence.record.contract.limits
    spec = trial.run.evidence.spec
    return spec.configuration.caps.apply_to(limits) if isinstance(spec, RunSpec) else limits


def describe_discovery(trials: Sequence[CountedTrial]) -> Discovery:
    """Failure modes over all trials, and the mean cost of a trial over the chance of a new one."""
    conducted = [one for one in trials if one.run is not None]
    seen = Counter(tag for one in conducted if one.run is not None for tag in set(one.run.entry.tags))
    chance: Number = NotComputable(reason="no trial was conducted")
    if conducted:
        chance = sum(count == 1 for count in seen.values()) / len(conducted)
    return Discovery(
        modes={mode: seen[mode] for mode in sorted(seen)},
        chance_of_another=chance,
        usd_for_another=_price(conducted, chance),
    )


def _price(conducted: Sequence[CountedTrial], chance: Number) -> Number:
    if isinstance(chance, NotComputable):
        return chance
    if not chance:
        return NotComputable(reason="every mode was seen more than once: one more is not in sight")
    costs = [one.trial.cost_usd for one in conducted]
    known = [cost for cost in costs if cost is not None]
    if len(known) < len(costs):
        return NotComputable(
            reason=f"the cost of {len(costs) - len(known)} of {len(costs)} trials is not known"
        )
    return sum(known) / len(known) / chance
