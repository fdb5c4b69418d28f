"""The verdict on a page: the status in one sentence, the gates in words, the grades as bars."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.display import list_some, neutralize
from repotrial.score import (
    Fault,
    GateResult,
    Graded,
    Invalid,
    InvalidReason,
    Scorable,
    ScoreCard,
    Verdict,
    WeightRange,
)

_UNITS = 1000
_PLACES = Decimal("0.001")


class _DimensionBar(msgspec.Struct, frozen=True, kw_only=True):
    """One dimension."""

    name: str
    value: str | NotComputable
    weight: str
    declared_weight: str
    why: str
    length: int


class _RangeBar(msgspec.Struct, frozen=True, kw_only=True):
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
    dimensions: tuple[_DimensionBar, ...]
    ranges: tuple[_RangeBar, ...]


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
            _DimensionBar(
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


def _build_range(name: str, found: WeightRange) -> _RangeBar:
    start, end = _scale(found.minimum), _scale(found.maximum)
    return _RangeBar(
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


_Tone: TypeAlias = Literal["good", "bad", "open", "void"]
"""What a color stands for; words and icons always say it, too."""

GATE_WORDS: dict[Verdict, tuple[str, str, _Tone]] = {
    "passed": ("✓", "passed", "good"),
    "failed": ("✗", "failed", "bad"),
    "errored": ("!", "no decision", "open"),
}
"""Icon, word and tone of an outcome."""

_MAX_REASON_CHARACTERS = 160
_MOST_CHECKS = 3
_NOT_COMPLETE = "A check did not complete, so the change is neither accepted nor refused."

_FAULTS: dict[Fault, str] = {
    "none": "",
    "change": "Control executions blame the change.",
    "machine": "Control executions blame the machine.",
    "unclear": "Whose fault it is, nothing shows.",
}


class Banner(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict."""

    tone: _Tone
    icon: str
    word: str
    reason: str
    """In one sentence."""
    remark: str = ""
    """What must not be overlooked beside it."""


def build_banner(card: ScoreCard, reasons: Sequence[InvalidReason]) -> Banner:
    """The status as a person would say it; of an invalid run, by its reasons, the most telling one first."""
    match card.status:
        case Invalid():
            more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
            return Banner(
                tone="void",
                icon="∅",
                word="Invalid",
                reason=f"Nothing can be said about success: {reasons[0].message}{more}",
            )
        case Scorable(verdict="success") as status:
            return Banner(
                tone="good",
                icon="✓",
                word="Success",
                reason="All four gates passed.",
                remark=_remark(status),
            )
        case Scorable(verdict="acceptance-error", fault=fault) as status:
            return Banner(
                tone="open",
                icon="!",
                word="Acceptance error",
                reason=f"{_NOT_COMPLETE} {_FAULTS[fault]}",
                remark=_remark(status),
            )
        case Scorable() as status:
            return Banner(
                tone="bad", icon="✗", word="Failure", reason=_explain_failure(card), remark=_remark(status)
            )


def _explain_failure(card: ScoreCard) -> str:
    closed = [gate for gate in card.gates if gate.outcome != "passed"]
    return "; ".join(_explain_gate(gate, card) for gate in closed)


def _explain_gate(gate: GateResult, card: ScoreCard) -> str:
    word = GATE_WORDS[gate.outcome][1]
    counts = [
        f"{check.failing_count:,} failing test{'' if check.failing_count == 1 else 's'} in {check.check}"
        for check in card.checks
        if check.check in gate.checks and check.verdict == "failed" and check.failing_count
    ]
    if counts:
        return f"{gate.gate} {word}: {list_some(counts, most=_MOST_CHECKS)}"
    reasons = [line for line in gate.why if not line.endswith(": passed")] or ["no reason is recorded"]
    return f"{gate.gate} {word}: {neutralize(reasons[0], max_characters=_MAX_REASON_CHARACTERS)}"


def _remark(status: Scorable) -> str:
    if status.ended_by == "resource":
        return "A resource limit ended acting; by itself, that is not an acceptance failure."
    return ""
