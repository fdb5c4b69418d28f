"""What a run costs beside its models, held ahead of time and settled to what its record says (P22, B4, B11).

Time passes whether or not there is room for it, so it is held in slices before it passes. When no slice is
granted any more and the last one is used up, the cap or envelope is exhausted. Money passes a cap by no more
than what the time between two looks costs, and the time in which everything ends.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal
from typing import Final, Literal, NamedTuple, TypeAlias, get_args

import msgspec

from repotrial._core.clock import SystemClock
from repotrial.cost._amount import Amount, add_exactly
from repotrial.cost._budget import RunBudget
from repotrial.cost._caps import Exhausted, Hold, Parent
from repotrial.cost._statement import CostStatement, Metered
from repotrial.cost._tariff import Tariff

TimeKind: TypeAlias = Literal["exec", "human", "overhead"]
"""Which of the three terms a moment belongs to, as far as that is known before the record is read."""

_SECOND_US: Final = 1_000_000
_SLICES_SECONDS: Final = (30, 5, 1)
_LEAD_SECONDS: Final = 3
_PATIENCE_SECONDS: Final = 30
"""How long time goes on uncovered while other runs hold the rest of an envelope: they may give it back."""
_NOTHING: Final = Metered(
    exchanges=(), exec_wall_us=0, tool_calls=0, human_us=0, overhead_wall_us=0, stored_bytes=0
)


class _Slice(NamedTuple):
    amount: Decimal
    hold: Hold | None


class SpendingEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a run has cost by now, as far as it can be known before its record is complete."""

    exec: str | None
    """None where nothing prices it."""
    human: str | None
    overhead: str | None
    unit: str
    method: str
    """How it was projected."""


