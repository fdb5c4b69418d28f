"""The cost field (S13): what a run consumed; never part of a score."""

from __future__ import annotations

from repotrial._core.absence import Unknown
from repotrial._core.canonical import Count, DecimalText
from repotrial.score._document import Document
from repotrial.score._evidence import Evidence
from repotrial.trace import Manifest

_SIGNALS: dict[str, tuple[str, ...]] = {
    "cost_usd": ("cost_usd",),
    "cost_units": ("cost_units",),
    "tokens": ("tokens",),
    "tool_calls": ("tool_calls",),
    "failed_check_cycles": ("failed_check_cycles",),
    "wall_us": ("wall_us",),
    "cpu_us": ("cpu_us",),
    "human_us": ("human_us", "human_wall_us"),
}
_OF_MODELS = frozenset({"cost_usd", "cost_units", "tokens"})


class Cost(Document, frozen=True, kw_only=True):
    """Consumption of the agent, as the termination states it (B2, B16)."""

    cost_usd: DecimalText | Unknown
    """Money."""
    cost_units: DecimalText | Unknown
    """Abstract units, of models that have no price (P21)."""
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
            values[field] = Unknown(reason=_explain(field, evidence))
        elif field in {"cost_usd", "cost_units"}:
            values[field] = str(value)
        elif isinstance(value, int) and value >= 0:
            values[field] = value
        else:
            values[field] = Unknown(reason=f"expected a count, found {value}")
    return Cost(method=_find_method(evidence, values), **values)  # type: ignore[arg-type]  # of many kinds


def _explain(field: str, evidence: Evidence) -> str:
    """Why something is not stated."""
    manifest = evidence.manifest
    if field in _OF_MODELS and isinstance(manifest, Manifest) and manifest.configuration.models is None:
        return "asks no model"
    return "the termination does not state it"


def _find_method(evidence: Evidence, values: dict[str, int | str | Unknown]) -> str | Unknown:
    """How the cost was projected (P22)."""
    if not any(isinstance(values[field], str) for field in ("cost_usd", "cost_units")):
        return Unknown(reason="no cost was stated")
    manifest = evidence.manifest
    models = manifest.configuration.models if isinstance(manifest, Manifest) else None
    return "as the termination states it" if models is None else models.price_method
