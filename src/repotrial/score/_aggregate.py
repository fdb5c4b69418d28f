"""Many runs added up: rates with named denominators (P5, S7), and what they took (S13, B2)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Literal, NamedTuple

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.canonical import Count, DecimalText, decimal_text
from repotrial._core.digest import Digest
from repotrial._core.display import shorten_version
from repotrial._core.errors import ErrorCode, UsageError
from repotrial.score._card import AgentIdentity, ScoreCard
from repotrial.score._evidence import Document, Line
from repotrial.score._gates import Invalid, Scorable
from repotrial.score._graded import Graded

_ABSENT = "-"
_US_PER_SECOND = 1_000_000


class EffortTotal(msgspec.Struct, frozen=True, kw_only=True):
    """A sum over the runs whose record states the quantity."""

    value: str
    """Decimal text."""
    runs: int
    """How many runs state it."""


class AgentEffort(msgspec.Struct, frozen=True, kw_only=True):
    """What one agent's runs took; what no record states is not computable, and no zero."""

    cost_usd: EffortTotal | NotComputable
    """Models, in money."""
    cost_units: EffortTotal | NotComputable
    """Models that have no price, in abstract units."""
    tokens: EffortTotal | NotComputable
    """Of all model calls."""
    tool_calls: EffortTotal | NotComputable
    """Calls of tools."""
    wall_us: EffortTotal | NotComputable
    """The agent's time by the clock, in microseconds."""
    tags: dict[str, int]
    """Failure modes, the most frequent first, with the number of runs that have them."""

    def describe(self, *, attempted: int, success: int) -> tuple[EffortFigure, ...]:
        """What the runs took, in words: cost in all, a run and a success; otherwise means of a run."""
        totals = [
            (Decimal(total.value), total.runs, unit)
            for total, unit in ((self.cost_usd, "USD"), (self.cost_units, "units"))
            if isinstance(total, EffortTotal)
        ]
        # A unit in which nothing was spent says nothing beside one in which something was.
        spent = [item for item in totals if item[0]] or totals[:1]
        stated = max((runs for _, runs, _ in spent), default=attempted)
        missing = f" ({stated} of {attempted} runs say)" if stated < attempted else ""
        of_success = [f"{_round(value / success)} {unit}" for value, _, unit in spent if success]
        return (
            EffortFigure("models", _join(f"{_round(value)} {unit}" for value, _, unit in spent) + missing),
            EffortFigure("a run", _join(f"{_round(value / runs)} {unit}" for value, runs, unit in spent)),
            EffortFigure("a success", _join(of_success) if success or not spent else "no success"),
            EffortFigure("tokens", _describe_mean(self.tokens, "{:,.0f}")),
            EffortFigure("tool calls", _describe_mean(self.tool_calls, "{:,.1f}")),
            EffortFigure("time", _describe_mean(self.wall_us, "{:,.1f} s", scale=_US_PER_SECOND)),
            EffortFigure("what went wrong (runs)", _join_tags(self.tags)),
        )


class EffortFigure(NamedTuple):
    """One of the figures of an agent for people; tables and pages take their columns from here."""

    heading: str
    text: str
    """A dash if no record states it."""


def build_effort(cards: Sequence[ScoreCard]) -> AgentEffort:
    """Add up what the score cards of one agent say."""
    costs = [card.cost for card in cards]
    tags = Counter(name for card in cards for name in {tag.id for tag in card.tags})
    return AgentEffort(
        cost_usd=_add_up(cost.cost_usd for cost in costs),
        cost_units=_add_up(cost.cost_units for cost in costs),
        tokens=_add_up(cost.tokens for cost in costs),
        tool_calls=_add_up(cost.tool_calls for cost in costs),
        wall_us=_add_up(cost.wall_us for cost in costs),
        tags=dict(sorted(tags.items(), key=lambda item: (-item[1], item[0]))),
    )


def _add_up(values: Iterable[str | int | Unknown]) -> EffortTotal | NotComputable:
    stated = [Decimal(value) for value in values if not isinstance(value, Unknown)]
    if not stated:
        return NotComputable("no run's record states it")
    return EffortTotal(value=f"{sum(stated):f}", runs=len(stated))


def _join_tags(tags: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number}" for name, number in tags.items()) or _ABSENT


def _join(parts: Iterable[str]) -> str:
    return " + ".join(parts) or _ABSENT


def _round(value: Decimal) -> str:
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.4f}"


def _describe_mean(total: EffortTotal | NotComputable, form: str, *, scale: int = 1) -> str:
    if isinstance(total, NotComputable):
        return _ABSENT
    return form.format(Decimal(total.value) / total.runs / scale)


_CONTEXT = Context(prec=28, rounding=ROUND_HALF_EVEN)
_PLACES = Decimal("0.000001")

ERROR_TREATMENT = (
    "Over all planned runs, every one that is no success counts 0: failures, acceptance errors, invalid and "
    "indeterminate runs alike. A planned run counts by its first attempt that is not excused; an attempt is "
    "excused by its cause alone, and the number of such attempts stands beside the rate."
)


