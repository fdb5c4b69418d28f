"""Caps of a run, what is left of them, and the refusal that names the cap or envelope."""

from __future__ import annotations

from decimal import Decimal
from typing import Final, Literal, Protocol, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial.cost._amount import Amount, AmountText

RUN_CAP: Final = "run-cap"
"""The scope of a run's own caps; other scopes are envelopes, which runs share."""

Measure: TypeAlias = Literal["usd", "units", "tokens", "tool-calls", "failed-checks", "wall-us"]
"""What a cap is a cap of."""


class Exhausted(msgspec.Struct, frozen=True, kw_only=True, tag="exhausted", tag_field="kind"):
    """A cap or an envelope does not allow it."""

    scope: str
    """`run-cap`, or the name of an envelope."""
    measure: Measure
    """Of which cap."""
    limit: AmountText
    """What may be spent; headroom is taken off."""
    spent: AmountText
    """What is settled or counted."""
    reserved: AmountText
    """What exchanges in flight hold."""
    needed: AmountText
    """What this would take at least."""
    is_final: bool
    """False where it could fit once exchanges in flight are settled."""

    @property
    def message(self) -> str:
        """For an agent's log."""
        end = "" if self.is_final else "; exchanges in flight hold the rest"
        return (
            f"budget reached: {self.scope} allows {self.limit} {self.measure}, "
            f"{self.spent} spent, {self.reserved} reserved, {self.needed} needed{end}"
        )

    @property
    def is_run_cap(self) -> bool:
        """Whether it is a cap of the run itself; other scopes are envelopes, which runs share."""
        return self.scope == RUN_CAP


class Hold(Protocol):
    """A reservation in an envelope."""

    def settle(self, actual: Amount) -> None: ...

    def release(self) -> None: ...


class Parent(Protocol):
    """Envelopes that a run's budget draws on."""

    def reserve(self, amount: Amount) -> Hold | Exhausted:
        """Hold all of it in every envelope, or nothing."""
        ...


class BudgetCaps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The most that a run may take (B2); None is no cap."""

    cost_usd: AmountText | None = None
    """All cost in dollars, acceptance included."""
    cost_units: AmountText | None = None
    """All cost in abstract units, acceptance included."""
    tokens: Count | None = None
    """Input and output of all exchanges together."""
    tool_calls: Count | None = None
    """Tool calls that reach the agent."""
    failed_checks: Count | None = None
    """Check cycles that fail."""
    wall_us: Count | None = None
    """Time in which the agent works."""
    headroom_usd: AmountText = "0"
    """Part of `cost_usd` that is kept for acceptance and logging (P22)."""
    headroom_units: AmountText = "0"
    """Part of `cost_units` that is kept for acceptance and logging."""

    def __post_init__(self) -> None:
        for name, cap, headroom in (
            ("cost_usd", self.cost_usd, self.headroom_usd),
            ("cost_units", self.cost_units, self.headroom_units),
        ):
            if cap is not None and Decimal(headroom) > Decimal(cap):
                raise ValueError(f"expected a headroom within {name} = {cap}, found {headroom}")

    def find_limit(self, measure: Measure) -> Decimal | None:
        """The cap of one measure."""
        limits: dict[Measure, str | int | None] = {
            "usd": self.cost_usd,
            "units": self.cost_units,
            "tokens": self.tokens,
            "tool-calls": self.tool_calls,
            "failed-checks": self.failed_checks,
            "wall-us": self.wall_us,
        }
        limit = limits[measure]
        return None if limit is None else Decimal(limit)

    def get_headroom(self, measure: Measure) -> Decimal:
        """What of the cap is not for the agent."""
        return Decimal({"usd": self.headroom_usd, "units": self.headroom_units}.get(measure, "0"))


class MeasureState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One cap, and what became of it."""

    measure: Measure
    """Of what."""
    limit: AmountText | None
    """The cap; None if there is none."""
    headroom: AmountText
    """The part of it that is kept for acceptance and logging."""
    spent: AmountText
    """By the agent, settled or counted."""
    reserved: AmountText
    """Held by exchanges in flight."""
    overspend: AmountText
    """By how much the agent passed the cap less its headroom."""
    overdraft: AmountText
    """By how much it could have at most: what the largest overdraft had declared beyond its reservation."""
    beyond_bounds: AmountText
    """How much exchanges took beyond their own declared bounds, all together; no rule of ours allows it."""


class BudgetState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run has taken so far."""

    measures: tuple[MeasureState, ...]
    """Each measure that has a cap or was spent."""
    settled: tuple[Amount, ...]
    """What settled reservations cost, by unit."""
    open_reservations: Count
    """Exchanges in flight."""
