"""Aggregates (P5, S7): categories kept apart, contract versions kept apart, every denominator named."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Literal

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.canonical import Count, decimal_text
from repotrial._core.digest import Digest
from repotrial._core.errors import UsageError
from repotrial.score._card import AgentIdentity, ScoreCard
from repotrial.score._document import Document, Line
from repotrial.score._graded import Graded
from repotrial.score._status import Invalid, Scorable
from repotrial.trace import DecimalText

__all__ = ["Aggregate", "AggregateRow", "MixedVersionsError", "Rate", "build_aggregate"]

_CONTEXT = Context(prec=28, rounding=ROUND_HALF_EVEN)
_PLACES = Decimal("0.000001")

ERROR_TREATMENT = (
    "Over all attempted runs, every run that is no success counts 0: failures, acceptance errors and invalid "
    "runs alike. Left out of that rate are only runs in which a control execution on the same machine showed "
    "that the machine was at fault; their number stands beside it."
)


class MixedVersionsError(UsageError):
    """Runs of different versions of one contract were to be counted together."""

    code = "mixed-versions"
    default_hint = "score one version, or ask for pooling: the result is then labeled as pooled"


class Rate(Document, frozen=True, kw_only=True):
    """A share, with what it was taken of."""

    count: Count
    """Numerator."""
    of: Count
    """Denominator."""
    value: DecimalText | NotComputable
    """Their quotient, six places."""


class AggregateRow(Document, frozen=True, kw_only=True):
    """One agent on one contract version, or on all of them together."""

    agent: AgentIdentity | Unknown
    """Who worked."""
    contract_id: str | Unknown
    """The contract; `all` in the rows over every contract."""
    contract_version_ids: tuple[Digest, ...]
    """The versions that were counted; several of one contract only where pooling was asked for."""
    attempted: Count
    """Runs."""
    scorable: Count
    """Runs of which something can be said."""
    success: Rate
    """Successes over scorable runs."""
    acceptance_error: Rate
    """Acceptance errors over scorable runs."""
    invalid: Rate
    """Invalid runs over attempted runs."""
    over_attempted: Rate
    """Successes over attempted runs, those without machine faults."""
    over_all: Rate
    """Successes over attempted runs, all of them."""
    machine_faults: Count
    """Acceptance errors that a control execution lays to the machine."""
    resource_terminations: Count
    """Scorable runs that a resource limit ended."""
    gates_passed: tuple[Count, ...]
    """Over attempted runs: how many passed G1, G2, G3 and G4."""
    mean_graded: DecimalText | NotComputable
    """Mean of s over the runs that pass all gates, and only over those (S7)."""
    graded: Count
    """How many those are."""


class Aggregate(Document, frozen=True, kw_only=True):
    """Many runs."""

    schema: Literal["repotrial/aggregate@1"] = "repotrial/aggregate@1"
    """Which version of this format."""
    is_pooled: bool
    """Whether versions of one contract were counted together, because somebody asked for it."""
    label: Line
    """What the reader must know about the rows."""
    error_treatment: Line
    """How errors enter the rates (P5)."""
    by_version: tuple[AggregateRow, ...]
    """By agent and contract version (by agent and contract, where versions are pooled)."""
    by_agent: tuple[AggregateRow, ...]
    """By agent, over all contracts."""


def build_aggregate(cards: Iterable[ScoreCard], *, pool_versions: bool = False) -> Aggregate:
    """Count runs by agent and contract version.

    Raises:
        MixedVersionsError: one contract occurs in several versions, and pooling was not asked for.
    """
    ordered = list(cards)
    mixed = _find_mixed(ordered)
    if mixed and not pool_versions:
        raise MixedVersionsError(
            f"expected one version of each contract, found several of: {', '.join(mixed)}"
        )
    is_pooled = bool(mixed)
    versions = "POOLED over several versions of: " + ", ".join(mixed) if is_pooled else "one version of each"
    return Aggregate(
        is_pooled=is_pooled,
        label=versions if is_pooled else f"{versions} contract",
        error_treatment=ERROR_TREATMENT,
        by_version=_build_rows(ordered, _key_of_contract),
        by_agent=_build_rows(ordered, _key_of_agent),
    )


def _find_mixed(cards: Sequence[ScoreCard]) -> list[str]:
    versions: dict[str, set[str]] = {}
    for card in cards:
        if isinstance(card.identity.contract_id, str) and isinstance(card.identity.contract_version_id, str):
            versions.setdefault(card.identity.contract_id, set()).add(card.identity.contract_version_id)
    return sorted(name for name, found in versions.items() if len(found) > 1)


def _key_of_agent(card: ScoreCard) -> tuple[str, ...]:
    match card.identity.agent:
        case Unknown():
            return ("", "", "")
        case AgentIdentity(name=name, version=version, model=model):
            return name, *(part if isinstance(part, str) else "" for part in (version, model))


def _key_of_contract(card: ScoreCard) -> tuple[str, ...]:
    return *_key_of_agent(card), card.identity.contract_id if isinstance(
        card.identity.contract_id, str
    ) else ""


def _build_rows(
    cards: Sequence[ScoreCard], key_of: Callable[[ScoreCard], tuple[str, ...]]
) -> tuple[AggregateRow, ...]:
    groups: dict[tuple[str, ...], list[ScoreCard]] = {}
    for card in cards:
        groups.setdefault(key_of(card), []).append(card)
    is_by_agent = key_of is _key_of_agent
    return tuple(_build_row(group, is_by_agent=is_by_agent) for _, group in sorted(groups.items()))


def _build_row(cards: Sequence[ScoreCard], *, is_by_agent: bool) -> AggregateRow:
    scorable = [card.status for card in cards if isinstance(card.status, Scorable)]
    successes = sum(status.verdict == "success" for status in scorable)
    errors = sum(status.verdict == "acceptance-error" for status in scorable)
    invalid = sum(isinstance(card.status, Invalid) for card in cards)
    faults = sum(status.fault == "machine" for status in scorable)
    graded = [Decimal(card.graded.score) for card in cards if isinstance(card.graded, Graded)]
    versions = {
        c.identity.contract_version_id for c in cards if isinstance(c.identity.contract_version_id, str)
    }
    return AggregateRow(
        agent=cards[0].identity.agent,
        contract_id="all" if is_by_agent else cards[0].identity.contract_id,
        contract_version_ids=tuple(sorted(versions)),
        attempted=len(cards),
        scorable=len(scorable),
        success=_rate(successes, len(scorable), "no run is scorable"),
        acceptance_error=_rate(errors, len(scorable), "no run is scorable"),
        invalid=_rate(invalid, len(cards), "no run was attempted"),
        over_attempted=_rate(successes, len(cards) - faults, "the machine was at fault in every run"),
        over_all=_rate(successes, len(cards), "no run was attempted"),
        machine_faults=faults,
        resource_terminations=sum(status.ended_by == "resource" for status in scorable),
        gates_passed=tuple(
            sum(card.gates[place].outcome == "passed" for card in cards) for place in range(4)
        ),
        mean_graded=_mean(graded),
        graded=len(graded),
    )


def _rate(count: int, total: int, why: str) -> Rate:
    if not total:
        return Rate(count=count, of=total, value=NotComputable(reason=why))
    value = _CONTEXT.divide(Decimal(count), Decimal(total)).quantize(_PLACES, context=_CONTEXT)
    return Rate(count=count, of=total, value=decimal_text(value))


def _mean(values: Sequence[Decimal]) -> str | NotComputable:
    if not values:
        return NotComputable(reason="no run passes all gates")
    total = Decimal(0)
    for value in sorted(values):
        total = _CONTEXT.add(total, value)
    mean = _CONTEXT.divide(total, Decimal(len(values)))
    return decimal_text(mean.quantize(_PLACES, context=_CONTEXT))
