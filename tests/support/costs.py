"""Amounts, charges and estimates of a given size."""

from __future__ import annotations

import tempfile
from decimal import Decimal
from pathlib import Path

from repotrial.cost import Amount, Charge, MeasureState, PriceBook, RequestEstimate, load_price_book
from repotrial.cost._amount import MoneyUnit
from repotrial.cost._caps import BudgetState, Measure

METHOD = "price-book:sha256:" + "0" * 64


def build_cost(value: str | int | Decimal, unit: MoneyUnit = "usd") -> Amount:
    return Amount.build(Decimal(value), unit, methods=(METHOD,))


def build_test_charge(cost: str | int | Decimal, tokens: int = 0, *, unit: MoneyUnit = "usd") -> Charge:
    return Charge(cost=build_cost(cost, unit), tokens=tokens)


def build_estimate(
    least: str | int, most: str | int, *, tokens: tuple[int, int] = (0, 0), unit: MoneyUnit = "usd"
) -> RequestEstimate:
    return RequestEstimate(
        least=build_test_charge(least, tokens[0], unit=unit),
        most=build_test_charge(most, tokens[1], unit=unit),
        output_bound_tokens=tokens[1] - tokens[0],
        bound_source="request",
    )


def get_measure(state: BudgetState, measure: Measure) -> MeasureState:
    return next(found for found in state.measures if found.measure == measure)


def read_book(data: bytes) -> PriceBook:
    """A price book from its bytes, read as a file named `prices.csv`."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "prices.csv"
        path.write_bytes(data)
        return load_price_book(path)
