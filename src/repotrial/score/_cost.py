"""The cost field (S13): what a run consumed; never part of a score."""

from __future__ import annotations

from repotrial._core.absence import Unknown
from repotrial._core.canonical import Count
from repotrial.score._document import Document
from repotrial.score._evidence import Evidence
from repotrial.trace import DecimalText

__all__ = ["Cost", "build_cost"]

_SIGNALS: dict[str, tuple[str, ...]] = {
    "cost_usd": ("cost_usd",),
    "tokens": ("tokens",),
    "tool_calls": ("tool_calls",),
    "failed_check_cycles": ("failed_check_cycles",),
    "wall_us": ("wall_us",),
    "cpu_us": ("cpu_us",),
    "human_us": ("human_us", "human_wall_us"),
}


class Cost(Document, frozen=True, kw_only=True):
    """Consumption of the agent, as the termination states it (B2, B16)."""

    cost_usd: DecimalText | Unknown
    """Money."""
    tokens: Count | Unknown
    """Tokens of all model calls."""
    tool_calls: Count | Unknown
    """Calls of tools."""
    failed_check_cycles: Count | Unknown
    """Failing test runs in a row."""
    wall_us: Count | Unknown
    """Time by the clock."""
    cpu_us: Count | Unknown
    """Processor time."""
    human_us: Count | Unknown
    """A person's time."""
    method: str | Unknown
    """How the money was projected (P22)."""


def build_cost(evidence: Evidence) -> Cost:
    """What the signals of the termination say; what they do not say is not known."""
    termination = evidence.termination
    signals = {} if termination is None else {s.name: s.value for s in termination.event.signals}
    values: dict[str, int | str | Unknown] = {}
    for field, names in _SIGNALS.items():
        value = next((signals[name] for name in names if name in signals), None)
        if value is None:
            values[field] = Unknown(reason="the termination does not state it")
        elif field == "cost_usd":
            values[field] = str(value)
        elif isinstance(value, int) and value >= 0:
            values[field] = value
        else:
            values[field] = Unknown(reason=f"expected a count, found {value}")
    is_priced = isinstance(values["cost_usd"], str)
    method: str | Unknown = (
        "as the termination states it" if is_priced else Unknown(reason="no cost was stated")
    )
    return Cost(method=method, **values)  # type: ignore[arg-type]  # each field has its own kind of value
