"""The fallback schedule: abstract units where there is no price (P21)."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from repotrial.cost._amount import Amount, AmountText, Basis, add_exactly, build_amount, scale_price

_SECOND_US = 1_000_000


class FallbackSchedule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Coefficients that stay constant within a study; whoever changes one changes the version."""

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
        return build_amount(value, "units", methods=(self.method,), basis=basis)


FALLBACK = FallbackSchedule(
    version="1",
    per_request="1",
    per_output_token="0.001",  # noqa: S106 - no password, a price
    per_tool_call="0.1",
    per_second="0.01",
    per_stored_byte="0.0000001",
)
"""The schedule in force; a test holds these numbers to this version."""
