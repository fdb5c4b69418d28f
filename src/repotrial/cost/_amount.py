"""Amounts: exact decimals that know their unit, their method and how far to trust them (P21, P22)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from decimal import ROUND_CEILING, Context, Decimal, DivisionByZero, Inexact, InvalidOperation, Overflow
from typing import Annotated, Literal, Self, TypeAlias

import msgspec

from repotrial._core.canonical import decimal_text
from repotrial._core.errors import ErrorCode, UsageError

_PATTERN = r"^(0|[1-9][0-9]{0,23})(\.[0-9]{0,23}[1-9])?$(?!\n)"
_CANONICAL = re.compile(_PATTERN)

AmountText = Annotated[str, msgspec.Meta(pattern=_PATTERN)]
"""A decimal that is not negative, in its one spelling: up to 24 digits on each side of the point."""

MoneyUnit: TypeAlias = Literal["usd", "units"]
"""US dollars, or the abstract units of a fallback schedule; nothing converts one into the other."""

Basis: TypeAlias = Literal["reported", "bound", "estimated"]
"""From what was reported, the most that it can have been given that, or from what we counted ourselves."""

_BASES: tuple[Basis, ...] = ("reported", "bound", "estimated")

# The digits of any sum or product of ours fit: a caller's decimal context can neither round nor be changed.
_EXACT = Context(prec=200, traps=[Inexact, InvalidOperation, DivisionByZero, Overflow])
_UPWARDS = Context(prec=200, rounding=ROUND_CEILING, traps=[InvalidOperation, DivisionByZero, Overflow])
_LAST_PLACE = Decimal(1).scaleb(-24)


MIXED_UNITS = ErrorCode(
    "mixed-units",
    UsageError,
    "Amounts in different units were added or compared: dollars and abstract units have no rate.",
    hint="price the whole study with one price book, or all of it with the fallback schedule",
)


class Amount(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag="amount", tag_field="kind"
):
    """What something costs, or costs at most."""

    value: AmountText
    """Exact, as decimal text."""
    unit: MoneyUnit
    """Of what."""
    methods: tuple[str, ...]
    """How it was computed, sorted: `price-book:sha256:…`, `fallback:1`; a declared limit has none."""
    basis: Basis = "reported"
    """The weakest basis of any of its parts."""

    def __post_init__(self) -> None:
        if not _CANONICAL.fullmatch(self.value):
            raise ValueError(f"expected a canonical decimal that is not negative, found {self.value!r}")

    @property
    def decimal(self) -> Decimal:
        """The value as a number."""
        return Decimal(self.value)

    def __add__(self, other: Amount) -> Amount:
        """The exact sum.

        Raises:
            MIXED_UNITS: the units differ.
        """
        if self.unit != other.unit:
            raise MIXED_UNITS.error(f"expected an amount in {self.unit}, found one in {other.unit}")
        return Amount.build(
            add_exactly(self.decimal, other.decimal),
            self.unit,
            methods=(*self.methods, *other.methods),
            basis=weakest_basis((self.basis, other.basis)),
        )

    @classmethod
    def build(
        cls, value: Decimal, unit: MoneyUnit, *, methods: Iterable[str] = (), basis: Basis = "reported"
    ) -> Self:
        """An amount in canonical form.

        Raises:
            ValueError: the value is negative, not finite, or has more than 24 digits on a side of the point.
        """
        text = decimal_text(value)
        return cls(value=text, unit=unit, methods=tuple(sorted(set(methods))), basis=basis)


def weakest_basis(bases: Iterable[Basis]) -> Basis:
    """What can be said of a sum whose parts have these bases."""
    return _BASES[max(map(_BASES.index, bases), default=0)]


def add_exactly(*values: Decimal) -> Decimal:
    """The sum, whatever decimal context the caller's thread has set."""
    total = Decimal(0)
    for value in values:
        total = _EXACT.add(total, value)
    return total


def scale_price(unit_price: Decimal, quantity: int, per: int) -> Decimal:
    """The price of `quantity` where `per` of them cost `unit_price`; rounded up at the 24th decimal place.

    For every `per` that is a power of ten the result is exact: only minutes and hours ever round.
    """
    product = _EXACT.multiply(unit_price, Decimal(quantity))
    return _UPWARDS.quantize(_UPWARDS.divide(product, Decimal(per)), _LAST_PLACE)
