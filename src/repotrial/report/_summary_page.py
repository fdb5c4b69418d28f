"""Many runs as one page that opens anywhere: who did how well, what it took, and where it went wrong."""

from __future__ import annotations

import msgspec

from repotrial import __version__
from repotrial._core.absence import NotComputable
from repotrial.report._render import render_template

__all__ = [
    "SummaryAgent",
    "SummaryCell",
    "SummaryFailure",
    "SummaryRate",
    "SummaryView",
    "build_summary_page",
]

_MOST_FAILURES = 500


class SummaryRate(msgspec.Struct, frozen=True, kw_only=True):
    """A rate and how far it reaches, as shares."""

    value: float
    """Successes over attempted runs."""
    low: float
    """Where the interval begins; the value itself where there is none."""
    high: float
    """Where it ends."""
    words: str
    """The interval, or why there is none."""


class SummaryAgent(msgspec.Struct, frozen=True, kw_only=True):
    """One agent's row."""

    name: str
    """As the summary calls it."""
    answered_by: str
    """Who answered for its model, and that the cost is notional where nobody was paid; in words."""
    attempted: int
    """Runs that count."""
    success: int
    """All gates pass."""
    failure: int
    """Some gate does not."""
    error: int
    """Some check did not complete."""
    invalid: int
    """Nothing can be said."""
    rate: SummaryRate | NotComputable
    """Over all attempted runs."""
    effort: tuple[str, ...]
    """Models, a run, a success, tokens, tool calls, time, failure modes; in words."""


class SummaryCell(msgspec.Struct, frozen=True, kw_only=True):
    """How often one agent succeeded on one contract."""

    success: int
    """Runs."""
    attempted: int
    """Runs that count; none where it was not tried."""

    @property
    def style(self) -> str:
        """Of a tag; the figures beside it say the same."""
        if not self.attempted:
            return ""
        return "good" if self.success == self.attempted else "open" if self.success else "bad"


class SummaryFailure(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is no success."""

    contract: str
    agent: str
    replicate: str
    status: str
    tags: str
    why: str
    directory: str


class SummaryView(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that the page shows."""

    directory: str
    runs: int
    agents: tuple[SummaryAgent, ...]
    columns: tuple[str, ...]
    """Agents, in the order of each row of the matrix."""
    matrix: tuple[tuple[str, tuple[SummaryCell, ...]], ...]
    """By contract."""
    difference: tuple[str, ...]
    """Title and lines of the comparison; none where none was asked for."""
    failures: tuple[SummaryFailure, ...]
    remarks: tuple[str, ...]


def build_summary_page(view: SummaryView) -> str:
    """The whole summary as one HTML document; the same summary gives the same bytes."""
    return render_template(
        "summary.html.j2",
        version=__version__,
        view=view,
        failures=view.failures[:_MOST_FAILURES],
        left_out=max(0, len(view.failures) - _MOST_FAILURES),
    )
