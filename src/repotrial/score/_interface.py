"""The general score interface (C15): S = w_ok·[pass] + w_val·V(Δ) - w_viol·P(Viol).

A pure function of the outcome, the change and the violations; nothing else of a trace can reach it, which is
the patch-equivalence invariance. Numbers are decimals in one fixed context (28 digits, half to even), where
every operation used here, `exp` included, is correctly rounded: the same inputs give the same digits on every
machine, whatever context the caller has set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract import ChangeEnvelope, InterfaceWeights, RuleSeverity, Scoring

# No traps: a decay beyond all bounds gives an infinite distance, and exp(-∞) is 0.
_CONTEXT = Context(prec=28, rounding=ROUND_HALF_EVEN, traps=[])
_ZERO, _ONE = Decimal(0), Decimal(1)


SCORE_RANGE = ErrorCode(
    "score-range",
    ContractError,
    "A weight, a parameter or a declared function of the score interface leaves its range.",
    hint="weights and the functions V and P stay within 0 and 1; decay and steps are not negative",
)


class ChangeSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Δ, as far as V may see it."""

    change_digest: Digest
    """Over the canonical form of the change; equal changes have equal digests."""
    is_applicable: bool
    """Whether the change applies cleanly to the snapshot."""
    lines_changed: Count
    files_changed: Count


class CountedViolation(msgspec.Struct, frozen=True, kw_only=True):
    """A rule of the policy that was broken, and how often."""

    rule: str
    severity: RuleSeverity
    count: int = 1


class ScoreInputs(msgspec.Struct, frozen=True, kw_only=True):
    """All that a score may depend on."""

    outcome: Literal["pass", "fail"] | Unknown
    """What the oracle said; an error or an invalid run is `Unknown`, never a failure (P4)."""
    change: ChangeSummary
    violations: tuple[CountedViolation, ...] = ()
    """A collection without an order; entries for the same rule add up."""


ValueFunction: TypeAlias = Callable[[ChangeSummary], Decimal]
"""V: from a change to [0, 1]."""

PenaltyFunction: TypeAlias = Callable[[tuple[CountedViolation, ...]], Decimal]
"""P: from violations, in any order, to [0, 1]."""


class EnvelopeValue(msgspec.Struct, frozen=True, kw_only=True):
    """V = exp(-λ·d), where d is the excess over the envelope; 0 for a change that does not apply.

    d = max(0, lines/envelope.lines - 1) + max(0, files/envelope.files - 1).
    """

    decay: Decimal
    envelope: ChangeEnvelope

    @classmethod
    def from_scoring(cls, scoring: Scoring) -> EnvelopeValue:
        return cls(decay=scoring.decay, envelope=scoring.envelope)

    def __call__(self, change: ChangeSummary) -> Decimal:
        _check_range("λ", self.decay, maximum=None)
        if not change.is_applicable:
            return _ZERO
        distance = _CONTEXT.add(
            _excess(change.lines_changed, self.envelope.lines),
            _excess(change.files_changed, self.envelope.files),
        )
        return _CONTEXT.exp(_CONTEXT.minus(_CONTEXT.multiply(self.decay, distance)))


class SaturatingPenalty(msgspec.Struct, frozen=True, kw_only=True):
    """P = min(1, step · number of violations); 1 as soon as a hard rule was broken."""

    step: Decimal = Decimal("0.1")

    def __call__(self, violations: tuple[CountedViolation, ...]) -> Decimal:
        _check_range("step", self.step, maximum=_ONE)
        if _has_hard(violations):
            return _ONE
        total = sum(violation.count for violation in violations)
        return min(_ONE, _CONTEXT.multiply(self.step, Decimal(total)))


_SATURATING = SaturatingPenalty()


class InterfaceScore(msgspec.Struct, frozen=True, kw_only=True):
    """A score with what it is made of; score = ok + value - violation."""

    score: Decimal
    ok: Decimal
    """w_ok·[pass]."""
    value: Decimal
    """w_val·V(Δ)."""
    violation: Decimal
    """w_viol·P(Viol)."""
    minimum: Decimal
    """-w_viol: no run under these weights scores less."""
    maximum: Decimal
    """w_ok + w_val: no run under these weights scores more."""


def build_interface_score(
    inputs: ScoreInputs,
    weights: InterfaceWeights,
    *,
    value: ValueFunction,
    penalty: PenaltyFunction = _SATURATING,
) -> InterfaceScore | NotComputable:
    """S for one run.

    [pass] holds where the oracle passed and no hard rule was broken, since that fails the contract (C7).

    Raises:
        SCORE_RANGE: a weight is no share, or V or P left [0, 1].
    """
    w_ok, w_val, w_viol = (
        _CONTEXT.plus(_check_range(f"weight {name}", weight, maximum=_ONE))
        for name, weight in (("ok", weights.ok), ("value", weights.value), ("violation", weights.violation))
    )
    if isinstance(inputs.outcome, Unknown):
        return NotComputable(reason=f"the outcome is not known: {inputs.outcome.reason}")
    violations = _normalize(inputs.violations)
    passed = inputs.outcome == "pass" and not _has_hard(violations)
    ok = w_ok if passed else _ZERO
    gain = _CONTEXT.multiply(w_val, _check_range("V", value(inputs.change), maximum=_ONE))
    loss = _CONTEXT.multiply(w_viol, _check_range("P", penalty(violations), maximum=_ONE))
    return InterfaceScore(
        score=_CONTEXT.subtract(_CONTEXT.add(ok, gain), loss),
        ok=ok,
        value=gain,
        violation=loss,
        minimum=_CONTEXT.minus(w_viol),
        maximum=_CONTEXT.add(w_ok, w_val),
    )


def _normalize(violations: Iterable[CountedViolation]) -> tuple[CountedViolation, ...]:
    """One entry for each rule and severity, sorted: P cannot see in which order rules were broken."""
    counts: dict[tuple[str, RuleSeverity], int] = {}
    for violation in violations:
        key = (violation.rule, violation.severity)
        counts[key] = counts.get(key, 0) + violation.count
    return tuple(
        CountedViolation(rule=rule, severity=severity, count=count)
        for (rule, severity), count in sorted(counts.items())
    )


def _has_hard(violations: tuple[CountedViolation, ...]) -> bool:
    return any(violation.severity == "hard" for violation in violations)


def _excess(size: int, free: int) -> Decimal:
    return max(_ZERO, _CONTEXT.subtract(_CONTEXT.divide(Decimal(size), Decimal(free)), _ONE))


def _check_range(name: str, number: Decimal, *, maximum: Decimal | None) -> Decimal:
    if not number.is_finite() or number < 0 or (maximum is not None and number > maximum):
        bound = "0 or more" if maximum is None else f"between 0 and {maximum}"
        raise SCORE_RANGE.error(f"{name}: expected a number {bound}, found {number}")
    return number
