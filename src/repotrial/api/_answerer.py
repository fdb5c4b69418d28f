"""Who answered for a model, in words for people; whole digests stay in what programs read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.absence import Unknown
from repotrial.api._entries import JudgedRun
from repotrial.score import AgentIdentity

if TYPE_CHECKING:
    from repotrial.api._summary import RunsSummary

__all__ = ["describe_answered_by", "describe_model_use", "describe_notional", "is_notional", "shorten_label"]


def shorten_label(label: str) -> str:
    """The name of an agent as people see it: digests by their first digits."""
    from repotrial.report import shorten_digests  # with it comes a template engine

    return shorten_digests(label)


def is_notional(upstream: str | None) -> bool:
    """Whether a script or a recording answered, so that nobody was paid."""
    from repotrial.report import describe_answerer

    return upstream is not None and describe_answerer(upstream).is_notional


def describe_answered_by(upstream: str | None) -> str:
    """Who answered, and what that makes of the cost; a dash where no model was to be asked."""
    from repotrial.report import describe_answerer

    return "-" if upstream is None else describe_answerer(upstream).remark


def describe_model_use(run: JudgedRun) -> str | None:
    """Model, who answered for it, and the cost, in one line; null where no model was to be asked."""
    from repotrial.report import describe_answerer, describe_cost, find_upstream

    upstream = find_upstream(run.evidence)
    if upstream is None:
        return None
    agent = run.card.identity.agent
    model = agent.model if isinstance(agent, AgentIdentity) and isinstance(agent.model, str) else "?"
    cost = describe_cost(run.card, upstream)
    words = f"unknown ({cost.reason})" if isinstance(cost, Unknown) else cost
    who = "asked of" if run.entry.is_unanswered else "answered by"
    return f"model {model}, {who} {describe_answerer(upstream).words}; cost {words}"


def describe_notional(summary: RunsSummary) -> str | None:
    """Whose costs nobody paid; null where all were."""
    names = [shorten_label(found.agent) for found in summary.agents if is_notional(found.upstream)]
    if not names:
        return None
    return (
        f"in the runs of {', '.join(names)} a script or a recording answered for the model: "
        "priced as if its provider had, and nobody was paid"
    )
