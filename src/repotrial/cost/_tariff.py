"""Usage priced by a book or by the fallback schedule: after an exchange, and before a request (P21, P22)."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.canonical import MAX_SAFE_INTEGER, Count, dump_checked
from repotrial._core.digest import Digest, digest_bytes
from repotrial.cost._amount import (
    Amount,
    AmountText,
    Basis,
    MoneyUnit,
    add_exactly,
    scale_price,
    weakest_basis,
)
from repotrial.cost._book import ModelPrices, PriceBook, TokenKind

_SECOND_US = 1_000_000


class FallbackSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Coefficients that stay constant within a study; another coefficient is another version."""

    version: str
    """Names the coefficients."""
    per_request: AmountText
    """For each request to a model."""
    per_output_token: AmountText
    """For each token of its response."""
    per_tool_call: AmountText
    """For each tool call."""
    per_second: AmountText
    """For each second of execution."""
    per_stored_byte: AmountText
    """For each byte that is kept."""

    @property
    def method(self) -> str:
        """How amounts of this schedule say where they are from."""
        return f"fallback:{self.version}"

    @property
    def digest(self) -> Digest:
        """Of all coefficients and their version."""
        return digest_bytes(dump_checked(msgspec.to_builtins(self)))

    def price_request(self, output_tokens: int, *, basis: Basis = "reported") -> Amount:
        """One request, by the length of its response."""
        tokens = scale_price(Decimal(self.per_output_token), output_tokens, 1)
        return self._build(add_exactly(Decimal(self.per_request), tokens), basis)

    def price_execution(self, *, tool_calls: int, wall_us: int) -> Amount:
        """Tool calls and the time that they ran."""
        calls = scale_price(Decimal(self.per_tool_call), tool_calls, 1)
        return self._build(add_exactly(calls, scale_price(Decimal(self.per_second), wall_us, _SECOND_US)))

    def price_storage(self, stored_bytes: int) -> Amount:
        """Bytes that are kept."""
        return self._build(scale_price(Decimal(self.per_stored_byte), stored_bytes, 1))

    def _build(self, value: Decimal, basis: Basis = "reported") -> Amount:
        return Amount.build(value, "units", methods=(self.method,), basis=basis)


FALLBACK = FallbackSchedule(
    version="1",
    per_request="1",
    per_output_token="0.001",  # noqa: S106 - no password, a price
    per_tool_call="0.1",
    per_second="0.01",
    per_stored_byte="0.0000001",
)
"""The schedule in force; a test holds these numbers to this version."""


