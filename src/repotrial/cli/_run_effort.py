"""What agents' runs took and what went wrong in them, as a table below the counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.display import shorten_digests

if TYPE_CHECKING:
    from repotrial.api import AgentSummary
    from repotrial.cli._output import Screen


def print_effort(screen: Screen, agents: tuple[AgentSummary, ...]) -> None:
    """Cost, tokens, calls and time of each agent, and its failure modes by frequency."""
    from repotrial.api import describe_answered_by, describe_effort
    from repotrial.cli._table import print_table

    screen.line(
        ("what it took", "bold"),
        ": cost of models in all, a run and a success; tokens, calls and the agent's time a run",
    )
    described = [
        describe_effort(found.effort, attempted=found.attempted, success=found.success) for found in agents
    ]
    rows = [
        [
            shorten_digests(found.agent),
            describe_answered_by(found.upstream),
            *(figure.text for figure in figures),
        ]
        for found, figures in zip(agents, described, strict=True)
    ]
    headings = [figure.heading for figure in described[0]]
    print_table(screen, ("agent", "answered by", *headings), rows)
