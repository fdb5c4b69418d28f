"""A summary of many runs as a page for people."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from repotrial._core.absence import NotComputable
from repotrial._core.files import describe_refusal, write_atomic
from repotrial.api._answerer import describe_answered_by, describe_notional, shorten_label
from repotrial.api._effort import describe_effort
from repotrial.api._entries import RunEntry, RunFilter
from repotrial.api._page import PageWriteError
from repotrial.api._summary import AgentSummary, CollectedSummary, PairedSummary, RunsSummary, collect_summary

if TYPE_CHECKING:
    from repotrial.report import SummaryAgent, SummaryCell, SummaryFailure, SummaryRate, SummaryView

__all__ = ["WrittenSummary", "describe_difference", "write_summary_page"]


class WrittenSummary(NamedTuple):
    """What the page says, and where it is."""

    summary: RunsSummary
    page: str


def write_summary_page(
    directory: Path,
    output: Path,
    *,
    wanted: RunFilter | None = None,
    compare: tuple[str, str] | None = None,
    pool_versions: bool = False,
) -> WrittenSummary:
    """Summarize runs as `summarize_runs` does, and write one HTML file that needs nothing else.

    Raises:
        PageWriteError: the machine does not let us write.
    """
    from repotrial.report import build_summary_page  # with it comes a template engine

    collected = collect_summary(directory, wanted, compare=compare, pool_versions=pool_versions)
    page = build_summary_page(_build_view(collected))
    try:
        write_atomic(output, page.encode("utf-8"))
    except (OSError, ValueError) as error:  # ValueError: a NUL
        raise PageWriteError(
            f"{output}: expected to write the page, found: {describe_refusal(error)}",
            hint="name another file, make room or fix the permissions",
        ) from error
    return WrittenSummary(collected.summary, str(output))


def _build_view(collected: CollectedSummary) -> SummaryView:
    from repotrial.report import SummaryView

    summary, entries = collected
    contracts = sorted({entry.contract or "?" for runs in entries.values() for entry in runs})
    return SummaryView(
        directory=Path(summary.directory).name or summary.directory,
        runs=sum(map(len, entries.values())),
        agents=tuple(map(_build_agent, summary.agents)),
        columns=tuple(map(shorten_label, entries)),
        matrix=tuple(
            (contract, tuple(_build_cell(runs, contract) for runs in entries.values()))
            for contract in contracts
        ),
        difference=() if summary.paired is None else tuple(describe_difference(summary.paired)),
        failures=tuple(
            _build_failure(name, entry)
            for name, runs in entries.items()
            for entry in runs
            if entry.status != "success"
        ),
        remarks=tuple(_iter_remarks(summary)),
    )


def _build_agent(found: AgentSummary) -> SummaryAgent:
    from repotrial.report import SummaryAgent

    return SummaryAgent(
        name=shorten_label(found.agent),
        answered_by=describe_answered_by(found.upstream),
        attempted=found.attempted,
        success=found.success,
        failure=found.failure,
        error=found.acceptance_error,
        invalid=found.invalid,
        rate=_build_rate(found),
        effort=tuple(describe_effort(found.effort, attempted=found.attempted, success=found.success)),
    )


def _build_rate(found: AgentSummary) -> SummaryRate | NotComputable:
    from repotrial.report import SummaryRate

    rate = found.rate
    if isinstance(rate, NotComputable):
        return rate
    interval = rate.interval
    if isinstance(interval, NotComputable):
        return SummaryRate(
            value=rate.value, low=rate.value, high=rate.value, words=f"no interval: {interval.reason}"
        )
    words = f"95 % interval {interval.low:.0%} to {interval.high:.0%} ({interval.method.value})"
    return SummaryRate(value=rate.value, low=interval.low, high=interval.high, words=words)


def _build_cell(runs: Sequence[RunEntry], contract: str) -> SummaryCell:
    from repotrial.report import SummaryCell

    own = [entry for entry in runs if (entry.contract or "?") == contract]
    return SummaryCell(success=sum(entry.status == "success" for entry in own), attempted=len(own))


def _build_failure(agent: str, entry: RunEntry) -> SummaryFailure:
    from repotrial.report import SummaryFailure

    return SummaryFailure(
        contract=entry.contract or "?",
        agent=shorten_label(agent),
        replicate="?" if entry.replicate is None else str(entry.replicate),
        status=entry.status,
        tags=", ".join(entry.tags) or "-",
        why=entry.why or "-",
        directory=Path(entry.directory).name,
    )


def describe_difference(paired: PairedSummary) -> Iterator[str]:
    """A comparison of two agents in lines: a title, the difference, its tests, what was left out."""
    found = paired.comparison
    one, other = shorten_label(paired.one), shorten_label(paired.other)
    contracts = "1 contract" if found.n_pairs == 1 else f"{found.n_pairs} contracts"
    yield f"{one} less {other}, over {contracts} that both have"
    difference = found.difference
    if isinstance(difference, NotComputable):
        yield f"not computable: {difference.reason}"
    else:
        interval = difference.interval
        reach = ""
        if not isinstance(interval, NotComputable):
            reach = f", 95 % interval {interval.low:+.1%} to {interval.high:+.1%} ({interval.method.value})"
        yield f"{difference.value:+.1%}{reach}"
    for test in (found.mcnemar, found.sign_flip):
        if not isinstance(test, NotComputable):
            yield f"p = {test.p_value:.4f} ({test.method.value})"
    for name, unmatched in ((one, found.unmatched_a), (other, found.unmatched_b)):
        if unmatched:
            yield f"left out, only {name} has them: {', '.join(unmatched)}"


def _iter_remarks(summary: RunsSummary) -> Iterator[str]:
    if (notional := describe_notional(summary)) is not None:
        yield f"Notional cost: {notional}."
    faults = sum(found.machine_faults for found in summary.agents)
    if faults:
        yield f"Not in the rates: {faults} run(s) in which the machine was at fault."
    for found in summary.agents:
        if found.unanswered:
            yield (
                f"No model answered in {found.unanswered} of {found.attempted} runs of "
                f"{shorten_label(found.agent)}, which "
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