class TokenUsage(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of one exchange; None is unknown and never zero (P21)."""

    input_uncached: Count | None = None
    """Input that no cache served."""
    cache_read: Count | None = None
    """Input served from a cache."""
    cache_write_5m: Count | None = None
    """Input written to a cache for five minutes."""
    cache_write_1h: Count | None = None
    """Input written to a cache for an hour."""
    output: Count | None = None
    """Output, reasoning included."""
    reasoning: Count | None = None
    """The part of the output that was reasoning."""
    request_input: Count | None = None
    """All input of the request together: price tiers depend on it."""
    basis: Literal["reported", "estimated"] = "reported"
    """Whether the provider said so, or we counted bytes because it did not."""


_INPUT_KINDS: tuple[TokenKind, ...] = ("input", "cache-read", "cache-write-5m", "cache-write-1h")

Positive = Annotated[int, msgspec.Meta(ge=1)]

BoundSource: TypeAlias = Literal["request", "policy-default", "model-maximum", "policy-ceiling"]
"""Whose number the output bound of an estimate is."""


class Tariff(msgspec.Struct, frozen=True, kw_only=True):
    """How a study prices: a book or none, and what becomes of models that it does not have."""

    book: PriceBook | None
    """None prices everything by the fallback schedule."""
    unknown_models: Literal["refuse", "abstract-units"] = "refuse"
    """Of a model that the book does not have; it is never free."""
    fallback: FallbackSchedule = FALLBACK
    """Prices in abstract units."""

    @property
    def unit(self) -> MoneyUnit:
        """Of everything but models that the book does not have."""
        return "units" if self.book is None else "usd"

    @property
    def method(self) -> str:
        """How amounts of this tariff say where they are from (P22)."""
        return self.fallback.method if self.book is None else self.book.method

    def find_prices(self, model: str) -> ModelPrices | FallbackSchedule | NotComputable:
        """What prices this model."""
        if self.book is None:
            return self.fallback
        if (prices := self.book.find_model(model)) is not None:
            return prices
        if self.unknown_models == "abstract-units":
            return self.fallback
        return NotComputable(f"the price book {self.book.digest} has no model {model!r}")

    def price_exchange(self, model: str, usage: TokenUsage) -> Amount | NotComputable:
        """What an exchange cost.

        Unknown kinds of input never become zero: what the request's total leaves for them is charged at the
        dearest of them, and the amount is marked as a bound. Without a total or output there is none.
        """
        prices = self.find_prices(model)
        if isinstance(prices, NotComputable):
            return prices
        if _has_absurd_count(usage):
            return NotComputable("the usage has a count that is negative or beyond 2^53")
        if usage.output is None:
            return NotComputable("the usage does not say how much output there was")
        if isinstance(prices, FallbackSchedule):
            return prices.price_request(usage.output, basis=usage.basis)
        assert self.book is not None
        priced = _price_input(prices, usage)
        if isinstance(priced, NotComputable):
            return priced
        size, value, basis = priced
        output, _ = prices.choose_price("output", size)
        total = add_exactly(value, output.apply(usage.output))
        return Amount.build(total, "usd", methods=(self.book.method,), basis=basis)

    def build_charge(self, model: str, usage: TokenUsage) -> Charge | NotComputable:
        """Cost and tokens of an exchange."""
        cost, tokens = self.price_exchange(model, usage), count_tokens(usage)
        if isinstance(cost, NotComputable):
            return cost
        if isinstance(tokens, NotComputable):
            return tokens
        return Charge(cost=cost, tokens=tokens)

    def estimate_request(
        self,
        model: str,
        *,
        request_bytes: int,
        max_output_tokens: int | None,
        answers: int = 1,
        rules: EstimateRules | None = None,
    ) -> RequestEstimate | NotComputable:
        """What a request can take from a budget.

        Args:
            model: As the request names it.
            request_bytes: Length of its body.
            max_output_tokens: Its own bound for each answer, if it has one.
            answers: How many answers it asks for (`n`, `candidateCount`).
            rules: How bytes become tokens, and what bounds output.
        """
        rules = rules or EstimateRules()
        prices = self.find_prices(model)
        if isinstance(prices, NotComputable):
            return prices
        limit = prices.max_output_tokens if isinstance(prices, ModelPrices) else None
        bound, source = _choose_bound(max_output_tokens, limit, rules)
        bound = min(bound * max(answers, 1), MAX_SAFE_INTEGER)
        tokens = _divide_up(request_bytes, rules.bytes_per_token)
        charges = [
            self.build_charge(model, TokenUsage(request_input=tokens, output=output, basis="estimated"))
            for output in (0, bound)
        ]
        least, most = charges
        assert isinstance(least, Charge)
        assert isinstance(most, Charge)
        if answers > 1:  # one exchange must not pass a cap by a hundred answers
            least = most
        return RequestEstimate(least=least, most=most, output_bound_tokens=bound, bound_source=source)


class EstimateRules(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a request is estimated before it is sent."""

    bytes_per_token: Positive = 4
    """An estimate, not a bound: no tokenizer yields more tokens than bytes, so 1 would be a bound."""
    default_output_tokens: Positive = 32_000
    """The declared output bound of a request that has no maximum of its own."""
    ceiling_output_tokens: Positive = 128_000
    """No reservation is made for more, where the book does not know the model's maximum."""


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """What one exchange takes from a budget."""

    cost: Amount
    """Of the model."""
    tokens: Count
    """Input and output together, caches included."""


class RequestEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """What a request takes from a budget, before it is sent."""

    least: Charge
    """Its input alone, as estimated: what must fit. All of it where the request asks for several answers."""
    most: Charge
    """With as much output as is declared: the declared bound of the exchange."""
    output_bound_tokens: Count
    """The declared output bound, for all answers of the request together."""
    bound_source: BoundSource
    """Where that number is from."""


def count_tokens(usage: TokenUsage) -> int | NotComputable:
    """Input and output together, as far as they are known."""
    size = _size_input(usage)
    if size is None or usage.output is None or _has_absurd_count(usage):
        return NotComputable("the usage does not say how many tokens there were")
    return size + usage.output


def estimate_usage(
    usage: TokenUsage | None, *, request_bytes: int, response_bytes: int, rules: EstimateRules | None = None
) -> TokenUsage:
    """A usage that can be priced: what was not reported, or cannot be, is counted in bytes and marked so."""
    per = (rules or EstimateRules()).bytes_per_token
    known = TokenUsage() if usage is None or _has_absurd_count(usage) else usage
    filled: dict[str, int] = {}
    if _size_input(known) is None:
        filled["request_input"] = max(_divide_up(request_bytes, per), _sum_known(known))
    if known.output is None:
        filled["output"] = max(_divide_up(response_bytes, per), known.reasoning or 0)
    return msgspec.structs.replace(known, **filled, basis="estimated") if filled else known


def _choose_bound(own: int | None, limit: int | None, rules: EstimateRules) -> tuple[int, BoundSource]:
    """The request's maximum, or the default; but no more than the model can answer (or the ceiling).

    Asking for a billion tokens must not end a run: the provider will not give them. It must not make
    a smaller reservation than the model's own maximum, either.
    """
    most = limit or rules.ceiling_output_tokens
    has_own = own is not None and own > 0
    bound = own if own is not None and own > 0 else rules.default_output_tokens
    if bound > most:
        return most, "model-maximum" if limit else "policy-ceiling"
    return bound, "request" if has_own else "policy-default"


def _price_input(prices: ModelPrices, usage: TokenUsage) -> tuple[int, Decimal, Basis] | NotComputable:
    """The request's size (tiers depend on it), what its input costs, and how well that is known."""
    size = _size_input(usage)
    if size is None:
        return NotComputable("the usage says neither all kinds of input nor their total")
    value = Decimal(0)
    bases: list[Basis] = [usage.basis]
    unknown: list[TokenKind] = []
    for kind, count in _kinds(usage).items():
        if count is None:
            unknown.append(kind)
        elif count:
            price, is_own = prices.choose_price(kind, size)
            value = add_exactly(value, price.apply(count))
            bases.append("reported" if is_own else "estimated")
    if rest := size - _sum_known(usage):
        # The most that it can have cost: whichever of the kinds it was.
        chosen = [prices.choose_price(kind, size)[0].apply(rest) for kind in unknown or _INPUT_KINDS]
        value = add_exactly(value, max(chosen))
        bases.append("bound")
    return size, value, weakest_basis(bases)


def _kinds(usage: TokenUsage) -> dict[TokenKind, int | None]:
    counts = (usage.input_uncached, usage.cache_read, usage.cache_write_5m, usage.cache_write_1h)
    return dict(zip(_INPUT_KINDS, counts, strict=True))


def _sum_known(usage: TokenUsage) -> int:
    return sum(count for count in _kinds(usage).values() if count is not None)


def _size_input(usage: TokenUsage) -> int | None:
    """All input of the request; a total that is smaller than its parts is not believed."""
    if usage.request_input is None:
        return None if None in _kinds(usage).values() else _sum_known(usage)
    return max(usage.request_input, _sum_known(usage))


def _has_absurd_count(usage: TokenUsage) -> bool:
    """Whether an upstream claims what cannot be, perhaps to be cheaper."""
    counts = (*_kinds(usage).values(), usage.output, usage.reasoning, usage.request_input)
    return any(count is not None and not 0 <= count <= MAX_SAFE_INTEGER for count in counts)


def _divide_up(number: int, by: int) -> int:
    return -(-number // by)