MIXED_VERSIONS = ErrorCode(
    "mixed-versions",
    UsageError,
    "Runs of different versions of one contract were to be counted together.",
    hint="choose one with --contract ID@VERSION, or count them together with --pool-versions: the result "
    "is then labeled as pooled",
)


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
    agent_label: Line
    """The same as all tables of a summary name it; it tells agents of one name apart."""
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
    """Successes over planned runs, all of them; indeterminate ones count 0."""
    indeterminate: Count = 0
    """Planned runs whose attempts are all excused, or whose record is sealed by no key that is believed."""
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
    """Whether versions of one contract were counted together, because that was asked for."""
    label: Line
    """What the reader must know about the rows."""
    error_treatment: Line
    """How errors enter the rates (P5)."""
    by_version: tuple[AggregateRow, ...]
    """By agent and contract version (by agent and contract, where versions are pooled)."""
    by_agent: tuple[AggregateRow, ...]
    """By agent, over all contracts."""


def build_aggregate(
    by_agent: Mapping[str, Sequence[ScoreCard]],
    *,
    indeterminate: Mapping[str, Sequence[ScoreCard]] | None = None,
    pool_versions: bool = False,
    provisional: str | None = None,
) -> Aggregate:
    """Count runs by agent and contract version.

    Args:
        by_agent: The runs of each agent, by its label. Who is one agent is for the caller to say: a card does
            not tell who answered for the model.
        indeterminate: Planned runs of which nothing can be believed, each by one of its cards.
        pool_versions: Whether versions of one contract may be counted together.
        provisional: Why the rows are provisional; None if they are not.

    Raises:
        MIXED_VERSIONS: one contract occurs in several versions, and pooling was not asked for.
    """
    open_runs = {label: [*(indeterminate or {}).get(label, ())] for label in by_agent}
    whole = {label: [*cards, *open_runs[label]] for label, cards in by_agent.items()}
    left = {id(card) for cards in open_runs.values() for card in cards}
    mixed = _find_mixed(card for cards in whole.values() for card in cards)
    if mixed and not pool_versions:
        found = ", ".join(
            f"{name}@{shorten_version(version)}" for name in mixed for version in sorted(mixed[name])
        )
        raise MIXED_VERSIONS.error(f"expected one version of each contract, found {found}")
    is_pooled = bool(mixed)
    versions = "POOLED over several versions of: " + ", ".join(mixed) if is_pooled else "one version of each"
    return Aggregate(
        is_pooled=is_pooled,
        label="; ".join(filter(None, (versions if is_pooled else f"{versions} contract", provisional))),
        error_treatment=ERROR_TREATMENT,
        by_version=tuple(
            _build_row(label, group, left, is_by_agent=False)
            for label, cards in whole.items()
            for group in _group_by_contract(cards)
        ),
        by_agent=tuple(_build_row(label, cards, left, is_by_agent=True) for label, cards in whole.items()),
    )


def _find_mixed(cards: Iterable[ScoreCard]) -> dict[str, set[str]]:
    versions: dict[str, set[str]] = {}
    for card in cards:
        if isinstance(card.identity.contract_id, str) and isinstance(card.identity.contract_version_id, str):
            versions.setdefault(card.identity.contract_id, set()).add(card.identity.contract_version_id)
    return {name: found for name, found in sorted(versions.items()) if len(found) > 1}


def _group_by_contract(cards: Iterable[ScoreCard]) -> Iterator[list[ScoreCard]]:
    groups: dict[str, list[ScoreCard]] = {}
    for card in cards:
        name = card.identity.contract_id
        groups.setdefault(name if isinstance(name, str) else "", []).append(card)
    for _, group in sorted(groups.items()):
        yield group


def _build_row(
    label: str, planned: Sequence[ScoreCard], left: AbstractSet[int], *, is_by_agent: bool
) -> AggregateRow:
    cards = [card for card in planned if id(card) not in left]
    scorable = [card.status for card in cards if isinstance(card.status, Scorable)]
    successes = sum(status.verdict == "success" for status in scorable)
    errors = sum(status.verdict == "acceptance-error" for status in scorable)
    invalid = sum(isinstance(card.status, Invalid) for card in cards)
    faults = sum(status.fault == "machine" for status in scorable)
    graded = [Decimal(card.graded.score) for card in cards if isinstance(card.graded, Graded)]
    versions = {
        c.identity.contract_version_id for c in planned if isinstance(c.identity.contract_version_id, str)
    }
    return AggregateRow(
        agent=planned[0].identity.agent,
        agent_label=label,
        contract_id="all" if is_by_agent else planned[0].identity.contract_id,
        contract_version_ids=tuple(sorted(versions)),
        attempted=len(planned),
        scorable=len(scorable),
        success=_rate(successes, len(scorable), "no run is scorable"),
        acceptance_error=_rate(errors, len(scorable), "no run is scorable"),
        invalid=_rate(invalid, len(planned), "no run was attempted"),
        over_attempted=_rate(successes, len(planned) - faults, "the machine was at fault in every run"),
        over_all=_rate(successes, len(planned), "no run was planned"),
        indeterminate=len(planned) - len(cards),
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
