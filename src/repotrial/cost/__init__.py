"""What runs consume and what it costs: usage, prices, amounts that know their source (P21, P22, B1-B4)."""

from __future__ import annotations

from repotrial.cost._amount import Amount
from repotrial.cost._book import ModelPrices, PriceBook
from repotrial.cost._book_file import load_price_book
from repotrial.cost._budget import Budget, Reservation
from repotrial.cost._caps import RUN_CAP, Caps, Exhausted, MeasureState, Parent
from repotrial.cost._ledger import EnvelopeLimits, Ledger, load_ledger_state
from repotrial.cost._ledger_state import EnvelopeState
from repotrial.cost._statement import CostStatement, Metered, MeteredExchange
from repotrial.cost._tariff import Charge, Estimate, Tariff, Usage, estimate_usage

__all__ = [
    "RUN_CAP",
    "Amount",
    "Budget",
    "Caps",
    "Charge",
    "CostStatement",
    "EnvelopeLimits",
    "EnvelopeState",
    "Estimate",
    "Exhausted",
    "Ledger",
    "MeasureState",
    "Metered",
    "MeteredExchange",
    "ModelPrices",
    "Parent",
    "PriceBook",
    "Reservation",
    "Tariff",
    "Usage",
    "estimate_usage",
    "load_ledger_state",
    "load_price_book",
]
