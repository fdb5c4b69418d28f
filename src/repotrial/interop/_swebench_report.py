"""The report of SWE-bench's own harness, from score cards."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal, TypeAlias

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.escaping import normalize_name
from repotrial.score import AgentIdentity, Invalid, Scorable, ScoreCard

_Word: TypeAlias = Literal["resolved", "unresolved", "empty", "error"]
_EMPTY_CHANGE: Final = digest_bytes(b"")


SWEBENCH_MIXED_AGENTS = ErrorCode(
    "swebench-mixed-agents",
    UsageError,
    "A report speaks of one agent, and the cards are of several.",
    hint="make a report for each agent",
)


class SwebenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """What became of every instance; ids are sorted, and each stands in one of the last four lists."""

    total_instances: int
    """All that there are."""
    submitted_instances: int
    """Those with a run."""
    completed_instances: int
    """Those that were judged."""
    resolved_instances: int
    """Those whose every check passed."""
    unresolved_instances: int
    """Those that were judged and not resolved."""
    empty_patch_instances: int
    """Those for which nothing was handed in."""
    error_instances: int
    """Those about which nothing can be said."""
    completed_ids: tuple[str, ...]
    """Judged."""
    incomplete_ids: tuple[str, ...]
    """Without a run."""
    submitted_ids: tuple[str, ...]
    """With a run."""
    resolved_ids: tuple[str, ...]
    """Every check passed."""
    unresolved_ids: tuple[str, ...]
    """Judged, and not resolved."""
    empty_patch_ids: tuple[str, ...]
    """Nothing was handed in, so nothing is resolved."""
    error_ids: tuple[str, ...]
    """The run is invalid, or a check did not come to its end."""
    schema_version: Literal[2] = 2
    """Of that format."""


def build_swebench_report(cards: Sequence[ScoreCard], *, instance_ids: Iterable[str] = ()) -> SwebenchReport:
    """What an agent made of the instances.

    An instance with several runs is resolved if all that could be judged resolved it.

    Args:
        cards: Of one agent's runs.
        instance_ids: As the data set spells them, also of instances without a run; where none is given, an
            instance is called as its contract.

    Raises:
        SWEBENCH_MIXED_AGENTS: the cards are of several agents.
    """
    _verify_one_agent(cards)
    spelled = {normalize_name(name): name for name in instance_ids}
    words: dict[str, list[_Word]] = {}
    for card in cards:
        contract_id = card.identity.contract_id
        if isinstance(contract_id, Unknown):
            continue  # a record that names no contract is about no instance
        words.setdefault(spelled.get(contract_id, contract_id), []).append(_judge(card))
    verdicts = {name: _join(found) for name, found in words.items()}
    return _build(verdicts, known={*spelled.values(), *verdicts})


def _verify_one_agent(cards: Sequence[ScoreCard]) -> None:
    agents = {card.identity.agent for card in cards if isinstance(card.identity.agent, AgentIdentity)}
    if len(agents) > 1:
        names = ", ".join(sorted(f"{agent.name} {agent.version}" for agent in agents))
        raise SWEBENCH_MIXED_AGENTS.error(f"expected runs of one agent, found {names}")


def _judge(card: ScoreCard) -> _Word:
    match card.status:
        case Invalid() | Scorable(verdict="acceptance-error"):
            return "error"
        case Scorable(verdict="success"):
            return "resolved"
        case _:
            return "empty" if card.identity.change_digest == _EMPTY_CHANGE else "unresolved"


def _join(words: Sequence[_Word]) -> _Word:
    """Runs that tell nothing are passed over where another one tells something."""
    judged = [word for word in words if word != "error"]
    if not judged:
        return "error"
    return next((word for word in judged if word != "resolved"), "resolved")


def _build(verdicts: dict[str, _Word], *, known: set[str]) -> SwebenchReport:
    def select(*words: _Word) -> tuple[str, ...]:
        return tuple(sorted(name for name, word in verdicts.items() if word in words))

    completed, submitted = select("resolved", "unresolved"), tuple(sorted(verdicts))
    return SwebenchReport(
        total_instances=len(known),
        submitted_instances=len(submitted),
        completed_instances=len(completed),
        resolved_instances=len(select("resolved")),
        unresolved_instances=len(select("unresolved")),
        empty_patch_instances=len(select("empty")),
        error_instances=len(select("error")),
        completed_ids=completed,
        incomplete_ids=tuple(sorted(known - verdicts.keys())),
        submitted_ids=submitted,
        resolved_ids=select("resolved"),
        unresolved_ids=select("unresolved"),
        empty_patch_ids=select("empty"),
        error_ids=select("error"),
    )
