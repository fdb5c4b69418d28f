"""Ledgers: envelopes that several runs share, that survive a restart, and that are never overspent."""

from __future__ import annotations

import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from repotrial.cost import (
    BudgetCaps,
    EnvelopeLimits,
    EnvelopeState,
    Exhausted,
    Ledger,
    Reservation,
    RunBudget,
    load_ledger_state,
)
from repotrial.cost._ledger import Envelopes, LedgerHold
from support.costs import build_cost, build_estimate, build_test_charge
from support.errors import raises_code

LIMITS = EnvelopeLimits(run=build_cost(5), task=build_cost(8), total=build_cost(12))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "study" / "ledger.jsonl"


def _hold(envelopes: Envelopes, amount: str | int) -> LedgerHold:
    hold = envelopes.reserve(build_cost(amount))
    assert isinstance(hold, LedgerHold), hold
    return hold


def _refuse(envelopes: Envelopes, amount: str | int) -> Exhausted:
    found = envelopes.reserve(build_cost(amount))
    assert isinstance(found, Exhausted)
    return found


def _envelope(ledger: Ledger, name: str) -> EnvelopeState:
    return next(found for found in ledger.read().envelopes if found.name == name)


def test_a_reservation_must_fit_in_all_three_envelopes(path: Path) -> None:
    with Ledger(path) as ledger:
        first = ledger.open_envelopes(LIMITS, run="r1", task="t1")
        assert _refuse(first, "5.01").scope == "run/r1"
        _hold(first, 5).settle(build_cost(5))
        again = ledger.open_envelopes(LIMITS, run="r2", task="t1")
        refusal = _refuse(again, 4)
        assert (refusal.scope, refusal.spent, refusal.needed, refusal.is_final) == ("task/t1", "5", "4", True)
        _hold(again, 3).settle(build_cost(3))
        other = ledger.open_envelopes(LIMITS, run="r3", task="t2")
        assert _refuse(other, 5).scope == "total"
        _hold(other, 4)
        assert _envelope(ledger, "run/r3").held == "4"


def test_a_refused_reservation_holds_nothing_anywhere(path: Path) -> None:
    with Ledger(path) as ledger:
        before = ledger.read()
        first = ledger.open_envelopes(LIMITS, run="r1", task="t1")
        _refuse(first, 6)
        assert {found.held for found in ledger.read().envelopes} == {"0"}
        assert ledger.read().head.count == before.head.count + 3


def test_room_that_is_only_held_may_come_back(path: Path) -> None:
    with Ledger(path) as ledger:
        run = ledger.open_envelopes(LIMITS, run="r1", task="t1")
        hold = _hold(run, 4)
        assert not _refuse(run, 2).is_final
        hold.release()
        _hold(run, 2)


def test_a_ledger_survives_a_restart(path: Path) -> None:
    with Ledger(path) as ledger:
        run = ledger.open_envelopes(LIMITS, run="r1", task="t1")
        _hold(run, 2).settle(build_cost("1.5"))
        _hold(run, 3)
        before = ledger.read()
    with Ledger(path) as ledger:
        assert ledger.read() == before
        assert ledger.read().open_runs == ("r1",)
        refusal = _refuse(ledger.open_envelopes(LIMITS, run="r1", task="t1"), 1)
        assert (refusal.spent, refusal.reserved, refusal.is_final) == ("4.5", "0", True)


def test_what_a_dead_run_held_counts_as_spent(path: Path) -> None:
    with Ledger(path) as ledger:
        _hold(ledger.open_envelopes(LIMITS, run="r1", task="t1"), 3)
    with Ledger(path) as ledger:
        living = ledger.open_envelopes(LIMITS, run="r2", task="t1")
        hold = _hold(living, 1)
        concluded = ledger.conclude_run("r1")
        assert [(amount.value, amount.basis) for amount in concluded] == [("3", "bound")]
        assert ledger.conclude_run("r1") == ()
        assert (_envelope(ledger, "task/t1").spent, _envelope(ledger, "task/t1").held) == ("3", "1")
        hold.settle(build_cost(1))


def test_what_nobody_holds_any_more_counts_as_spent_and_says_that_it_is_assumed(path: Path) -> None:
    with Ledger(path) as ledger:
        _hold(ledger.open_envelopes(LIMITS, run="r1", task="t1"), 3)
        assert ledger.conclude_dead() == (), "its holder lives"
    with Ledger(path) as ledger:
        assert [amount.value for amount in ledger.conclude_dead()] == ["3"]
        total = _envelope(ledger, "total")
        assert (total.spent, total.held, total.assumed) == ("3", "0", "3")
        assert ledger.conclude_dead() == ()
    assert not list(path.parent.glob("*.holders"))
    assert load_ledger_state(path).envelopes[-1].assumed == "3"


