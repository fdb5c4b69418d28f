"""A run's budget: reserve before each exchange, settle after it (P22, B2).

**Rule.** A request is admitted if its declared bound fits into what is neither spent nor reserved. If only
its input fits, it is admitted all the same, with the whole rest reserved, as *the overdraft*: there is one
at a time. A cap of 0 allows nothing.

**Invariant.** Let L be the cap less its headroom, S what is spent, R the sum of reservations. Admission keeps
S + R <= L. While every exchange stays within its declared bound, a settlement replaces a reservation by no
more, except the overdraft's, which may add what its bound has beyond its reservation. So S never passes L by
more than one declared bound, however many exchanges are in flight. `beyond` counts what broke that premise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import TypeAlias, get_args

from repotrial._core.canonical import decimal_text
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.cost._amount import MIXED_UNITS, Amount, add_exactly
from repotrial.cost._caps import (
    RUN_CAP,
    BudgetCaps,
    BudgetState,
    Exhausted,
    Hold,
    Measure,
    MeasureState,
    Parent,
)
from repotrial.cost._tariff import Charge, RequestEstimate

Quantities: TypeAlias = Mapping[Measure, Decimal]

_ZERO = Decimal(0)
_COUNTED: tuple[Measure, ...] = ("tool-calls", "failed-checks", "wall-us")
_RESERVED: tuple[Measure, ...] = ("usd", "units", "tokens")


RESERVATION_CLOSED = ErrorCode(
    "reservation-closed",
    UsageError,
    "A reservation was settled or released twice, or counted after that.",
    hint="close each exchange exactly once",
)


class HeldQuantities:
    """What one reservation holds; only the pool changes it."""

    def __init__(self, most: Quantities, granted: dict[Measure, Decimal]) -> None:
        self.most = most
        self.granted = granted
        self.counted: dict[Measure, Decimal] = dict.fromkeys(granted, _ZERO)
        self.is_overdraft = any(most[measure] > grant for measure, grant in granted.items())


class _Account:
    """One measure."""

    def __init__(self, limit: Decimal | None, headroom: Decimal) -> None:
        self.limit = limit
        self.headroom = headroom
        self.spent = self.reserved = self.counted = self.beyond = self.timed = _ZERO
        self.overdraft = _ZERO

    @property
    def allowed(self) -> Decimal:
        """What the agent may spend."""
        assert self.limit is not None
        return add_exactly(self.limit, -self.headroom)

    @property
    def room(self) -> Decimal:
        return add_exactly(self.allowed, -self.spent, -self.reserved)


def _build_refusal(measure: Measure, account: _Account, needed: Decimal, *, is_final: bool) -> Exhausted:
    limit = _ZERO if account.limit is None else max(_ZERO, account.allowed)
    return Exhausted(
        scope=RUN_CAP,
        measure=measure,
        limit=decimal_text(limit),
        spent=decimal_text(account.spent),
        reserved=decimal_text(account.reserved),
        needed=decimal_text(needed),
        is_final=is_final,
    )


def _read_account(measure: Measure, account: _Account) -> MeasureState:
    over = _ZERO
    if account.limit is not None:
        over = max(_ZERO, add_exactly(account.spent, -account.limit, account.headroom))
    return MeasureState(
        measure=measure,
        limit=None if account.limit is None else decimal_text(account.limit),
        headroom=decimal_text(account.headroom),
        spent=decimal_text(account.spent),
        reserved=decimal_text(account.reserved),
        overspend=decimal_text(over),
        overdraft=decimal_text(account.overdraft),
        beyond_bounds=decimal_text(account.beyond),
    )


class Reservation:
    """An exchange that was admitted; settle or release it exactly once, in any thread."""

    def __init__(
        self,
        estimate: RequestEstimate,
        *,
        budget: RunBudget,
        entry: HeldQuantities,
        hold: Hold | None,
    ) -> None:
        """Use `RunBudget.reserve`."""
        self.estimate = estimate
        self._budget = budget
        self._entry = entry
        self._hold = hold

    @property
    def is_overdraft(self) -> bool:
        """Whether its declared bound did not fit: the one exchange by which a cap can be passed."""
        return self._entry.is_overdraft

    def count(self, partial: Charge) -> bool:
        """Take note of what a stream has consumed so far; true if it must be cut.

        That is: the cap is reached, or this exchange has outgrown its reservation and there is no more room.
        """
        return self._budget.count(self._entry, self._split(partial))

    def settle(self, actual: Charge | None) -> Amount | None:
        """Replace the reservation by what was consumed.

        Args:
            actual: None if it cannot be known: the declared bound is charged, or what was counted if more.

        Returns:
            What was charged without a report, if it was.

        Raises:
            RESERVATION_CLOSED: it is closed.
            MIXED_UNITS: the cost is in another unit than the estimate.
        """
        cost = self.estimate.most.cost
        if actual is None:
            counted = self._entry.counted
            most = {measure: max(bound, counted[measure]) for measure, bound in self._entry.most.items()}
            amount = Amount.build(most[cost.unit], cost.unit, methods=cost.methods, basis="bound")
            self._budget.close(self._entry, most)
        else:
            amount = actual.cost
            self._budget.close(self._entry, self._split(actual))
        self._finish(amount)
        return amount if actual is None else None

    def release(self) -> Amount | None:
        """Give the reservation back: nothing was consumed, except what was counted.

        Returns:
            What was charged without a report, if anything was.

        Raises:
            RESERVATION_CLOSED: it is closed.
        """
        cost = self.estimate.most.cost
        value = self._budget.close(self._entry, None)[cost.unit]
        counted = Amount.build(value, cost.unit, methods=cost.methods, basis="estimated") if value else None
        self._finish(counted)
        return counted

    def _finish(self, amount: Amount | None) -> None:
        try:
            if self._hold is not None and amount is None:
                self._hold.release()
            elif self._hold is not None and amount is not None:
                self._hold.settle(amount)
        finally:
            self._budget.note(amount)

    def _split(self, charge: Charge) -> Quantities:
        unit = self.estimate.most.cost.unit
        if charge.cost.unit != unit:
            raise MIXED_UNITS.error(
                f"expected a cost in {unit}, as it was reserved, found {charge.cost.unit}"
            )
        return _split(charge)


class RunBudget:
    """What a run may take, and has taken. Any thread may call; only a parent's disk makes it wait."""

    def __init__(self, caps: BudgetCaps, *, parent: Parent | None = None) -> None:
        self._accounts: dict[Measure, _Account] = {
            measure: _Account(caps.find_limit(measure), caps.get_headroom(measure))
            for measure in get_args(Measure)
        }
        self._open: set[HeldQuantities] = set()
        self._parent = parent
        self._mutex = threading.Lock()
        self._settled: dict[str, Amount] = {}
        self._listeners: list[Callable[[], None]] = []

    def reserve(self, estimate: RequestEstimate) -> Reservation | Exhausted:
        """Admit an exchange, here and in every envelope of the parent, or say what forbids it.

        Envelopes hold the whole declared bound, also of an overdraft: they are never passed by it.
        """
        entry = self._admit(_split(estimate.least), _split(estimate.most))
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
        return Reservation(estimate, budget=self, entry=entry, hold=hold)

    def add(self, measure: Measure, quantity: int = 1) -> Exhausted | None:
        """Count tool calls, failed check cycles or time; a refusal once there is more than the cap allows."""
        with self._mutex:
            account = self._accounts[measure]
            account.spent = add_exactly(account.spent, Decimal(quantity))
            return self._find_passed()

    def find_exhausted(self) -> Exhausted | None:
        """The cap that is reached, if one is: no exchange will be admitted any more."""
        with self._mutex:
            if (passed := self._find_passed()) is not None:
                return passed
            for measure in _RESERVED:
                account = self._accounts[measure]
                if account.limit is not None and account.spent >= account.allowed:
                    return _build_refusal(measure, account, _ZERO, is_final=True)
            return None

    def hold_time(self, amount: Amount) -> Exhausted | None:
        """Reserve for time that passes anyway; a refusal if the cap does not allow it.

        Reservations of exchanges in flight do not count against it: most take less than they may.
        """
        with self._mutex:
            account, value = self._accounts[amount.unit], amount.decimal
            needed = add_exactly(account.spent, account.timed, value)
            if account.limit is not None and needed > account.allowed:
                return _build_refusal(amount.unit, account, value, is_final=True)
            account.timed = add_exactly(account.timed, value)
            account.reserved = add_exactly(account.reserved, value)
            return None

    def settle_time(self, held: Decimal, actual: Amount) -> None:
        """Replace what was held for time by what it cost."""
        with self._mutex:
            account = self._accounts[actual.unit]
            account.timed = add_exactly(account.timed, -held)
            account.reserved = add_exactly(account.reserved, -held)
            account.spent = add_exactly(account.spent, actual.decimal)
        self.note(actual)

    def open_headroom(self) -> None:
        """Acting is over: acceptance draws on what was kept for it, and on what the agent left (P22)."""
        with self._mutex:
            for account in self._accounts.values():
                account.headroom = _ZERO

    def get_spent(self, measure: Measure) -> Decimal:
        """What is settled or counted of one measure."""
        with self._mutex:
            return self._accounts[measure].spent

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each settlement and release, in the thread that made it: room may be free."""
        self._listeners.append(listener)

    def read(self) -> BudgetState:
        """What has been taken so far."""
        with self._mutex:
            settled = tuple(self._settled[unit] for unit in sorted(self._settled))
            measures = tuple(
                _read_account(measure, account)
                for measure, account in self._accounts.items()
                if account.limit is not None or account.spent or account.reserved
            )
        return BudgetState(measures=measures, settled=settled, open_reservations=len(self._open))

    def _withdraw(self, entry: HeldQuantities) -> None:
        self.close(entry, None)
        self.note(None)  # another exchange may have been refused because of it

    def note(self, amount: Amount | None) -> None:
        """Add what a closed reservation cost, and tell listeners that room may be free."""
        if amount is not None:
            with self._mutex:
                earlier = self._settled.get(amount.unit)
                self._settled[amount.unit] = amount if earlier is None else earlier + amount
        for listener in tuple(self._listeners):
            listener()

    def _admit(self, least: Quantities, most: Quantities) -> HeldQuantities | Exhausted:
        """Reserve `most`, or as the overdraft what is left of it but at least `least`."""
        with self._mutex:
            refusal = self._find_passed()
            granted: dict[Measure, Decimal] = {}
            for measure, bound in most.items():
                refusal = refusal or self._find_refusal(measure, least[measure], bound)
                account = self._accounts[measure]
                granted[measure] = bound if account.limit is None else min(bound, account.room)
            if refusal is not None:
                return refusal
            entry = HeldQuantities(most, granted)
            self._open.add(entry)
            for measure, grant in granted.items():
                account = self._accounts[measure]
                account.reserved = add_exactly(account.reserved, grant)
                account.overdraft = max(account.overdraft, add_exactly(most[measure], -grant))
            return entry

    def count(self, entry: HeldQuantities, partial: Quantities) -> bool:
        """Take note of what is consumed so far; true if no more of it may be."""
        with self._mutex:
            self._check_open(entry)
            must_stop = False
            for measure, amount in partial.items():
                account = self._accounts[measure]
                grown = max(_ZERO, add_exactly(amount, -entry.counted[measure]))
                entry.counted[measure] = add_exactly(entry.counted[measure], grown)
                account.counted = add_exactly(account.counted, grown)
                # What is consumed is held, whatever had been reserved.
                excess = max(_ZERO, add_exactly(entry.counted[measure], -entry.granted[measure]))
                entry.granted[measure] = add_exactly(entry.granted[measure], excess)
                account.reserved = add_exactly(account.reserved, excess)
                if account.limit is not None:
                    is_reached = add_exactly(account.spent, account.counted) >= account.allowed
                    must_stop |= is_reached or (excess > 0 and account.room < 0)
            return must_stop

    def close(self, entry: HeldQuantities, taken: Quantities | None) -> Quantities:
        """Replace a reservation by what was taken; None takes what was counted, which may be nothing."""
        with self._mutex:
            self._check_open(entry)
            self._open.remove(entry)
            final = dict(entry.counted if taken is None else taken)
            for measure, value in final.items():
                account = self._accounts[measure]
                account.reserved = add_exactly(account.reserved, -entry.granted[measure])
                account.counted = add_exactly(account.counted, -entry.counted[measure])
                account.spent = add_exactly(account.spent, value)
                excess = max(_ZERO, add_exactly(value, -entry.most[measure]))
                account.beyond = add_exactly(account.beyond, excess)
            return final

    def _find_refusal(self, measure: Measure, least: Decimal, most: Decimal) -> Exhausted | None:
        account = self._accounts[measure]
        if account.limit is None:
            # A cost must not escape the cap because it comes in the other unit.
            other: Measure = "units" if measure == "usd" else "usd"
            if measure == "tokens" or self._accounts[other].limit is None:
                return None
            return _build_refusal(measure, account, least, is_final=True)
        if account.room > 0 and most <= account.room:
            return None
        has_overdraft = any(entry.is_overdraft for entry in self._open)
        if account.room > 0 and least <= account.room and not has_overdraft:
            return None
        left = add_exactly(account.allowed, -account.spent)
        return _build_refusal(measure, account, least, is_final=left <= 0 or left < least)

    def _find_passed(self) -> Exhausted | None:
        for measure in _COUNTED:
            account = self._accounts[measure]
            if account.limit is not None and account.spent > account.limit:
                return _build_refusal(measure, account, _ZERO, is_final=True)
        return None

    def _check_open(self, entry: HeldQuantities) -> None:
        if entry not in self._open:
            raise RESERVATION_CLOSED.error(
                "expected an open reservation, found one that is settled or released"
            )


def _split(charge: Charge) -> Quantities:
    return {charge.cost.unit: charge.cost.decimal, "tokens": Decimal(charge.tokens)}
