"""A budget says no: which limit, and whether waiting can help."""

from __future__ import annotations

from typing import Final, Literal, Protocol, TypeAlias

import msgspec

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


class Hold(Protocol):
    """A reservation in an envelope."""

    def settle(self, actual: Amount) -> None: ...

    def release(self) -> None: ...


class Parent(Protocol):
    """Envelopes that a run's budget draws on."""

    def reserve(self, amount: Amount) -> Hold | Exhausted:
        """Hold all of it in every envelope, or nothing."""
        ...
