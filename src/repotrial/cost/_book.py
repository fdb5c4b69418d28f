"""The price book: what an action costs, by declaration (P21).

A book is a CSV file with the columns `action_type, unit, unit_price, notes`; its identity is the sha256 of
its bytes. Two more columns have a meaning here and may be left out: `above_tokens` and `max_output_tokens`.
All others are kept and not read. Prices are in US dollars.

| action_type | unit | priced quantity |
| --- | --- | --- |
| `model:NAME:input` | token · 1k-tokens · 1M-tokens | input that no cache served |
| `model:NAME:cache-read` | the same | input served from a cache |
| `model:NAME:cache-write-5m` | the same | input written to a cache for five minutes |
| `model:NAME:cache-write-1h` | the same | input written to a cache for an hour |
| `model:NAME:output` | the same | output, reasoning included |
| `exec:wall` | second · minute · hour | time in which agents and checks execute |
| `exec:tool-call` | call | tool calls |
| `human:minute` | second · minute · hour | people's time |
| `overhead:wall` | second · minute · hour | time the harness takes beside execution |
| `storage:byte` | byte · 1MB · 1GB | bytes kept |

**Names.** A request's model is looked up as a whole name first, then by the longest pattern that fits: a NAME
that ends in `*` is a prefix. Rows of one NAME belong together; a model never takes prices from two NAMEs.

**Tiers.** A row with `above_tokens` N holds for requests with more than N input tokens, caches included,
instead of the row of the same action type with the next smaller N. Empty is 0.

**Caches.** A cache kind without a row costs what the next kind costs: an hour's write as a five-minute write,
everything else as `input`. The amount is then marked as estimated.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.digest import Digest
from repotrial.cost._amount import scale_price

TokenKind: TypeAlias = Literal["input", "cache-read", "cache-write-5m", "cache-write-1h", "output"]
"""What tokens are priced by."""

TOKEN_KINDS: tuple[TokenKind, ...] = ("input", "cache-read", "cache-write-5m", "cache-write-1h", "output")

_TOKENS = {"token": 1, "1k-tokens": 1000, "1M-tokens": 1_000_000}
_TIME = {"second": 1_000_000, "minute": 60_000_000, "hour": 3_600_000_000}  # of microseconds
_BYTES = {"byte": 1, "1MB": 1_000_000, "1GB": 1_000_000_000}

MAX_NAME_LENGTH = 200
"""Of models in a book; a request's may be as long as an agent likes."""

ACTION_UNITS: Mapping[str, Mapping[str, int]] = {
    "model": _TOKENS,
    "exec:wall": _TIME,
    "exec:tool-call": {"call": 1},
    "human:minute": _TIME,
    "overhead:wall": _TIME,
    "storage:byte": _BYTES,
}
"""Units by action type, each with how many of the metered quantity it holds (tokens, microseconds, bytes)."""

_SUBSTITUTES: Mapping[TokenKind, tuple[TokenKind, ...]] = {
    "cache-read": ("input",),
    "cache-write-5m": ("input",),
    "cache-write-1h": ("cache-write-5m", "input"),
}


class Price(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a book."""

    unit_price: Decimal
    """In US dollars."""
    per: int
    """How many of the metered quantity that buys."""
    above_tokens: int = 0
    """For requests with more input than this."""
    max_output_tokens: int | None = None
    """What the model can answer at most; None if the book does not say."""
    line: int
    """Where it stands."""
    notes: str = ""
    """As declared."""
    extra: Mapping[str, str] = {}
    """Columns that are kept and not read."""

    def apply(self, quantity: int) -> Decimal:
        """What so much costs."""
        return scale_price(self.unit_price, quantity, self.per)


class ModelPrices(msgspec.Struct, frozen=True, kw_only=True):
    """All rows of one NAME."""

    name: str
    """As the book has it, perhaps a pattern."""
    tiers: Mapping[TokenKind, tuple[Price, ...]]
    """By kind; each in rising order of `above_tokens`, the first from 0."""

    def find_price(self, kind: TokenKind, input_tokens: int) -> Price | None:
        """The row that holds for a request of this size, if the book has that kind."""
        holding = [price for price in self.tiers.get(kind, ()) if price.above_tokens < max(input_tokens, 1)]
        return holding[-1] if holding else None

    def choose_price(self, kind: TokenKind, input_tokens: int) -> tuple[Price, bool]:
        """The row to charge by, and whether it is the kind's own."""
        for candidate in (kind, *_SUBSTITUTES.get(kind, ())):
            if (price := self.find_price(candidate, input_tokens)) is not None:
                return price, candidate == kind
        raise AssertionError("a book has input and output for each of its models")

    @property
    def max_output_tokens(self) -> int | None:
        """What the model can answer at most, as far as the book says."""
        known = [price.max_output_tokens for price in self.tiers["output"]]
        return max((bound for bound in known if bound is not None), default=None)


class PriceBook(msgspec.Struct, frozen=True, kw_only=True):
    """Declared prices; `load_price_book` makes one."""

    digest: Digest
    """Of the file's bytes: the book's identity."""
    models: Mapping[str, ModelPrices]
    """By name or pattern."""
    actions: Mapping[str, Price]
    """Everything that is not a model."""

    @property
    def method(self) -> str:
        """How amounts of this book say where they are from."""
        return f"price-book:{self.digest}"

    def find_model(self, model: str) -> ModelPrices | None:
        """Prices of a model: its own, or those of the longest pattern that fits."""
        if not model.endswith("*") and (own := self.models.get(model)) is not None:
            return own
        for end in range(min(len(model), MAX_NAME_LENGTH), -1, -1):
            if (prices := self.models.get(f"{model[:end]}*")) is not None:
                return prices
        return None
