"""What an agent's runs took, and what went wrong in them, added up over runs (S13, B2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import NamedTuple

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial.score._card import ScoreCard

_ABSENT = "-"
_US_PER_SECOND = 1_000_000


class EffortTotal(msgspec.Struct, frozen=True, kw_only=True):
    """A sum over the runs whose record states the quantity."""

    value: str
    """Decimal text."""
    runs: int
    """How many runs state it."""


class AgentEffort(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent's runs took; what no record states is not computable, and no zero."""

    cost_usd: EffortTotal | NotComputable
    """Models, in money."""
    cost_units: EffortTotal | NotComputable
    """Models that have no price, in abstract units."""
    tokens: EffortTotal | NotComputable
    """Of all model calls."""
    tool_calls: EffortTotal | NotComputable
    """Calls of tools."""
    wall_us: EffortTotal | NotComputable
    """The agent's time by the clock, in microseconds."""
    tags: dict[str, int]
    """Failure modes, the most frequent first, with the number of runs that have them."""

    def describe(self, *, attempted: int, success: int) -> tuple[EffortFigure, ...]:
        """What the runs took, in words: cost in all, a run and a success; otherwise means of a run."""
        totals = [
            (Decimal(total.value), total.runs, unit)
            for total, unit in ((self.cost_usd, "USD"), (self.cost_units, "units"))
            if isinstance(total, EffortTotal)
        ]
        # A unit in which nothing was spent says nothing beside one in which something was.
        spent = [item for item in totals if item[0]] or totals[:1]
        stated = max((runs for _, runs, _ in spent), default=attempted)
        missing = f" ({stated} of {attempted} runs say)" if stated < attempted else ""
        of_success = [f"{_round(value / success)} {unit}" for value, _, unit in spent if success]
        return (
            EffortFigure("models", _join(f"{_round(value)} {unit}" for value, _, unit in spent) + missing),
            EffortFigure("a run", _join(f"{_round(value / runs)} {unit}" for value, runs, unit in spent)),
            EffortFigure("a success", _join(of_success) if success or not spent else "no success"),
            EffortFigure("tokens", _describe_mean(self.tokens, "{:,.0f}")),
            EffortFigure("tool calls", _describe_mean(self.tool_calls, "{:,.1f}")),
            EffortFigure("time", _describe_mean(self.wall_us, "{:,.1f} s", scale=_US_PER_SECOND)),
            EffortFigure("what went wrong (runs)", _join_tags(self.tags)),
        )


class EffortFigure(NamedTuple):
    """One of the figures of an agent for people; tables and pages take their columns from here."""

    heading: str
    text: str
    """A dash if no record states it."""


def build_effort(cards: Sequence[ScoreCard]) -> AgentEffort:
    """Add up what the score cards of one agent say."""
    costs = [card.cost for card in cards]
    tags = Counter(name for card in cards for name in {tag.id for tag in card.tags})
    return AgentEffort(
        cost_usd=_add_up(cost.cost_usd for cost in costs),
        cost_units=_add_up(cost.cost_units for cost in costs),
        tokens=_add_up(cost.tokens for cost in costs),
        tool_calls=_add_up(cost.tool_calls for cost in costs),
        wall_us=_add_up(cost.wall_us for cost in costs),
        tags=dict(sorted(tags.items(), key=lambda item: (-item[1], item[0]))),
    )


def _add_up(values: Iterable[str | int | Unknown]) -> EffortTotal | NotComputable:
    stated = [Decimal(value) for value in values if not isinstance(value, Unknown)]
    if not stated:
        return NotComputable("no run's record states it")
    return EffortTotal(value=f"{sum(stated):f}", runs=len(stated))


def _join_tags(tags: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in tags.items()) or _ABSENT


def _join(parts: Iterable[str]) -> str:
    return " + ".join(parts) or _ABSENT


def _round(value: Decimal) -> str:
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.4f}"


def _describe_mean(total: EffortTotal | NotComputable, form: str, *, scale: int = 1) -> str:
    if isinstance(total, NotComputable):
        return _ABSENT
    return form.format(Decimal(total.value) / total.runs / scale)
