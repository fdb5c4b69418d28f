"""The time of a run as money: held before it passes, settled to what the record says (P22, B4)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from repotrial.cost import (
    Amount,
    BudgetCaps,
    EnvelopeLimits,
    Exhausted,
    Ledger,
    Metered,
    RunBudget,
    Spending,
    Tariff,
)
from support.costs import read_book

BOOK = read_book(
    b"action_type,unit,unit_price\nexec:wall,second,0.1\noverhead:wall,second,0.01\nhuman:minute,minute,6\n"
    b"storage:byte,1GB,1\n"
)
NOTHING_ELSE = read_book(b"action_type,unit,unit_price\nmodel:m:input,token,1\nmodel:m:output,token,1\n")
METERED = Metered(
    exchanges=(),
    exec_wall_us=7_000_000,
    tool_calls=0,
    human_us=0,
    overhead_wall_us=5_000_000,
    stored_bytes=1_000_000,
)


class Clock:
    """Goes on when told."""

    def __init__(self) -> None:
        self.us = 1_000_000

    def __call__(self) -> int:
        return self.us

    def pass_seconds(self, seconds: float) -> None:
        self.us += int(seconds * 1_000_000)


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    with Ledger(tmp_path / "ledger.jsonl") as ledger:
        yield ledger


def _usd(value: str) -> Amount:
    return Amount.build(Decimal(value), "usd")


def _pass_time(spending: Spending, clock: Clock, seconds: int) -> Exhausted | None:
    """Look once in a second, as a run does; the first refusal."""
    for _ in range(seconds):
        clock.pass_seconds(1)
        if (refusal := spending.tick()) is not None:
            return refusal
    return None


def test_time_ends_a_run_at_its_cap_and_passes_it_by_no_more_than_a_look() -> None:
    clock = Clock()
    budget = RunBudget(BudgetCaps(cost_usd="2"))
    spending = Spending(Tariff(book=BOOK), budget, parent=None, now_us=clock)
    spending.enter("exec")
    started = clock.us
    refusal = _pass_time(spending, clock, 100)
    assert refusal is not None
    assert refusal.is_run_cap
    seconds = (clock.us - started) / 1_000_000
    assert 19 <= seconds <= 21, "two dollars at ten cents a second"


def test_an_honest_run_within_its_cap_is_never_refused() -> None:
    clock = Clock()
    spending = Spending(Tariff(book=BOOK), RunBudget(BudgetCaps(cost_usd="20")), parent=None, now_us=clock)
    spending.enter("exec")
    assert _pass_time(spending, clock, 150) is None


def test_a_book_that_prices_models_alone_holds_nothing() -> None:
    spending = Spending(Tariff(book=NOTHING_ELSE), RunBudget(BudgetCaps(cost_usd="0")), parent=None)
    assert spending.is_idle
    assert spending.tick() is None


def test_acceptance_draws_on_what_was_kept_for_it() -> None:
    clock = Clock()
    budget = RunBudget(BudgetCaps(cost_usd="4", headroom_usd="2"))
    spending = Spending(Tariff(book=BOOK), budget, parent=None, now_us=clock)
    spending.enter("exec")
    assert _pass_time(spending, clock, 100) is not None, "the agent has the half of it"
    spending.open_headroom()
    assert _pass_time(spending, clock, 15) is None
    assert _pass_time(spending, clock, 15) is not None, "and then the cap itself is reached"


def test_the_ledger_has_what_the_record_says_and_holds_nothing_more(ledger: Ledger) -> None:
    clock = Clock()
    envelopes = ledger.open_envelopes(
        EnvelopeLimits(run=_usd("50"), task=_usd("60"), total=_usd("70")), run="r", task="t"
    )
    budget = RunBudget(BudgetCaps(cost_usd="50", headroom_usd="5"), parent=envelopes)
    spending = Spending(Tariff(book=BOOK), budget, parent=envelopes, now_us=clock)
    assert spending.keep_headroom(10, Decimal(5)) is None
    for kind in ("overhead", "exec"):
        spending.enter(kind)
        assert _pass_time(spending, clock, 40) is None
    spending.open_headroom()
    assert _pass_time(spending, clock, 20) is None
    statement = spending.settle(METERED)
    assert isinstance(statement.total, Amount)
    assert statement.total.value == "0.751"
    for envelope in ledger.read().envelopes:
        assert (envelope.spent, envelope.held) == ("0.751", "0"), envelope
    assert budget.get_spent("usd") == Decimal("0.751")


def test_an_envelope_is_not_passed_by_time(ledger: Ledger) -> None:
    """Two runs at once use up what they share: both end, and neither waits for its own holds."""
    clock = Clock()
    runs = []
    for name in ("a", "b"):
        envelopes = ledger.open_envelopes(EnvelopeLimits(total=_usd("3")), run=name, task="t")
        budget = RunBudget(BudgetCaps(cost_usd="50"), parent=envelopes)
        runs.append(Spending(Tariff(book=BOOK), budget, parent=envelopes, now_us=clock))
        runs[-1].enter("exec")
    refused: dict[int, int] = {}
    for second in range(60):
        clock.pass_seconds(1)
        for number, spending in enumerate(runs):
            if number not in refused and (refusal := spending.tick()) is not None:
                assert refusal.scope == "total"
                refused[number] = second
    assert len(refused) == 2
    total = next(each for each in ledger.read().envelopes if each.name == "total")
    assert Decimal(total.spent) + Decimal(total.held) <= Decimal(3)


def test_a_closed_envelope_refuses_the_first_moment(ledger: Ledger) -> None:
    envelopes = ledger.open_envelopes(EnvelopeLimits(total=_usd("0")), run="r", task="t")
    spending = Spending(Tariff(book=BOOK), RunBudget(BudgetCaps(), parent=envelopes), parent=envelopes)
    refusal = spending.keep_headroom(10, Decimal(5))
    assert refusal is not None
    assert not refusal.is_run_cap