def test_what_another_open_ledger_holds_is_left_alone(path: Path) -> None:
    with Ledger(path) as one, Ledger(path) as other:
        hold = _hold(one.open_envelopes(LIMITS, run="r1", task="t1"), 5)
        second = other.open_envelopes(LIMITS, run="r2", task="t1")
        assert other.conclude_dead() == ()
        assert not _refuse(second, 4).is_final
        hold.settle(build_cost(1))
        _hold(second, 4).release()


def test_a_run_of_the_same_name_elsewhere_keeps_what_it_holds(path: Path) -> None:
    with Ledger(path) as one, Ledger(path) as other:
        hold = _hold(one.open_envelopes(LIMITS, run="r1", task="t1"), 3)
        _hold(other.open_envelopes(LIMITS, run="r1", task="t1"), 1)
        assert [amount.value for amount in other.conclude_run("r1")] == ["1"]
        hold.settle(build_cost(2))
        assert (_envelope(one, "task/t1").spent, _envelope(one, "task/t1").held) == ("3", "0")


def test_nobody_waits_for_what_the_dead_hold(path: Path) -> None:
    with Ledger(path) as living:
        run = living.open_envelopes(LIMITS, run="r2", task="t1")
        with Ledger(path) as dead:
            _hold(dead.open_envelopes(LIMITS, run="r1", task="t1"), 5)
            assert not _refuse(run, 4).is_final
        refusal = _refuse(run, 4)
        assert (refusal.scope, refusal.spent, refusal.is_final) == ("task/t1", "5", True)
        _hold(run, 3)


def test_a_run_that_was_taken_for_dead_cannot_settle_any_more(path: Path) -> None:
    with Ledger(path) as ledger:
        hold = _hold(ledger.open_envelopes(LIMITS, run="r1", task="t1"), 3)
        ledger.conclude_run("r1")
        for close in (hold.release, lambda: hold.settle(build_cost(1))):
            with raises_code("ledger-hold-closed"):
                close()


def test_what_passes_its_hold_is_recorded_as_overspend(path: Path) -> None:
    with Ledger(path) as ledger:
        run = ledger.open_envelopes(LIMITS, run="r1", task="t1")
        _hold(run, 5).settle(build_cost(9))
        assert [found.overspend for found in ledger.read().envelopes] == ["4", "1", "0"]
        assert _refuse(run, 0).is_final
    with Ledger(path) as ledger:
        assert _envelope(ledger, "run/r1").overspend == "4"