class Spending:
    """The time of one run as money; any thread may call.

    Args:
        tariff: Prices.
        budget: The run's own caps.
        parent: Envelopes that its time is booked in; None: none, or the caller of the run books it.
        now_us: The clock.
    """

    def __init__(
        self,
        tariff: Tariff,
        budget: RunBudget,
        *,
        parent: Parent | None,
        now_us: Callable[[], int] | None = None,
    ) -> None:
        self._tariff = tariff
        self._budget = budget
        self._parent = parent
        self._now_us = now_us or SystemClock().now_us
        self._lock = threading.Lock()
        self._slices: list[_Slice] = []
        self._headroom: _Slice | None = None
        self._kind: TimeKind = "overhead"
        self._since_us = self._now_us()
        self._spans: dict[TimeKind, int] = {"exec": 0, "human": 0, "overhead": 0}

    @property
    def is_idle(self) -> bool:
        """Whether time has no price, so that there is nothing to hold."""
        return not any(self.price_seconds(1, kind) for kind in get_args(TimeKind))

    def price_seconds(self, seconds: int, kind: TimeKind) -> Decimal:
        """What so much time of one kind costs."""
        field = {"exec": "exec_wall_us", "human": "human_us", "overhead": "overhead_wall_us"}[kind]
        return self._state(msgspec.structs.replace(_NOTHING, **{field: seconds * _SECOND_US})).add_time()

    def keep_headroom(self, seconds: int, most: Decimal) -> Exhausted | None:
        """Hold in the envelopes what acceptance will draw on: its declared time, but no more than `most`."""
        if self._parent is None or self.is_idle:
            return None
        value = min(self.price_seconds(seconds, "exec"), most)
        held = self._parent.reserve(self._build(value))
        if isinstance(held, Exhausted):
            return held
        self._headroom = _Slice(value, held)
        return None

    def enter(self, kind: TimeKind) -> None:
        """From now on time is of this kind."""
        with self._lock:
            now = self._now_us()
            self._spans[self._kind] += max(0, now - self._since_us)
            self._kind, self._since_us = kind, now

    def open_headroom(self) -> None:
        """Acceptance begins: it draws on what was kept for it (P22)."""
        self._budget.open_headroom()
        with self._lock:
            if self._headroom is not None:
                self._budget.hold_time(self._build(self._headroom.amount))
                self._slices.append(self._headroom)
                self._headroom = None

    def tick(self) -> Exhausted | None:
        """Hold for the time to come; a refusal once there is none left to go on with."""
        with self._lock:
            if self.is_idle:
                return None
            accrued, held = self._estimate().add_time(), self._covered
            if add_exactly(held, -accrued) >= self.price_seconds(_LEAD_SECONDS, self._kind):
                return None
            refusal = self._extend_by_any()
            if refusal is None:
                return None
            is_covered = accrued < held
            uncovered = add_exactly(accrued, -held)
            is_patient = uncovered < self.price_seconds(_PATIENCE_SECONDS, self._kind)
            is_waiting = is_patient and not self._is_final(refusal, held)
            return None if is_covered or is_waiting else refusal

    def _is_final(self, refusal: Exhausted, held: Decimal) -> bool:
        """Whether others could make no room: what this run holds for its own time is as good as spent."""
        own = held if self._headroom is None else add_exactly(held, self._headroom.amount)
        taken = add_exactly(Decimal(refusal.spent), own, Decimal(refusal.needed))
        return refusal.is_final or taken > Decimal(refusal.limit)

    def estimate(self) -> SpendingEstimate:
        """What time has cost by now."""
        with self._lock:
            state = self._estimate()
        terms = {
            name: term.value if isinstance(term := getattr(state, name), Amount) else None
            for name in ("exec", "human", "overhead")
        }
        return SpendingEstimate(**terms, unit=self._tariff.unit, method=self._tariff.method)

    def settle(self, metered: Metered) -> CostStatement:
        """Replace everything that is held by what the record says, to the last digit.

        Returns:
            The statement of the run.
        """
        statement = self._state(metered)
        with self._lock:
            slices, self._slices = self._slices, []
            kept, self._headroom = self._headroom, None
        remaining = statement.add_time()
        for number, (amount, hold) in enumerate(slices, start=1):
            actual = remaining if number == len(slices) else min(amount, remaining)
            remaining = add_exactly(remaining, -actual)
            self._budget.settle_time(amount, self._build(actual))
            if hold is not None:
                hold.settle(self._build(actual))
        if remaining:
            self._settle_beyond(remaining)
        if kept is not None and kept.hold is not None:
            kept.hold.release()
        return statement

    def _settle_beyond(self, remaining: Decimal) -> None:
        """What nothing was held for: a run that was refused at its first moment took that moment."""
        self._budget.settle_time(Decimal(0), self._build(remaining))
        hold = None if self._parent is None else self._parent.reserve(self._build(Decimal(0)))
        if hold is not None and not isinstance(hold, Exhausted):
            hold.settle(self._build(remaining))

    def _extend_by_any(self) -> Exhausted | None:
        refusals = (self._extend(self.price_seconds(seconds, self._kind)) for seconds in _SLICES_SECONDS)
        refused: Exhausted | None = None
        for refused in refusals:
            if refused is None:
                return None
        return refused

    @property
    def _covered(self) -> Decimal:
        return add_exactly(*(each.amount for each in self._slices))

    def _extend(self, value: Decimal) -> Exhausted | None:
        refusal = self._budget.hold_time(self._build(value))
        if refusal is not None:
            return refusal
        hold = None if self._parent is None else self._parent.reserve(self._build(value))
        if isinstance(hold, Exhausted):
            self._budget.settle_time(value, self._build(Decimal(0)))
            return hold
        self._slices.append(_Slice(value, hold))
        return None

    def _estimate(self) -> CostStatement:
        spans = dict(self._spans)
        spans[self._kind] += max(0, self._now_us() - self._since_us)
        return self._state(
            msgspec.structs.replace(
                _NOTHING,
                exec_wall_us=spans["exec"],
                human_us=spans["human"],
                overhead_wall_us=spans["overhead"],
                tool_calls=int(self._budget.get_spent("tool-calls")),
            )
        )

    def _state(self, metered: Metered) -> CostStatement:
        return CostStatement.build(self._tariff, metered)

    def _build(self, value: Decimal) -> Amount:
        return Amount.build(value, self._tariff.unit, methods=(self._tariff.method,), basis="bound")
