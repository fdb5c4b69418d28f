"""Grades as bars: lengths for a drawing, numbers for the words beside it."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from repotrial._core.absence import NotComputable
from repotrial.score import Graded, WeightRange

_UNITS = 1000
_PLACES = Decimal("0.001")


class DimensionBar(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension."""

    name: str
    value: str | NotComputable
    weight: str
    declared_weight: str
    why: str
    length: int


class RangeBar(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where s can go."""

    name: str
    minimum: str
    maximum: str
    x: int
    width: int


class GradePage(msgspec.Struct, frozen=True, kw_only=True):
    """All of it, on a scale from 0 to `units`."""

    units: int
    score: str
    place: int
    dimensions: tuple[DimensionBar, ...]
    ranges: tuple[RangeBar, ...]


def build_grade_page(graded: Graded | NotComputable) -> GradePage | NotComputable:
    """The grades of a run that passed all gates."""
    if isinstance(graded, NotComputable):
        return graded
    sensitivity = graded.sensitivity
    return GradePage(
        units=_UNITS,
        score=_round(graded.score),
        place=_scale(graded.score),
        dimensions=tuple(
            DimensionBar(
                name=dimension.name,
                value=_round(dimension.value) if isinstance(dimension.value, str) else dimension.value,
                weight=_round(dimension.weight),
                declared_weight=_round(dimension.declared_weight),
                why=dimension.why,
                length=_scale(dimension.value) if isinstance(dimension.value, str) else 0,
            )
            for dimension in graded.dimensions
        ),
        ranges=(
            _build_range(f"weights moved by at most {sensitivity.perturbation}", sensitivity.perturbed),
            _build_range("any weights that sum to 1", sensitivity.simplex),
        ),
    )


def _build_range(name: str, found: WeightRange) -> RangeBar:
    start, end = _scale(found.minimum), _scale(found.maximum)
    return RangeBar(
        name=name,
        minimum=_round(found.minimum),
        maximum=_round(found.maximum),
        x=min(start, _UNITS - 8),
        width=max(8, end - start),
    )


def _round(text: str) -> str:
    return f"{Decimal(text).quantize(_PLACES):f}".rstrip("0").rstrip(".") or "0"


def _scale(text: str) -> int:
    return int(min(max(Decimal(0), Decimal(text)), Decimal(1)) * _UNITS)