def test_a_limit_is_fixed(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.open_envelope("total", build_cost(5))
        ledger.open_envelope("total", build_cost("5.00"))
        with raises_code("envelope-conflict", match="expected the limit 5 usd, found 6 usd"):
            ledger.open_envelope("total", build_cost(6))
        with raises_code("envelope-conflict"):
            ledger.open_envelope("total", build_cost(5, "units"))


def test_an_envelope_that_nobody_opened_pays_for_nothing(path: Path) -> None:
    with Ledger(path) as ledger, raises_code("envelope-unknown"):
        Envelopes(ledger, run="r1", names=("total",)).reserve(build_cost(1))


def test_an_envelope_pays_in_its_own_unit(path: Path) -> None:
    with Ledger(path) as ledger:
        ledger.open_envelope("total", build_cost(5))
        run = Envelopes(ledger, run="r1", names=("total",))
        with raises_code("mixed-units"):
            run.reserve(build_cost(1, "units"))
        hold = _hold(run, 1)
        with raises_code("mixed-units"):
            hold.settle(build_cost(1, "units"))


def test_two_open_ledgers_see_each_others_entries(path: Path) -> None:
    with Ledger(path) as one, Ledger(path) as other:
        first = one.open_envelopes(LIMITS, run="r1", task="t1")
        second = other.open_envelopes(LIMITS, run="r2", task="t1")
        _hold(first, 5)
        assert _refuse(second, 4).scope == "task/t1"
        _hold(second, 3)
        assert one.read() == other.read()


def test_threads_with_ledgers_of_their_own_never_overspend(path: Path) -> None:
    start = threading.Barrier(8)

    def work(number: int) -> Decimal:
        spent = Decimal(0)
        with Ledger(path) as ledger:
            envelopes = ledger.open_envelopes(LIMITS, run=f"r{number}", task=f"t{number % 2}")
            start.wait()
            for _ in range(5):
                hold = envelopes.reserve(build_cost("1.25"))
                if isinstance(hold, LedgerHold):
                    hold.settle(build_cost("1.1"))
                    spent += Decimal("1.1")
        return spent

    with ThreadPoolExecutor(8) as pool:
        spent = sum(pool.map(work, range(8)), Decimal(0))
    with Ledger(path) as ledger:
        assert Decimal(_envelope(ledger, "total").spent) == spent
        assert all(
            (found.overspend, found.held) == ("0", "0") and Decimal(found.spent) <= Decimal(found.limit)
            for found in ledger.read().envelopes
        )


def test_a_budget_draws_on_its_envelopes(path: Path) -> None:
    with Ledger(path) as ledger:
        envelopes = ledger.open_envelopes(LIMITS, run="r1", task="t1")
        budget = RunBudget(BudgetCaps(cost_usd="4"), parent=envelopes)
        first = budget.reserve(build_estimate(1, 5))
        assert isinstance(first, Reservation)
        assert first.is_overdraft
        assert _envelope(ledger, "run/r1").held == "5"
        first.settle(build_test_charge(2))
        refused = budget.reserve(build_estimate(1, 5))
        assert isinstance(refused, Exhausted)
        assert refused.scope == "run/r1", "an envelope lends nothing"
        second = budget.reserve(build_estimate(1, 2))
        assert isinstance(second, Reservation)
        second.release()
        assert (_envelope(ledger, "total").spent, _envelope(ledger, "total").held) == ("2", "0")


def test_a_ledger_is_read_without_being_written(path: Path) -> None:
    with Ledger(path) as ledger:
        _hold(ledger.open_envelopes(LIMITS, run="r1", task="t1"), 2)
        state = ledger.read()
    path.chmod(0o444)
    before = path.read_bytes()
    assert load_ledger_state(path, head=state.head) == state
    assert path.read_bytes() == before
    with raises_code("ledger-unusable"):
        load_ledger_state(path.with_name("none"))
    assert not path.with_name("none").exists()
    path.with_name("empty").touch()
    with raises_code("ledger-broken", match="opening entry"):
        load_ledger_state(path.with_name("empty"))


def test_a_ledger_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with raises_code("ledger-unusable"):
        Ledger(tmp_path / "file" / "ledger.jsonl")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with raises_code("ledger-unusable"):
        Ledger(tmp_path / "link")


class BooksMachine(RuleBasedStateMachine):
    """Runs in any order, with restarts; none of them passes what it holds."""

    holds: Bundle[LedgerHold | None] = Bundle("holds")

    def __init__(self) -> None:
        super().__init__()
        self.directory = tempfile.TemporaryDirectory()
        self.path = Path(self.directory.name) / "ledger"
        self.ledger = Ledger(self.path)

    @rule(target=holds, run=st.integers(0, 3), amount=st.integers(0, 6))
    def reserve(self, run: int, amount: int) -> LedgerHold | None:
        envelopes = self.ledger.open_envelopes(LIMITS, run=f"r{run}", task=f"t{run % 2}")
        found = envelopes.reserve(build_cost(amount))
        return found if isinstance(found, LedgerHold) else None

    @rule(hold=consumes(holds), saved=st.integers(0, 6))
    def settle(self, hold: LedgerHold | None, saved: int) -> None:
        if hold is not None and (entry := self.ledger._books.holds.get(hold.number)):
            self.ledger.settle(hold.number, build_cost(max(0, int(entry.amount) - saved)))

    @rule(run=st.integers(0, 3))
    def conclude(self, run: int) -> None:
        self.ledger.conclude_run(f"r{run}")

    @rule()
    def restart(self) -> None:
        before = self.ledger.read()
        self.ledger.close()
        self.ledger = Ledger(self.path)
        assert self.ledger.read() == before

    @invariant()
    def nothing_is_overspent(self) -> None:
        for found in self.ledger.read().envelopes:
            assert Decimal(found.spent) + Decimal(found.held) <= Decimal(found.limit)

    def teardown(self) -> None:
        self.ledger.close()
        self.directory.cleanup()


TestBooksMachine = BooksMachine.TestCase
# Each entry waits for the disk.
TestBooksMachine.settings = settings(max_examples=10, stateful_step_count=15)
