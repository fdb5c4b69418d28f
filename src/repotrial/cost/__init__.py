"""What runs consume and what it costs: usage, prices, amounts that know their source (P21, P22, B1-B4)."""

from __future__ import annotations

from repotrial.cost._amount import Amount
from repotrial.cost._book import ModelPrices, PriceBook
from repotrial.cost._book_file import load_price_book
from repotrial.cost._budget import Reservation, RunBudget
from repotrial.cost._caps import BudgetCaps, Exhausted, Hold, MeasureState, Parent
from repotrial.cost._ledger import EnvelopeLimits, Ledger, LedgerHold, load_ledger_state
from repotrial.cost._ledger_state import EnvelopeState
from repotrial.cost._meter import CHARGED_BOUND, RunMeter, measure_stored
from repotrial.cost._spending import Spending, TimeKind
from repotrial.cost._statement import CostStatement, Metered, MeteredExchange
from repotrial.cost._tariff import Charge, RequestEstimate, Tariff, TokenUsage, estimate_usage

__all__ = [
    "CHARGED_BOUND",
    "Amount",
    "BudgetCaps",
    "Charge",
    "CostStatement",
    "EnvelopeLimits",
    "EnvelopeState",
    "Exhausted",
    "Hold",
    "Ledger",
    "LedgerHold",
    "MeasureState",
    "Metered",
    "MeteredExchange",
    "ModelPrices",
    "Parent",
    "PriceBook",
    "RequestEstimate",
    "Reservation",
    "RunBudget",
    "RunMeter",
    "Spending",
    "Tariff",
    "TimeKind",
    "TokenUsage",
    "estimate_usage",
    "load_ledger_state",
    "load_price_book",
    "measure_stored",
]
