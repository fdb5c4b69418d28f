"""What a run cost: C = C_LM + C_exec + C_human + C_overhead, from metered quantities (B1, S13)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Self, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial.cost._amount import Amount, add_exactly
from repotrial.cost._tariff import Tariff, TokenUsage

CostTerm: TypeAlias = Amount | Unknown | NotComputable
"""An amount, or why there is none: the quantity was not metered, or nothing prices it."""


class MeteredExchange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An exchange with a model, as it was metered."""

    model: str
    """As the request named it: what was reserved by is settled by."""
    usage: TokenUsage
    """What it consumed."""


class Metered(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a run consumed; null was not metered."""

    exchanges: tuple[MeteredExchange, ...] | None
    """All exchanges with models."""
    exec_wall_us: Count | None
    """Time in which the agent and all checks executed, reruns for adjudication included (B11)."""
    tool_calls: Count | None
    """Tool calls that were executed."""
    human_us: Count | None
    """Time of people, in microseconds."""
    overhead_wall_us: Count | None
    """Time that the harness took beside execution."""
    stored_bytes: Count | None
    """Bytes that are kept of the run."""
    bounds: tuple[Amount, ...] = ()
    """What exchanges were charged that broke off without a report: their declared bounds."""


class CostStatement(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Four terms and their sum; no verdict depends on it."""

    lm: CostTerm
    """Exchanges with models."""
    exec: CostTerm
    """Execution."""
    human: CostTerm
    """People."""
    overhead: CostTerm
    """The harness, and what is kept."""
    total: Amount | NotComputable
    """The sum, where all four are there and in one unit."""
    book_digest: Digest | None
    """The price book; null if there is none."""
    fallback_version: str
    """The schedule that prices what the book does not, where the policy allows it."""

    @classmethod
    def build(cls, tariff: Tariff, metered: Metered) -> Self:
        """Price what a run consumed."""
        terms = {
            "lm": _price_lm(tariff, metered.exchanges, metered.bounds),
            "exec": _price_execution(tariff, metered.exec_wall_us, metered.tool_calls),
            "human": _price_actions(tariff, {"human:minute": metered.human_us}),
            "overhead": _price_overhead(tariff, metered.overhead_wall_us, metered.stored_bytes),
        }
        return cls(
            **terms,
            total=_add_terms(terms),
            book_digest=None if tariff.book is None else tariff.book.digest,
            fallback_version=tariff.fallback.version,
        )

    def add_time(self) -> Decimal:
        """Execution, people and overhead together; a term that has no amount adds nothing (`unpriced`)."""
        terms = (self.exec, self.human, self.overhead)
        return add_exactly(*(term.decimal for term in terms if isinstance(term, Amount)))

    @property
    def unpriced(self) -> tuple[str, ...]:
        """Terms that happened and have no amount: they are in no budget."""
        terms = {"exec": self.exec, "human": self.human, "overhead": self.overhead}
        return tuple(name for name, term in terms.items() if not isinstance(term, Amount))


def _price_lm(
    tariff: Tariff, exchanges: Iterable[MeteredExchange] | None, bounds: tuple[Amount, ...]
) -> CostTerm:
    if exchanges is None:
        return Unknown("exchanges with models were not metered")
    amounts = [*bounds]
    for exchange in exchanges:
        amount = tariff.price_exchange(exchange.model, exchange.usage)
        if isinstance(amount, NotComputable):
            return amount
        amounts.append(amount)
    if len({amount.unit for amount in amounts}) > 1:
        return NotComputable("some models are priced in usd, others in units")
    return sum(amounts[1:], start=amounts[0]) if amounts else _build_zero(tariff)


def _price_execution(tariff: Tariff, wall_us: int | None, tool_calls: int | None) -> CostTerm:
    if tariff.book is not None:
        actions = {"exec:wall": wall_us}
        # Most books price time alone; a book that prices calls needs their number.
        if "exec:tool-call" in tariff.book.actions:
            actions["exec:tool-call"] = tool_calls
        return _price_actions(tariff, actions)
    if wall_us is None or tool_calls is None:
        return Unknown("execution was not metered")
    return tariff.fallback.price_execution(tool_calls=tool_calls, wall_us=wall_us)


def _price_overhead(tariff: Tariff, wall_us: int | None, stored_bytes: int | None) -> CostTerm:
    if tariff.book is not None:
        return _price_actions(tariff, {"overhead:wall": wall_us, "storage:byte": stored_bytes})
    if wall_us is None or stored_bytes is None:
        return Unknown("overhead was not metered")
    time = tariff.fallback.price_execution(tool_calls=0, wall_us=wall_us)
    return time + tariff.fallback.price_storage(stored_bytes)


def _price_actions(tariff: Tariff, quantities: dict[str, int | None]) -> CostTerm:
    values = [Decimal(0)]
    for action, quantity in quantities.items():
        if quantity is None:
            return Unknown(f"{action} was not metered")
        price = None if tariff.book is None else tariff.book.actions.get(action)
        if price is not None:
            values.append(price.apply(quantity))
        elif quantity:
            return NotComputable(f"there was {action}, and nothing prices it")
    zero = _build_zero(tariff)
    return Amount.build(add_exactly(*values), zero.unit, methods=zero.methods)


def _add_terms(terms: dict[str, CostTerm]) -> Amount | NotComputable:
    missing = [name for name, term in terms.items() if not isinstance(term, Amount)]
    if missing:
        return NotComputable(f"there is no amount for {', '.join(missing)}")
    amounts = [term for term in terms.values() if isinstance(term, Amount)]
    if len({amount.unit for amount in amounts}) > 1:
        return NotComputable("some terms are in usd, others in units")
    return sum(amounts[1:], start=amounts[0])


def _build_zero(tariff: Tariff) -> Amount:
    """Nothing, in the tariff's unit."""
    if tariff.book is None:
        return Amount.build(Decimal(0), "units", methods=(tariff.fallback.method,))
    return Amount.build(Decimal(0), "usd", methods=(tariff.book.method,))
