"""Whether what ran outside a sandbox kept its command from working: a pure function of what was measured.

The two rules and their bounds were measured on Linux 5.10 to 6.18, with sandboxes that starve themselves
beside others that are starved (ADR 0082).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

from msgspec import UnsetType

from repotrial._core.pressure import ProcessorPressure
from repotrial.trace import CheckOutcome, Errored, Failed

Supply: TypeAlias = Literal["fair", "starved", "unclear"]
"""Whether a sandbox got the processor time that it was due. `unclear`: that cannot be told."""

_SHORTEST_US: Final = 1_000_000
"""What ended sooner did not end for want of time."""
_STALLED_SHARE: Final = 0.3
"""Of the time, with a group: 0.73 and more were seen where others took it, 0.15 at most where none did."""
_WAITED_SHARE: Final = 0.1
"""Of the time, all threads together, without a group."""
_FAIR_SHARE: Final = 0.8
"""Of what is due: less is too little."""
_EXCESS_SHARE: Final = 1.1
"""Of what is left to others: more is at this sandbox's expense."""


def judge_supply(pressures: Iterable[ProcessorPressure | UnsetType | None]) -> Supply:
    """What the commands of one execution got of the processors; `UnsetType`, None: nothing measured it."""
    found = {_judge_command(pressure) for pressure in pressures}
    if "starved" in found:
        return "starved"
    return "fair" if found == {"fair"} else "unclear"


def may_be_starvation(outcome: CheckOutcome, supply: Supply, *, is_negative: bool) -> bool:
    """Whether an execution says nothing about the change: then a second one counts in its place.

    Args:
        outcome: What came of it.
        supply: What its commands got.
        is_negative: Whether it had wrong expectations: that one was met is no matter of time.
    """
    if supply != "starved":
        return False
    return isinstance(outcome, Errored) or (isinstance(outcome, Failed) and not is_negative)


def _judge_command(pressure: ProcessorPressure | UnsetType | None) -> Supply:
    if not isinstance(pressure, ProcessorPressure):
        return "unclear"
    if pressure.wall_us < _SHORTEST_US or not _has_waited(pressure):
        return "fair" if pressure.stalled_us is not None or pressure.waited_us is not None else "unclear"
    # A program that steps back for others waits by its own choice, and may have done so for this.
    return "unclear" if pressure.is_yielding else "starved"


def _has_waited(pressure: ProcessorPressure) -> bool:
    if pressure.stalled_us is not None:
        return pressure.stalled_us > _STALLED_SHARE * pressure.wall_us
    all_us = pressure.wall_us * pressure.processors
    fair_us = all_us / max(1, pressure.sandboxes)
    return (
        pressure.own_us < _FAIR_SHARE * fair_us
        and pressure.others_us > _EXCESS_SHARE * (all_us - fair_us)
        and (pressure.waited_us or 0) > _WAITED_SHARE * pressure.wall_us
    )
