"""Graded dimensions (S6): only where all gates pass, with how much the weights matter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Literal, TypeAlias

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.canonical import Count, DecimalText, decimal_text
from repotrial.contract import Scoring
from repotrial.score._evidence import Document, Evidence, Line
from repotrial.score._interface import ChangeSummary, EnvelopeValue
from repotrial.score._outcomes import CheckResult
from repotrial.score._taxonomy import load_weights

_CONTEXT = Context(prec=28, rounding=ROUND_HALF_EVEN)
_PLACES = Decimal("0.000000001")
_ZERO, _ONE = Decimal(0), Decimal(1)

DimensionName: TypeAlias = Literal["minimal", "trace", "maintainable"]
_NAMES: tuple[DimensionName, ...] = ("minimal", "trace", "maintainable")


class Dimension(Document, frozen=True, kw_only=True):
    """One graded dimension."""

    name: DimensionName
    """Which one."""
    value: DecimalText | NotComputable
    """From 0 to 1."""
    declared_weight: DecimalText
    """The weight that the contract gives it."""
    weight: DecimalText
    """The weight that it had here: those of dimensions that cannot be computed are shared out."""
    why: Line
    """What the value rests on."""


class WeightRange(Document, frozen=True, kw_only=True):
    """Least and most that s can become."""

    minimum: DecimalText
    """Under the least favorable weights."""
    maximum: DecimalText
    """Under the most favorable weights."""


class Sensitivity(Document, frozen=True, kw_only=True):
    """How much s depends on the choice of weights."""

    simplex: WeightRange
    """Over all weights that sum to 1: exact, since s is linear and its extremes lie in the corners."""
    perturbation: DecimalText
    """How far each weight is moved for the next range."""
    perturbed: WeightRange
    """Over all weights within that distance of those used, still not negative and with sum 1: exact."""


class Graded(Document, frozen=True, kw_only=True, tag_field="kind", tag="graded"):
    """s = Σ w·q."""

    score: DecimalText
    """s, from 0 to 1."""
    dimensions: tuple[Dimension, ...]
    """q and w."""
    decay: DecimalText
    """λ of q_minimal."""
    lines_changed: Count
    """Lines added and removed."""
    files_changed: Count
    """Paths touched."""
    envelope_lines: Count
    """Lines that cost nothing."""
    envelope_files: Count
    """Files that cost nothing."""
    sensitivity: Sensitivity
    """How much the weights matter."""


def build_graded(
    evidence: Evidence, scoring: Scoring, change: ChangeSummary, results: Sequence[CheckResult]
) -> Graded:
    """Grade a run that passed all gates."""
    values: dict[DimensionName, tuple[Decimal | NotComputable, str]] = {
        "minimal": _grade_size(scoring, change),
        "trace": _grade_trace(evidence),
        "maintainable": _grade_maintainability(scoring, results),
    }
    declared = {name: getattr(scoring.weights, name) for name in _NAMES}
    known = {name: q for name, (q, _) in values.items() if isinstance(q, Decimal)}
    weights = _share_out(declared, known)
    return Graded(
        score=render_share(_sum(weights, known)),
        dimensions=tuple(
            Dimension(
                name=name,
                value=q if isinstance(q, NotComputable) else render_share(q),
                declared_weight=render_share(declared[name]),
                weight=render_share(weights[name]),
                why=why,
            )
            for name, (q, why) in values.items()
        ),
        decay=decimal_text(scoring.decay),
        lines_changed=change.lines_changed,
        files_changed=change.files_changed,
        envelope_lines=scoring.envelope.lines,
        envelope_files=scoring.envelope.files,
        sensitivity=_build_sensitivity(weights, known),
    )


def render_share(value: Decimal) -> str:
    """A figure of the score, to a fixed number of places: one that vanishes is zero."""
    return decimal_text(value.quantize(_PLACES, context=_CONTEXT))


def _grade_size(scoring: Scoring, change: ChangeSummary) -> tuple[Decimal, str]:
    value = EnvelopeValue.from_scoring(scoring)(change)
    size = f"{change.lines_changed} lines in {change.files_changed} files"
    free = f"{scoring.envelope.lines} lines in {scoring.envelope.files} files"
    return value, f"{size}; {free} cost nothing"


def find_missing_artifacts(evidence: Evidence) -> tuple[str, ...]:
    """Provenance that reproducing the result would need and that is not there; the seal is not among it."""
    patch = evidence.patch
    candidates = [e for e in evidence.facts.executions if e.subject == "candidate"]
    wanted = {
        "manifest.json": not isinstance(evidence.manifest, Unknown),
        "contract.json": not isinstance(evidence.record, Unknown),
        "spec.json": not isinstance(evidence.spec, Unknown),
        "change.patch": not isinstance(evidence.change, Unknown),
        "a trace that holds": not isinstance(evidence.head, Unknown),
        "the briefing": evidence.facts.has_briefing,
        "the digest of the final tree": patch is not None and patch.event.tree_digest is not None,
        "executions of checks": bool(candidates),
        "every event (the byte budget dropped some)": not evidence.facts.dropped_events,
    }
    return tuple(name for name, is_there in wanted.items() if not is_there)


def _grade_trace(evidence: Evidence) -> tuple[Decimal, str]:
    missing = find_missing_artifacts(evidence)
    return (_ZERO, f"missing: {', '.join(missing)}") if missing else (_ONE, "all provenance is there")


def _grade_maintainability(
    scoring: Scoring, results: Sequence[CheckResult]
) -> tuple[Decimal | NotComputable, str]:
    wanted = set(scoring.maintainability)
    own = [result for result in results if result.check in wanted]
    if not own:
        reason = "the contract names no maintainability checks"
        return NotComputable(reason=reason), reason
    # S3 in spirit: a check that hangs must not earn more than one that fails.
    passed = sum(result.verdict == "passed" for result in own)
    return _CONTEXT.divide(Decimal(passed), Decimal(len(own))), f"{passed} of {len(own)} checks pass"


_Vector: TypeAlias = Mapping[DimensionName, Decimal]


def _share_out(declared: _Vector, known: _Vector) -> dict[DimensionName, Decimal]:
    total = sum((declared[name] for name in known), _ZERO)
    if not total:  # all weight lies on what cannot be computed: the rest counts alike
        return {
            name: _CONTEXT.divide(_ONE, Decimal(len(known))) if name in known else _ZERO for name in declared
        }
    return {name: _CONTEXT.divide(declared[name], total) if name in known else _ZERO for name in declared}


def _sum(weights: _Vector, values: _Vector) -> Decimal:
    total = _ZERO
    for name, value in values.items():
        total = _CONTEXT.add(total, _CONTEXT.multiply(weights[name], value))
    return total


def _build_sensitivity(weights: _Vector, values: _Vector) -> Sensitivity:
    distance = load_weights().perturbation
    return Sensitivity(
        simplex=WeightRange(
            minimum=render_share(min(values.values())), maximum=render_share(max(values.values()))
        ),
        perturbation=decimal_text(distance),
        perturbed=WeightRange(
            minimum=render_share(_find_extreme(weights, values, distance, is_maximum=False)),
            maximum=render_share(_find_extreme(weights, values, distance, is_maximum=True)),
        ),
    )


def _find_extreme(weights: _Vector, values: _Vector, distance: Decimal, *, is_maximum: bool) -> Decimal:
    """A linear program with boxes and one sum: fill up the best dimension first."""
    low = {name: max(_ZERO, weights[name] - distance) for name in values}
    left = _ONE - sum(low.values(), _ZERO)
    chosen = dict(low)
    for name in sorted(values, key=lambda item: (values[item], item), reverse=is_maximum):
        room = min(_ONE, weights[name] + distance) - low[name]
        step = min(left, room)
        chosen[name] += step
        left -= step
    return _sum(chosen, values)
