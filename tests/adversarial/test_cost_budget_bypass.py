"""Ways to spend more than a run may: huge bounds, many answers, silence about usage, strange names."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial._core.absence import NotComputable
from repotrial.cost import (
    Amount,
    BudgetCaps,
    Charge,
    Exhausted,
    RequestEstimate,
    Reservation,
    RunBudget,
    Tariff,
    TokenUsage,
    estimate_usage,
    load_price_book,
)
from repotrial.cost._book_file import parse_book
from support.costs import get_measure
from support.errors import raises_code

BOOK = load_price_book(None)
TARIFF = Tariff(book=BOOK)
MODEL = "claude-opus-5"


def _estimate(*, own: int | None, answers: int = 1, request_bytes: int = 40_000) -> RequestEstimate:
    found = TARIFF.estimate_request(
        MODEL, request_bytes=request_bytes, max_output_tokens=own, answers=answers
    )
    assert isinstance(found, RequestEstimate)
    return found


def _charge(usage: TokenUsage) -> Charge:
    found = TARIFF.build_charge(MODEL, usage)
    assert isinstance(found, Charge)
    return found


def test_asking_for_a_billion_tokens_neither_ends_the_run_nor_reserves_less_than_the_model_can_answer() -> (
    None
):
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    reservation = budget.reserve(_estimate(own=10**9))
    assert isinstance(reservation, Reservation)
    assert not reservation.is_overdraft
    assert reservation.estimate.output_bound_tokens == 128_000


def test_fifty_requests_without_a_maximum_pass_the_cap_by_one_bound_at_most() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    estimate = _estimate(own=None)
    admitted = [found for _ in range(50) if isinstance(found := budget.reserve(estimate), Reservation)]
    for reservation in admitted:
        reservation.settle(None)
    spent = Decimal(get_measure(budget.read(), "usd").spent)
    assert 5 < spent < 5 + estimate.most.cost.decimal
    assert sum(reservation.is_overdraft for reservation in admitted) == 1


def test_asking_for_many_answers_reserves_for_all_of_them() -> None:
    one, many = _estimate(own=1000), _estimate(own=1000, answers=128)
    assert many.output_bound_tokens == 128 * one.output_bound_tokens
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    assert isinstance(budget.reserve(many), Reservation)
    assert isinstance(budget.reserve(many), Exhausted), "and never as an overdraft"


@pytest.mark.parametrize("answers", [10**9, 10**40, 0, -5])
def test_an_absurd_number_of_answers_is_neither_a_crash_nor_free(answers: int) -> None:
    estimate = _estimate(own=1000, answers=answers)
    assert estimate.output_bound_tokens >= 1000
    assert isinstance(RunBudget(BudgetCaps(cost_usd="5")).reserve(estimate), Exhausted) == (answers > 1)


def test_a_prompt_that_alone_passes_the_cap_is_not_sent() -> None:
    refusal = RunBudget(BudgetCaps(cost_usd="5")).reserve(_estimate(own=1, request_bytes=4_000_000))
    assert isinstance(refusal, Exhausted)
    assert refusal.is_final


def test_an_answer_that_says_nothing_about_usage_is_charged_by_its_bytes() -> None:
    silent = estimate_usage(None, request_bytes=40_000, response_bytes=4000)
    amount = TARIFF.price_exchange(MODEL, silent)
    assert isinstance(amount, Amount)
    assert amount.basis == "estimated"
    assert amount.decimal >= Decimal("0.075")


@pytest.mark.parametrize("field", ["input_uncached", "cache_read", "cache_write_5m", "cache_write_1h"])
def test_claiming_that_one_kind_was_nothing_does_not_make_the_rest_free(field: str) -> None:
    whole = TokenUsage(request_input=10_000, output=1)
    honest = TARIFF.price_exchange(MODEL, whole)
    partial = TARIFF.price_exchange(MODEL, msgspec.structs.replace(whole, **{field: 0}))
    assert isinstance(honest, Amount)
    assert isinstance(partial, Amount)
    assert partial.decimal >= Decimal("0.05") <= honest.decimal


@pytest.mark.parametrize("count", [-1, -(10**9), 2**53, 10**40])
@pytest.mark.parametrize("field", ["input_uncached", "cache_read", "request_input", "output", "reasoning"])
def test_a_count_that_cannot_be_is_neither_a_discount_nor_a_crash(field: str, count: int) -> None:
    counts: dict[str, int] = {"request_input": 10_000, "output": 100, field: count}
    usage = msgspec.structs.replace(TokenUsage(), **counts)
    assert isinstance(TARIFF.build_charge(MODEL, usage), NotComputable)
    assert isinstance(TARIFF.price_exchange(MODEL, usage), NotComputable)
    known = estimate_usage(usage, request_bytes=40_000, response_bytes=400)
    assert known == TokenUsage(request_input=10_000, output=100, basis="estimated")


def test_the_largest_counts_at_the_largest_price_still_have_an_amount() -> None:
    rows = b"model:m:input,token,999999,\nmodel:m:output,token,999999.999999999999,\n"
    book = parse_book(b"action_type,unit,unit_price,notes\n" + rows, name="dear")
    usage = TokenUsage(request_input=2**53 - 1, output=2**53 - 1)
    assert isinstance(Tariff(book=book).price_exchange("m", usage), Amount)


def test_a_stream_that_never_ends_is_cut_at_the_cap() -> None:
    budget = RunBudget(BudgetCaps(cost_usd="5"))
    stream = budget.reserve(_estimate(own=10**9, request_bytes=4000))
    assert isinstance(stream, Reservation)
    output = 0
    while not stream.count(_charge(TokenUsage(request_input=1000, output=output))):
        output += 1000
    stream.settle(_charge(TokenUsage(request_input=1000, output=output)))
    assert Decimal(get_measure(budget.read(), "usd").overspend) <= Decimal("0.025"), "one piece of the stream"
    assert isinstance(budget.reserve(_estimate(own=1)), Exhausted)


def test_an_unknown_model_does_not_slip_under_a_cap_in_dollars() -> None:
    tariff = Tariff(book=BOOK, unknown_models="abstract-units")
    estimate = tariff.estimate_request("free-of-charge", request_bytes=1, max_output_tokens=1)
    assert isinstance(estimate, RequestEstimate)
    assert isinstance(RunBudget(BudgetCaps(cost_usd="5")).reserve(estimate), Exhausted)


@pytest.mark.parametrize(
    "model",
    [
        "*",
        "claude-opus-5*",
        "CLAUDE-OPUS-5",
        " claude-opus-5",
        "claude-opus-5\n",
        "claude-opus-5:input",
        "",
        "\0",
    ],
)
def test_a_strange_name_does_not_find_a_price(model: str) -> None:
    assert isinstance(TARIFF.price_exchange(model, TokenUsage(request_input=1, output=1)), NotComputable)


@given(st.binary(max_size=300))
def test_garbage_is_a_price_book_error_and_nothing_else(data: bytes) -> None:
    with raises_code("price-book"):
        parse_book(data, name="garbage")


@given(
    st.text(alphabet=st.characters(codec="utf-8"), max_size=80), st.text(max_size=20), st.text(max_size=20)
)
def test_hostile_cells_are_refused_with_a_message_that_prints(action: str, unit: str, price: str) -> None:
    cells = ",".join('"' + cell.replace('"', '""') + '"' for cell in (action, unit, price, ""))
    data = f"action_type,unit,unit_price,notes\n{cells}\n".encode("utf-8", "surrogatepass")
    with raises_code("price-book") as caught:
        parse_book(data, name="hostile")
    assert all(line.isprintable() for line in str(caught.value).split("\n"))


def test_a_price_cannot_hide_behind_a_quoted_line_break() -> None:
    data = (
        b"action_type,unit,unit_price,notes\n"
        b'exec:wall,hour,1,"a note\nexec:wall,hour,0,free"\n'
        b"storage:byte,byte,x,\n"
    )
    with raises_code("price-book", match=r"^book:4: unit_price"):
        parse_book(data, name="book")


def test_a_book_that_is_too_large_is_not_read() -> None:
    with raises_code("price-book", match="at most"):
        parse_book(b"x" * (4 * 1024 * 1024 + 1), name="huge")
