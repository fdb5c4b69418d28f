"""The source of a model's answers, and whether a provider was paid for them."""

from __future__ import annotations

from decimal import Decimal

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.display import shorten_digests
from repotrial.contract import RunSpec
from repotrial.score._card import ScoreCard
from repotrial.score._evidence import Evidence

_PROVIDER = "provider "


class ModelSource(msgspec.Struct, frozen=True, kw_only=True):
    """What answered under the name of a model."""

    words: str
    """A provider, a script or a recording; digests shortened."""
    is_notional: bool
    """Whether costs are what the model would have cost: no provider was asked or paid."""

    @property
    def remark(self) -> str:
        """The same, with what it means for the cost."""
        return f"{self.words} (cost notional)" if self.is_notional else self.words


def find_upstream(evidence: Evidence) -> str | None:
    """Who answered, as the run recorded it; None if no model was to be asked."""
    if not isinstance(evidence.spec, RunSpec):
        return None
    upstream = evidence.spec.agent.parameters.get("upstream")
    return upstream if isinstance(upstream, str) else None


def describe_model_source(upstream: str) -> ModelSource:
    """What a run recorded about who answered, for people."""
    return ModelSource(words=shorten_digests(upstream), is_notional=not upstream.startswith(_PROVIDER))


def is_notional(upstream: str | None) -> bool:
    """Whether a script or a recording answered, so that no provider was paid."""
    return upstream is not None and describe_model_source(upstream).is_notional


def describe_answered_by(upstream: str | None) -> str:
    """Who answered, and what that makes of the cost; a dash if no model was to be asked."""
    return "-" if upstream is None else describe_model_source(upstream).remark


def describe_cost(card: ScoreCard, upstream: str | None) -> str | Unknown:
    """What models cost, and whether that is notional."""
    cost = card.cost
    tokens = "" if isinstance(cost.tokens, Unknown) else f", {cost.tokens:,} tokens"
    notional = ""
    if upstream is not None and (found := describe_model_source(upstream)).is_notional:
        notional = f" (notional: a {found.words.partition(' ')[0]} answered, nobody was paid)"
    if not isinstance(cost.cost_usd, Unknown):
        return f"{_round(cost.cost_usd)} USD{notional}{tokens}"
    units = cost.cost_units
    return cost.cost_usd if isinstance(units, Unknown) else f"{units} abstract units{notional}{tokens}"


def _round(text: str) -> str:
    value = Decimal(text)
    return f"{value:,.2f}" if value >= 1 or not value else f"{value:.4f}"
