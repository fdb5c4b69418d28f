"""The briefing (P6): what the agent is told, issue and obligations apart, and nothing of the answer."""

from __future__ import annotations

import msgspec

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract import Contract, LoadedContract, lint_contract

_LEAK_CODES = ("reference-in-statement", "check-name-in-statement")


BRIEFING_LEAK = ErrorCode(
    "briefing-leak",
    ContractError,
    "The briefing would give away the reference change or a hidden check.",
    hint="take the lines out of the statement; `repotrial contract check` shows them",
)


class BuiltBriefing(msgspec.Struct, frozen=True, kw_only=True):
    """A briefing in its parts, and as one text."""

    issue: str
    """Title and statement."""
    obligations: tuple[str, ...]
    """What acceptance demands."""
    hints: tuple[str, ...]
    """About tools and the environment."""
    delivered: str
    """All of it, as the agent reads it."""


def build_briefing(contract: Contract, statement: str, further: str | None = None) -> BuiltBriefing:
    """Write the briefing of a contract, and what an agent is told beside; the same words, the same text."""
    issue = f"# {contract.title}\n\n{statement.strip()}\n"
    obligations = (*contract.clarify.behavior, *_list_rules(contract))
    hints = (*_list_places(contract), *contract.clarify.hints, *_list_stages(contract))
    lists = [_render_list("What must hold afterwards", obligations), _render_list("Hints", hints)]
    parts = [issue, *lists, "" if further is None else f"{further.strip()}\n"]
    return BuiltBriefing(
        issue=issue, obligations=obligations, hints=hints, delivered="\n".join(part for part in parts if part)
    )


def verify_no_leak(loaded: LoadedContract) -> None:
    """Refuse to brief an agent with lines of the reference or names of hidden checks.

    Raises:
        BRIEFING_LEAK: the contract's own texts give something away.
    """
    leaks = [problem for problem in lint_contract(loaded) if problem.code in _LEAK_CODES]
    if leaks:
        raise BRIEFING_LEAK.error(f"{loaded.directory}: {leaks[0].message}")


def _list_rules(contract: Contract) -> list[str]:
    """The policy in sentences: an agent that breaks a rule must have been told of it."""
    policy = contract.policy
    rules = []
    if policy.writable != ("**",):
        rules.append(f"Change only files that match: {', '.join(policy.writable)}")
    if policy.protected:
        rules.append(f"Leave these files alone: {', '.join(policy.protected)}")
    for limit, text in (
        (policy.max_files_changed, "Change at most {} files."),
        (policy.max_lines_changed, "Add and remove at most {} lines together."),
    ):
        if limit is not None:
            rules.append(text.format(limit))
    if policy.network == "none":
        rules.append("There is no network.")
    return rules


def _list_places(contract: Contract) -> list[str]:
    clarify = contract.clarify
    places = []
    if clarify.modules:
        places.append(f"The change belongs into: {', '.join(clarify.modules)}")
    if clarify.entry_points:
        places.append(f"Users call: {', '.join(clarify.entry_points)}")
    return places


def _list_stages(contract: Contract) -> list[str]:
    if contract.policy.stages != "explicit":
        return []
    return [
        'The workspace is read-only until you run "$REPOTRIAL_STAGE" write.',
        'Tools for tests are there once you have run "$REPOTRIAL_STAGE" test.',
    ]


def _render_list(title: str, items: tuple[str, ...]) -> str:
    return "" if not items else f"## {title}\n\n" + "".join(f"- {item}\n" for item in items)
