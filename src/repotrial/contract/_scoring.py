"""Scoring parameters (S6, C15): published with the contract, apart from its version id."""

from __future__ import annotations

import msgspec

from repotrial.contract._types import Document, Identifier, Positive, Share


class ChangeEnvelope(Document, frozen=True, kw_only=True):
    """The size of change that costs nothing."""

    lines: Positive
    """Lines added and removed together."""
    files: Positive
    """Files touched."""


class DimensionWeights(Document, frozen=True, kw_only=True):
    """Weights of the graded dimensions; they sum to 1."""

    minimal: Share
    """How small the change is."""
    trace: Share
    """Whether all provenance is there."""
    maintainable: Share
    """Whether the maintainability checks hold."""


class InterfaceWeights(Document, frozen=True, kw_only=True):
    """Weights of the general score interface (C15)."""

    ok: Share = Share("1")
    """w_ok: the contract is satisfied."""
    value: Share = Share("0")
    """w_val: the value of the change."""
    violation: Share = Share("0")
    """w_viol: the price of violations."""


class Scoring(Document, frozen=True, kw_only=True):
    """How a run that passes all gates is graded."""

    decay: Share = msgspec.field(name="lambda", default=Share("0.5"))
    """λ of q_minimal = exp(-λ·d)."""
    envelope: ChangeEnvelope = ChangeEnvelope(lines=60, files=3)
    """The size of change that costs nothing."""
    weights: DimensionWeights = DimensionWeights(
        minimal=Share("0.4"), trace=Share("0.3"), maintainable=Share("0.3")
    )
    """Weights of the graded dimensions (S6)."""
    interface: InterfaceWeights = InterfaceWeights()
    """Weights of the general score interface (C15)."""
    maintainability: tuple[Identifier, ...] = ()
    """Ids of the checks that define q_maint."""
