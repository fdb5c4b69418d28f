"""A run's budget: reserve before each exchange, settle after it (P22, B2); `_pool` has the rule."""

from __future__ import annotations

import threading
from collections.abc import Callable
from decimal import Decimal

from repotrial.cost._amount import MIXED_UNITS, Amount, build_amount
from repotrial.cost._caps import BudgetState, Caps
from repotrial.cost._exhausted import Exhausted, Hold, Measure, Parent
from repotrial.cost._pool import Entry, Pool, Quantities
from repotrial.cost._tariff import Charge, Estimate


class Reservation:
    """An exchange that was admitted; settle or release it exactly once, in any thread."""

    def __init__(
        self,
        estimate: Estimate,
        *,
        pool: Pool,
        entry: Entry,
        hold: Hold | None,
        on_close: Callable[[Amount | None], None],
    ) -> None:
        """Use `Budget.reserve`."""
        self.estimate = estimate
        self._pool = pool
        self._entry = entry
        self._hold = hold
        self._on_close = on_close

    @property
    def is_overdraft(self) -> bool:
        """Whether its declared bound did not fit: the one exchange by which a cap can be passed."""
        return self._entry.is_overdraft

    def count(self, partial: Charge) -> bool:
        """Take note of what a stream has consumed so far; true where it must be cut.

        That is: the cap is reached, or this exchange has outgrown its reservation and there is no more room.
        """
        return self._pool.count(self._entry, self._split(partial))

    def settle(self, actual: Charge | None) -> None:
        """Replace the reservation by what was consumed.

        Args:
            actual: Null where it cannot be known: the declared bound is charged, or what was counted if more.

        Raises:
            RESERVATION_CLOSED: it is closed.
            MIXED_UNITS: the cost is in another unit than the estimate.
        """
        cost = self.estimate.most.cost
        if actual is None:
            counted = self._entry.counted
            most = {measure: max(bound, counted[measure]) for measure, bound in self._entry.most.items()}
            amount = build_amount(most[cost.unit], cost.unit, methods=cost.methods, basis="bound")
            self._pool.close(self._entry, most)
        else:
            amount = actual.cost
            self._pool.close(self._entry, self._split(actual))
        self._finish(amount)

    def release(self) -> None:
        """Give the reservation back: nothing was consumed, except what was counted.

        Raises:
            RESERVATION_CLOSED: it is closed.
        """
        cost = self.estimate.most.cost
        value = self._pool.close(self._entry, None)[cost.unit]
        self._finish(
            build_amount(value, cost.unit, methods=cost.methods, basis="estimated") if value else None
        )

    def _finish(self, amount: Amount | None) -> None:
        try:
            if self._hold is not None and amount is None:
                self._hold.release()
            elif self._hold is not None and amount is not None:
                self._hold.settle(amount)
        finally:
            self._on_close(amount)

    def _split(self, charge: Charge) -> Quantities:
        unit = self.estimate.most.cost.unit
        if charge.cost.unit != unit:
            raise MIXED_UNITS.error(
                f"expected a cost in {unit}, as it was reserved, found {charge.cost.unit}"
            )
        return _split(charge)


class Budget:
    """What a run may take, and has taken. Any thread may call; only a parent's disk makes it wait."""

    def __init__(self, caps: Caps, *, parent: Parent | None = None) -> None:
        self._pool = Pool(caps)
        self._parent = parent
        self._mutex = threading.Lock()
        self._settled: dict[str, Amount] = {}
        self._listeners: list[Callable[[], None]] = []

    def reserve(self, estimate: Estimate) -> Reservation | Exhausted:
        """Admit an exchange, here and in every envelope of the parent, or say what forbids it.

        Envelopes hold the whole declared bound, also of an overdraft: they are never passed by it.
        """
        entry = self._pool.admit(_split(estimate.least), _split(estimate.most))
        if isinstance(entry, Exhausted):
            return entry
        hold: Hold | Exhausted | None = None
        try:
            if self._parent is not None:
                hold = self._parent.reserve(estimate.most.cost)
        except BaseException:
            self._withdraw(entry)
            raise
        if isinstance(hold, Exhausted):
            self._withdraw(entry)
            return hold
        return Reservation(estimate, pool=self._pool, entry=entry, hold=hold, on_close=self._note)

    def add(self, measure: Measure, quantity: int = 1) -> Exhausted | None:
        """Count tool calls, failed check cycles or time; a refusal once there is more than the cap allows."""
        return self._pool.add(measure, Decimal(quantity))

    def find_exhausted(self) -> Exhausted | None:
        """The cap that is reached, if one is: no exchange will be admitted any more."""
        return self._pool.find_exhausted()

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each settlement and release, in the thread that made it: room may be free."""
        self._listeners.append(listener)

    def read(self) -> BudgetState:
        """What has been taken so far."""
        with self._mutex:
            settled = tuple(self._settled[unit] for unit in sorted(self._settled))
        measures = self._pool.read()
        return BudgetState(measures=measures, settled=settled, open_reservations=self._pool.open_entries)

    def _withdraw(self, entry: Entry) -> None:
        self._pool.close(entry, None)
        self._note(None)  # someone else may have been refused because of it

    def _note(self, amount: Amount | None) -> None:
        if amount is not None:
            with self._mutex:
                earlier = self._settled.get(amount.unit)
                self._settled[amount.unit] = amount if earlier is None else earlier + amount
        for listener in tuple(self._listeners):
            listener()


def _split(charge: Charge) -> Quantities:
    return {charge.cost.unit: charge.cost.decimal, "tokens": Decimal(charge.tokens)}
