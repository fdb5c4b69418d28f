"""Budgets: reserve, settle, cut; the cap is never passed by more than one declared bound."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import Any, Literal

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from repotrial.cost import Amount, BudgetCaps, Charge, Exhausted, RequestEstimate, Reservation, RunBudget
from support.costs import build_cost, build_estimate, build_test_charge, get_measure
from support.errors import raises_code


def _admit(budget: RunBudget, estimate: RequestEstimate) -> Reservation:
    found = budget.reserve(estimate)
    assert isinstance(found, Reservation), found
    return found


def _refuse(budget: RunBudget, estimate: RequestEstimate) -> Exhausted:
    found = budget.reserve(estimate)
    assert isinstance(found, Exhausted)
    return found


def test_a_reservation_is_replaced_by_what_was_spent() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    _admit(budget, build_estimate(1, 3)).settle(build_test_charge("0.25", 77))
    found = get_measure(budget.read(), "usd")
    assert (found.spent, found.reserved, found.overspend) == ("0.25", "0", "0")
    assert get_measure(budget.read(), "tokens").spent == "77"
    assert budget.read().settled == (build_cost("0.25"),)


def test_a_released_reservation_leaves_nothing() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    _admit(budget, build_estimate(1, 5)).release()
    assert get_measure(budget.read(), "usd").reserved == "0"
    _admit(budget, build_estimate(1, 5))


def test_what_does_not_fit_beside_others_is_refused_for_now() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    first = _admit(budget, build_estimate(1, 4))
    refusal = _refuse(budget, build_estimate(2, 3))
    assert not refusal.is_final
    assert (refusal.limit, refusal.spent, refusal.reserved, refusal.needed) == ("5", "0", "4", "2")
    assert "in flight" in refusal.message
    first.settle(build_test_charge(1))
    assert not _admit(budget, build_estimate(2, 3)).is_overdraft


def test_what_does_not_fit_into_what_is_left_is_refused_for_good() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    _admit(budget, build_estimate(1, 5)).settle(build_test_charge(4))
    refusal = _refuse(budget, build_estimate(2, 3))
    assert refusal.is_final
    assert "in flight" not in refusal.message


def test_one_overdraft_at_a_time() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    first = _admit(budget, build_estimate(1, 100))
    assert first.is_overdraft
    assert not _refuse(budget, build_estimate(1, 100)).is_final
    first.settle(build_test_charge(1))
    assert _admit(budget, build_estimate(1, 100)).is_overdraft


def test_room_that_others_leave_does_not_make_a_second_overdraft() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="10"))
    small = _admit(budget, build_estimate(1, 6))
    large = _admit(budget, build_estimate(1, 100))
    small.settle(build_test_charge(1))
    assert isinstance(budget.reserve(build_estimate(1, 100)), Exhausted)
    assert not _admit(budget, build_estimate(1, 5)).is_overdraft
    large.settle(build_test_charge(100))
    assert get_measure(budget.read(), "usd").overspend == "91"


def test_the_overspend_of_an_overdraft_is_recorded() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5", headroom_usd="1"))
    _admit(budget, build_estimate(1, 100)).settle(build_test_charge(90))
    found = get_measure(budget.read(), "usd")
    assert (found.overspend, found.beyond_bounds) == ("86", "0")
    assert _refuse(budget, build_estimate(0, 0)).is_final
    assert budget.find_exhausted() is not None


def test_what_breaks_its_own_bound_is_told_apart() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    _admit(budget, build_estimate(1, 4)).settle(build_test_charge(7))
    found = get_measure(budget.read(), "usd")
    assert (found.overspend, found.beyond_bounds) == ("2", "3")


def test_headroom_is_not_the_agents() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5", headroom_usd="2"))
    assert _refuse(budget, build_estimate(4, 4)).limit == "3"
    _admit(budget, build_estimate(3, 3)).settle(build_test_charge(3))
    found = get_measure(budget.read(), "usd")
    assert (found.spent, found.headroom, found.overspend) == ("3", "2", "0")


def test_headroom_larger_than_the_cap_is_refused() -> None:
    with pytest.raises(ValueError, match="headroom within cost_usd"):
        BudgetCaps(cost_usd="1", headroom_usd="2")


def test_tokens_are_capped_like_cost() -> None:
    budget = RunBudget(BudgetCaps(tokens=1000))
    _admit(budget, build_estimate(1, 9, tokens=(500, 900))).settle(build_test_charge(9, 900))
    refusal = _refuse(budget, build_estimate(0, 0, tokens=(101, 102)))
    assert (refusal.measure, refusal.is_final) == ("tokens", True)
    assert _admit(budget, build_estimate(0, 0, tokens=(100, 102))).is_overdraft


@pytest.mark.parametrize("measure", ["tool-calls", "failed-checks", "wall-us"])
def test_a_count_may_reach_its_cap_and_not_pass_it(
    measure: Literal["tool-calls", "failed-checks", "wall-us"],
) -> None:
    budget = RunBudget(BudgetCaps(tool_calls=3, failed_checks=3, wall_us=3))
    assert budget.add(measure, 2) is None
    assert budget.add(measure) is None
    _admit(budget, build_estimate(0, 1)).release()
    passed = budget.add(measure)
    assert passed is not None
    assert (passed.measure, passed.spent, passed.limit) == (measure, "4", "3")
    assert _refuse(budget, build_estimate(0, 1)) == passed == budget.find_exhausted()


def test_a_cost_does_not_escape_the_cap_in_another_unit() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    refusal = _refuse(budget, build_estimate(1, 2, unit="units"))
    assert (refusal.measure, refusal.limit, refusal.is_final) == ("units", "0", True)
    both = RunBudget(BudgetCaps(cost_usd="5", cost_units="5"))
    _admit(both, build_estimate(1, 2, unit="units"))


def test_without_caps_everything_is_counted_and_nothing_refused() -> None:
    budget = RunBudget(BudgetCaps())
    _admit(budget, build_estimate(1, 10**9)).settle(build_test_charge(10**9))
    assert get_measure(budget.read(), "usd").limit is None
    assert budget.find_exhausted() is None


def test_unknown_consumption_is_charged_at_the_declared_bound() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    _admit(budget, build_estimate(1, 3, tokens=(1, 9))).settle(None)
    assert get_measure(budget.read(), "usd").spent == "3"
    assert [amount.basis for amount in budget.read().settled] == ["bound"]


def test_a_stream_is_cut_when_the_cap_is_reached() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    stream = _admit(budget, build_estimate(1, 100))
    assert not stream.count(build_test_charge("4.99"))
    assert stream.count(build_test_charge(5))
    stream.settle(build_test_charge("5.01"))
    assert get_measure(budget.read(), "usd").overspend == "0.01"


def test_a_stream_that_outgrows_its_reservation_takes_free_room_and_no_more() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="10"))
    stream = _admit(budget, build_estimate(1, 2))
    other = _admit(budget, build_estimate(1, 6))
    assert not stream.count(build_test_charge(4))
    assert isinstance(budget.reserve(build_estimate(1, 1)), Exhausted)
    assert stream.count(build_test_charge("4.01"))
    assert not other.count(build_test_charge(1))


def test_a_stream_is_cut_when_others_have_spent_the_cap() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="10"))
    other, overdraft = _admit(budget, build_estimate(1, 6)), _admit(budget, build_estimate(1, 100))
    overdraft.settle(build_test_charge(10))
    assert other.count(build_test_charge("0.1"))


def test_what_a_settled_stream_had_counted_is_not_counted_again() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="10"))
    first = _admit(budget, build_estimate(1, 6))
    first.count(build_test_charge(5))
    first.settle(build_test_charge(5))
    assert not _admit(budget, build_estimate(1, 5)).count(build_test_charge(4))


def test_a_count_never_goes_back() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="10"))
    stream = _admit(budget, build_estimate(1, 6))
    stream.count(build_test_charge(3))
    stream.count(build_test_charge(2))
    stream.release()
    assert get_measure(budget.read(), "usd").spent == "3"
    assert [amount.basis for amount in budget.read().settled] == ["estimated"]


def test_a_reservation_is_closed_once() -> None:
    reservation = _admit(RunBudget(BudgetCaps()), build_estimate(1, 2))
    reservation.settle(build_test_charge(1))
    for again in (reservation.release, lambda: reservation.settle(None)):
        with raises_code("reservation-closed"):
            again()
    with raises_code("reservation-closed"):
        reservation.count(build_test_charge(1))


def test_another_unit_than_was_reserved_is_refused_and_the_reservation_stays() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    reservation = _admit(budget, build_estimate(1, 2))
    with raises_code("mixed-units"):
        reservation.settle(build_test_charge(1, unit="units"))
    reservation.settle(build_test_charge(1))


def test_listeners_hear_of_room() -> None:
    heard = []
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    budget.add_listener(lambda: heard.append(get_measure(budget.read(), "usd").reserved))
    _admit(budget, build_estimate(1, 5)).release()
    _admit(budget, build_estimate(1, 5)).settle(build_test_charge(1))
    assert heard == ["0", "0"]


class _Parent:
    """Envelopes with a limit, of the kind that a budget asks."""

    def __init__(self, limit: int) -> None:
        self.left = Decimal(limit)
        self.settled: list[Amount | None] = []

    def reserve(self, amount: Amount) -> Any:
        if amount.decimal > self.left:
            return Exhausted(
                scope="total",
                measure="usd",
                limit="0",
                spent="0",
                reserved="0",
                needed=amount.value,
                is_final=True,
            )
        self.left -= amount.decimal
        return _ParentHold(self)


class _ParentHold:
    def __init__(self, parent: _Parent) -> None:
        self._parent = parent

    def settle(self, actual: Amount) -> None:
        self._parent.settled.append(actual)

    def release(self) -> None:
        self._parent.settled.append(None)


def test_the_parent_holds_the_whole_bound_also_of_an_overdraft() -> None:
    parent = _Parent(100)
    budget = RunBudget(BudgetCaps(cost_usd="5"), parent=parent)
    _admit(budget, build_estimate(1, 60)).settle(build_test_charge(1))
    assert parent.left == 40
    assert _refuse(budget, build_estimate(1, 60)).scope == "total"
    assert get_measure(budget.read(), "usd").reserved == "0"
    _admit(budget, build_estimate(1, 2)).release()
    assert parent.settled == [build_cost(1), None]


class _BrokenParent:
    def reserve(self, amount: Amount) -> Any:
        raise OSError(amount.value)


def test_a_parent_that_fails_leaves_no_reservation() -> None:
    heard: list[int] = []
    budget = RunBudget(BudgetCaps(cost_usd="5"), parent=_BrokenParent())
    budget.add_listener(lambda: heard.append(1))
    with pytest.raises(OSError, match="3"):
        budget.reserve(build_estimate(1, 3))
    assert budget.read().open_reservations == 0
    assert heard == [1]


_CAP, _HEADROOM, _TOKENS = 100, 10, 1000


class BudgetMachine(RuleBasedStateMachine):
    """Any order of calls in which no exchange breaks its own declared bound."""

    reservations: Bundle[Reservation | None] = Bundle("reservations")

    def __init__(self) -> None:
        super().__init__()
        self.budget = RunBudget(BudgetCaps(cost_usd=str(_CAP), headroom_usd=str(_HEADROOM), tokens=_TOKENS))
        self.spent = 0
        self.tokens = 0
        self.open: set[Reservation] = set()
        self.overdraft_bounds = [0]
        self.overdraft_tokens = [0]

    @rule(
        target=reservations,
        least=st.integers(0, 30),
        more=st.integers(0, 150),
        tokens=st.tuples(st.integers(0, 100), st.integers(0, 700)),
    )
    def reserve(self, least: int, more: int, tokens: tuple[int, int]) -> Reservation | None:
        estimate = build_estimate(least, least + more, tokens=(tokens[0], sum(tokens)))
        found = self.budget.reserve(estimate)
        if isinstance(found, Exhausted):
            if not self.open:
                assert found.is_final, "nothing is in flight that could make room"
            return None
        if found.is_overdraft:
            self.overdraft_bounds.append(more)
            self.overdraft_tokens.append(tokens[1])
        self.open.add(found)
        return found

    @rule(reservation=reservations, share=st.integers(0, 100))
    def count(self, reservation: Reservation | None, share: int) -> None:
        if reservation in self.open:
            assert reservation is not None
            reservation.count(_take(reservation, share))

    @rule(reservation=consumes(reservations), share=st.integers(0, 100))
    def settle(self, reservation: Reservation | None, share: int) -> None:
        if reservation in self.open:
            assert reservation is not None
            actual = _take(reservation, share)
            reservation.settle(actual)
            self._close(reservation, actual)

    @rule(reservation=consumes(reservations))
    def settle_unknown(self, reservation: Reservation | None) -> None:
        if reservation in self.open:
            assert reservation is not None
            reservation.settle(None)
            self._close(reservation, reservation.estimate.most)

    def _close(self, reservation: Reservation, actual: Charge) -> None:
        self.open.remove(reservation)
        self.spent += int(actual.cost.value)
        self.tokens += actual.tokens

    @invariant()
    def every_settlement_is_counted(self) -> None:
        state = self.budget.read()
        spent = next((found.spent for found in state.measures if found.measure == "usd"), "0")
        assert Decimal(spent) == self.spent
        assert state.open_reservations == len(self.open)

    @invariant()
    def the_cap_is_passed_by_one_output_bound_at_most(self) -> None:
        assert self.spent <= _CAP - _HEADROOM + max(self.overdraft_bounds)
        assert self.tokens <= _TOKENS + max(self.overdraft_tokens)

    @invariant()
    def there_is_one_overdraft_at_most(self) -> None:
        assert sum(reservation.is_overdraft for reservation in self.open) <= 1


def _take(reservation: Reservation, share: int) -> Charge:
    most = reservation.estimate.most
    return build_test_charge(int(most.cost.value) * share // 100, most.tokens * share // 100)


TestBudgetMachine = BudgetMachine.TestCase
TestBudgetMachine.settings = settings(max_examples=30)


@pytest.mark.parametrize("seed", range(3))
def test_fifty_threads_pass_the_cap_by_one_declared_bound_at_most(seed: int) -> None:
    bound, cap = 7, 100
    budget = RunBudget(BudgetCaps(cost_usd=str(cap)))
    together = threading.Barrier(50)

    def work(number: int) -> Decimal:
        chance = random.Random(seed * 1000 + number)
        total = Decimal(0)
        for _ in range(10):
            together.wait()
            found = budget.reserve(build_estimate("0.5", bound))
            together.wait()  # all that are admitted are in flight at once
            if isinstance(found, Reservation):
                actual = Decimal(chance.randint(50, bound * 100)) / 100
                found.count(build_test_charge(actual / 2))
                found.settle(build_test_charge(actual))
                total += actual
        return total

    with ThreadPoolExecutor(50) as pool:
        spent = sum(pool.map(work, range(50)), Decimal(0))
    found = get_measure(budget.read(), "usd")
    assert Decimal(found.spent) == spent
    assert spent <= cap + bound
    assert Decimal(found.overspend) == max(Decimal(0), spent - cap)
    assert (found.reserved, found.beyond_bounds) == ("0", "0")


def test_fifty_parallel_requests_that_all_answer_in_full_pass_the_cap_by_less_than_one_bound() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="100"))
    admitted = [
        found for _ in range(50) if isinstance(found := budget.reserve(build_estimate(1, 7)), Reservation)
    ]
    for reservation in admitted:
        reservation.settle(None)
    assert get_measure(budget.read(), "usd").spent == "105"
    assert get_measure(budget.read(), "usd").overspend == "5"
