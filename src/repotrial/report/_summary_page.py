"""Many runs as one page that opens anywhere: who did how well, what it took, and where it went wrong."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from repotrial import __version__
from repotrial._core.absence import NotComputable
from repotrial._core.display import shorten_digests
from repotrial.analysis import AgentSummary, CollectedSummary, RunsSummary
from repotrial.report._render import render_template
from repotrial.score import EffortFigure, RunEntry

_MOST_FAILURES = 500


class _Rate(NamedTuple):
    """A rate and how far it reaches, as shares."""

    value: float
    """Successes over attempted runs."""
    low: float
    """Where the interval begins; the value itself if there is none."""
    high: float
    """Where it ends."""
    words: str
    """The interval, or why there is none."""


class _Agent(NamedTuple):
    """One agent's row."""

    name: str
    """As people see it."""
    counts: AgentSummary
    """What its runs came to."""
    rate: _Rate | NotComputable
    """Over all attempted runs."""
    answered_by: str
    """Who answered for its model, and that the cost is notional if no provider was paid; in words."""
    figures: tuple[EffortFigure, ...]
    """What its runs took."""


class _Cell(NamedTuple):
    """How often one agent succeeded on one contract."""

    success: int
    """Runs."""
    attempted: int
    """Runs that count; none if it was not tried."""

    @property
    def style(self) -> str:
        """Of a tag; the figures beside it say the same."""
        if not self.attempted:
            return ""
        return "good" if self.success == self.attempted else "open" if self.success else "bad"


class _Failure(NamedTuple):
    """A run that is no success."""

    contract: str
    agent: str
    replicate: str
    status: str
    tags: str
    why: str
    directory: str


def build_summary_page(collected: CollectedSummary) -> str:
    """The whole summary as one HTML document; the same summary gives the same bytes."""
    summary, entries = collected
    contracts = sorted({entry.contract or "?" for runs in entries.values() for entry in runs})
    failures = [
        _build_failure(name, entry)
        for name, runs in entries.items()
        for entry in runs
        if entry.status != "success"
    ]
    return render_template(
        "summary.html.j2",
        version=__version__,
        directory=Path(summary.directory).name or summary.directory,
        runs=sum(map(len, entries.values())),
        agents=[*map(_build_agent, summary.agents)],
        columns=[*map(shorten_digests, entries)],
        matrix=[
            (contract, [_build_cell(runs, contract) for runs in entries.values()]) for contract in contracts
        ],
        difference=[] if summary.paired is None else [*summary.paired.describe()],
        failures=failures[:_MOST_FAILURES],
        left_out=max(0, len(failures) - _MOST_FAILURES),
        remarks=[*_iter_remarks(summary)],
    )


def _build_agent(found: AgentSummary) -> _Agent:
    return _Agent(
        name=shorten_digests(found.agent),
        counts=found,
        rate=_build_rate(found),
        answered_by=found.answered_by,
        figures=found.effort.describe(attempted=found.attempted, success=found.success),
    )


def _build_rate(found: AgentSummary) -> _Rate | NotComputable:
    rate = found.rate
    if isinstance(rate, NotComputable):
        return rate
    interval = rate.interval
    if isinstance(interval, NotComputable):
        return _Rate(
            value=rate.value, low=rate.value, high=rate.value, words=f"no interval: {interval.reason}"
        )
    words = f"95 % interval {interval.low:.0%} to {interval.high:.0%} ({interval.method.value})"
    return _Rate(value=rate.value, low=interval.low, high=interval.high, words=words)


def _build_cell(runs: Sequence[RunEntry], contract: str) -> _Cell:
    own = [entry for entry in runs if (entry.contract or "?") == contract]
    return _Cell(success=sum(entry.status == "success" for entry in own), attempted=len(own))


def _build_failure(agent: str, entry: RunEntry) -> _Failure:
    return _Failure(
        contract=entry.contract or "?",
        agent=shorten_digests(agent),
        replicate="?" if entry.replicate is None else str(entry.replicate),
        status=entry.status,
        tags=", ".join(entry.tags) or "-",
        why=entry.why or "-",
        directory=Path(entry.directory).name,
    )


def _iter_remarks(summary: RunsSummary) -> Iterator[str]:
    if (notional := summary.notional_remark) is not None:
        yield f"Notional cost: {notional}."
    faults = sum(found.machine_faults for found in summary.agents)
    if faults:
        yield f"Not in the rates: {faults} run(s) in which the machine was at fault."
    for found in summary.agents:
        if found.unanswered:
            yield (
                f"No model answered in {found.unanswered} of {found.attempted} runs of "
                f"{shorten_digests(found.agent)}, which "
                "count as they ended: look at the key, the provider and the limits before blaming the agent."
            )
    if summary.repeated:
        yield f"Not counted: {len(summary.repeated)} attempt(s) that were broken off and repeated."
    if summary.mixed_conditions:
        names = ", ".join(
            f"{name} ({', '.join(fields)})" for name, fields in summary.mixed_conditions.items()
        )
        yield f"Declared differences: runs under different conditions on {names}."
    yield summary.aggregate.error_treatment
