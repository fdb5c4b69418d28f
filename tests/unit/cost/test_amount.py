"""Amounts: exact, canonical, of one unit."""

from __future__ import annotations

import decimal
from decimal import Decimal
from fractions import Fraction

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from repotrial.cost import Amount
from repotrial.cost._amount import scale_price, weakest_basis
from support.costs import build_cost
from support.errors import raises_code

_VALUES = st.decimals(min_value=0, max_value=10**12, places=12, allow_nan=False, allow_infinity=False)


@given(_VALUES, _VALUES)
def test_addition_is_exact(one: Decimal, other: Decimal) -> None:
    total = build_cost(one) + build_cost(other)
    assert Fraction(total.value) == Fraction(one) + Fraction(other)


def test_the_context_of_the_thread_rounds_nothing() -> None:
    with decimal.localcontext(prec=2, rounding=decimal.ROUND_DOWN):
        total = build_cost("123.456789") + build_cost("0.000000000001")
        price = scale_price(Decimal("1.23456789"), 98_765, 1_000_000)
    assert total.value == "123.456789000001"
    assert price == Decimal("1.23456789") * 98_765 / 1_000_000


def test_equal_amounts_have_the_same_bytes() -> None:
    spellings = ("2.50", "2.5", "02.500", "25E-1")
    assert {Amount.build(Decimal(text), "usd").value for text in spellings} == {"2.5"}


@given(_VALUES)
def test_an_amount_survives_its_document(value: Decimal) -> None:
    amount = build_cost(value)
    assert msgspec.json.decode(msgspec.json.encode(amount), type=Amount) == amount


@pytest.mark.parametrize(
    "text", ["-1", "1.0", "01", "1e3", "", "NaN", "1\n", "٣", "1" * 25, "0." + "0" * 24 + "1"]
)
def test_another_spelling_is_refused(text: str) -> None:
    document = {"kind": "amount", "value": text, "unit": "usd", "methods": []}
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(document, Amount)
    with pytest.raises(ValueError, match="canonical decimal"):
        Amount(value=text, unit="usd", methods=())


def test_dollars_and_abstract_units_do_not_add_up() -> None:
    with raises_code("mixed-units"):
        build_cost(1) + build_cost(1, "units")


def test_a_sum_keeps_every_method_and_the_weakest_basis() -> None:
    parts = [
        Amount.build(Decimal(1), "usd", methods=("price-book:b",)),
        Amount.build(Decimal(2), "usd", methods=("price-book:a",), basis="bound"),
        Amount.build(Decimal(3), "usd", methods=("price-book:b",), basis="estimated"),
    ]
    total = sum(parts, start=Amount.build(Decimal(0), "usd"))
    assert total == Amount(value="6", unit="usd", methods=("price-book:a", "price-book:b"), basis="estimated")


def test_an_estimate_is_weaker_than_a_bound() -> None:
    assert weakest_basis(["reported", "bound"]) == "bound"
    assert weakest_basis(["estimated", "bound"]) == "estimated"
    assert weakest_basis([]) == "reported"


@given(_VALUES, st.integers(0, 2**53 - 1), st.sampled_from([1, 1000, 10**6, 10**9, 60 * 10**6, 3600 * 10**6]))
def test_prices_round_up_and_only_where_they_must(price: Decimal, quantity: int, per: int) -> None:
    exact = Fraction(price) * quantity / per
    scaled = Fraction(scale_price(price, quantity, per))
    assert exact <= scaled < exact + Fraction(1, 10**24)
    if per % 6:
        assert scaled == exact
