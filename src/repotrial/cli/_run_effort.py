"""What agents' runs took and what went wrong in them, as a table below the counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from repotrial.api import AgentSummary
    from repotrial.cli._output import Screen

__all__ = ["print_effort"]

_HEADER = (
    "agent",
    "answered by",
    "models",
    "a run",
    "a success",
    "tokens",
    "tool calls",
    "time",
    "what went wrong (runs)",
)


def print_effort(screen: Screen, agents: tuple[AgentSummary, ...]) -> None:
    """Cost, tokens, calls and time of each agent, and its failure modes by frequency."""
    from repotrial.api import describe_answered_by, describe_effort, shorten_label
    from repotrial.cli._table import print_table

    screen.line(
        ("what it took", "bold"),
        ": cost of models in all, a run and a success; tokens, calls and the agent's time a run",
    )
    rows = [
        [
            shorten_label(found.agent),
            describe_answered_by(found.upstream),
            *describe_effort(found.effort, attempted=found.attempted, success=found.success),
        ]
        for found in agents
    ]
    print_table(screen, _HEADER, rows)
