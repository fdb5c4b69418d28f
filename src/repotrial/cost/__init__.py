"""What runs consume and what it costs: usage, prices, amounts that know their source (P21, P22, B1-B4)."""

from __future__ import annotations

from repotrial.cost._amount import (
    Amount,
    AmountText,
    Basis,
    MixedUnitsError,
    MoneyUnit,
    build_amount,
    sum_amounts,
)
from repotrial.cost._book import ModelPrices, Price, PriceBook, TokenKind
from repotrial.cost._book_file import (
    BookProblem,
    PriceBookError,
    load_bundled_book,
    load_price_book,
    parse_book,
)
from repotrial.cost._budget import Budget, Reservation
from repotrial.cost._caps import BudgetState, Caps, MeasureState
from repotrial.cost._exhausted import RUN_CAP, Exhausted, Hold, Measure, Parent
from repotrial.cost._fallback import FALLBACK, FallbackSchedule
from repotrial.cost._ledger import (
    EnvelopeConflictError,
    EnvelopeLimits,
    Envelopes,
    Ledger,
    LedgerHold,
    UnknownEnvelopeError,
    load_ledger_state,
    open_envelopes,
)
from repotrial.cost._ledger_file import LedgerBrokenError, LedgerHead, LedgerUnusableError, TornTail
from repotrial.cost._ledger_state import EnvelopeState, LedgerHoldClosedError, LedgerState
from repotrial.cost._pool import ReservationClosedError
from repotrial.cost._statement import (
    CostStatement,
    CostTerm,
    Metered,
    MeteredExchange,
    build_cost_statement,
    estimate_execution,
)
from repotrial.cost._tariff import (
    BoundSource,
    Charge,
    Estimate,
    EstimateRules,
    Tariff,
    build_charge,
    count_tokens,
    estimate_request,
    estimate_usage,
    price_exchange,
)
from repotrial.cost._usage import Usage

__all__ = [
    "FALLBACK",
    "RUN_CAP",
    "Amount",
    "AmountText",
    "Basis",
    "BookProblem",
    "BoundSource",
    "Budget",
    "BudgetState",
    "Caps",
    "Charge",
    "CostStatement",
    "CostTerm",
    "EnvelopeConflictError",
    "EnvelopeLimits",
    "EnvelopeState",
    "Envelopes",
    "Estimate",
    "EstimateRules",
    "Exhausted",
    "FallbackSchedule",
    "Hold",
    "Ledger",
    "LedgerBrokenError",
    "LedgerHead",
    "LedgerHold",
    "LedgerHoldClosedError",
    "LedgerState",
    "LedgerUnusableError",
    "Measure",
    "MeasureState",
    "Metered",
    "MeteredExchange",
    "MixedUnitsError",
    "ModelPrices",
    "MoneyUnit",
    "Parent",
    "Price",
    "PriceBook",
    "PriceBookError",
    "Reservation",
    "ReservationClosedError",
    "Tariff",
    "TokenKind",
    "TornTail",
    "UnknownEnvelopeError",
    "Usage",
    "build_amount",
    "build_charge",
    "build_cost_statement",
    "count_tokens",
    "estimate_execution",
    "estimate_request",
    "estimate_usage",
    "load_bundled_book",
    "load_ledger_state",
    "load_price_book",
    "open_envelopes",
    "parse_book",
    "price_exchange",
    "sum_amounts",
]
