"""A set of runs as a report: who did what, how sure one can be of it, and each run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from repotrial._core.absence import NotComputable, Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.display import mark_cap, shorten_digests
from repotrial.analysis import (
    AgentSummary,
    CollectedSummary,
    PairedSummary,
    RunRow,
    RunsSummary,
    build_run_row,
    compare_agents,
)
from repotrial.change import PATCH_UNREADABLE, read_change
from repotrial.report._document import GateView, ReportPart, RunView, Section, Source, Table
from repotrial.report._runs_figures import (
    draw_cost,
    draw_differences,
    draw_endings,
    draw_rates,
    draw_tasks,
    draw_time,
)
from repotrial.report._side_by_side import build_side_by_side
from repotrial.report.figures.canvas import Cell, Figure
from repotrial.score import JudgedRun

if TYPE_CHECKING:
    from repotrial.stats import Interval

_MOST_FILES: Final = 20
_MOST_DETAILS: Final = 500
"""Runs that are told one by one; the table has all."""
_MOST_COMPARED: Final = 12
"""Agents that are compared with the best one."""
_RunColumns: Final = (
    "contract",
    "agent",
    "rep",
    "status",
    "G1",
    "G2",
    "G3",
    "G4",
    "ended",
    "score",
    "cost, USD",
    "time, s",
    "calls",
    "failure modes",
)
_Anchored: TypeAlias = Mapping[str, Sequence[tuple[str, JudgedRun, RunRow]]]


def build_runs_part(collected: CollectedSummary, *, is_shared: bool, pages: Mapping[Path, str]) -> ReportPart:
    """All of it, from runs that were judged anew.

    Args:
        collected: The summary with its runs.
        is_shared: Whether source code, prompts and outputs are left out.
        pages: For each run directory its own page, as a link; empty if there are none.
    """
    summary = collected.summary
    numbered = _number(collected.runs)
    flat = {name: [(anchor, row) for anchor, _, row in runs] for name, runs in numbered.items()}
    pairs = _compare_with_best(collected) if summary.paired is None else [summary.paired]
    contracts = {row.contract for runs in flat.values() for _, row in runs}
    count = sum(map(len, flat.values()))
    sources = tuple(_iter_sources(numbered))
    sections = [
        _build_rates(summary, pairs, sources),
        _build_matrix(flat, sources),
        _build_endings(flat, sources),
        _build_effort(summary, flat, sources),
        _build_table(numbered),
        *build_side_by_side(numbered, is_shared=is_shared),
        Section(name="deviations", title="Deviations", words=tuple(_iter_remarks(summary)), is_list=True),
        Section(name="scope", title="What this does not show", words=_SCOPE, is_list=True),
    ]
    return ReportPart(
        title=f"Agents on trial: {_count(count, 'run')} on {_count(len(contracts), 'contract')}",
        lead=tuple(_iter_lead(summary, pairs)),
        sections=tuple(sections),
        runs=tuple(iter_views(numbered, is_shared=is_shared, pages=pages)),
        sources=sources,
    )


_SCOPE: Final = (
    "Other contracts: intervals are over contracts like these, as far as these were drawn from them.",
    "A decision that was frozen before the runs: there was none. Differences are exploratory, not adjusted.",
    "Time to come: models, agents and prices change, and these runs are as old as their dates.",
    "That records are genuine: a report can be forged like any file; `repotrial run verify` checks them.",
)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _number(runs: Mapping[str, Sequence[JudgedRun]]) -> _Anchored:
    number = 0
    found: dict[str, list[tuple[str, JudgedRun, RunRow]]] = {}
    for name, own in runs.items():
        found[name] = []
        for run in own:
            number += 1
            found[name].append((f"run{number}", run, build_run_row(run)))
    return found


def _iter_sources(numbered: _Anchored) -> Iterator[Source]:
    """Of each agent's runs together, then of each run: the digest is over heads of verified traces."""
    groups = [*numbered.items(), ("all runs", [item for runs in numbered.values() for item in runs])]
    for number, (name, runs) in enumerate(groups):
        lines = sorted(f"{row.head_hash or '-'}  {Path(row.directory).name}" for _, _, row in runs)
        yield Source(
            name="all-runs" if number == len(groups) - 1 else f"agent{number}",
            file=f"{_count(len(runs), 'run')} of {shorten_digests(name)}" if name != "all runs" else name,
            digest=digest_bytes("\n".join(lines).encode("utf-8", "surrogatepass")),
            words="of the sorted lines `head hash, two spaces, directory` of these runs",
        )
    for runs in numbered.values():
        for anchor, _, row in runs:
            yield Source(
                name=anchor,
                file=f"{row.directory}/trace.jsonl",
                digest=row.head_hash or "none: no event of the trace holds",
                words="hash of the last verified event",
            )


def _compare_with_best(collected: CollectedSummary) -> list[PairedSummary]:
    """The agent with the highest rate less each other one."""
    agents = [found for found in collected.summary.agents if not isinstance(found.rate, NotComputable)]
    if not 1 < len(agents) <= _MOST_COMPARED:
        return []
    best = max(agents, key=_rank)
    others = sorted((found for found in agents if found is not best), key=_rank, reverse=True)
    return [compare_agents(collected.planned, best.agent, other.agent) for other in others]


def _rank(found: AgentSummary) -> float:
    return -1.0 if isinstance(found.rate, NotComputable) else found.rate.value


def _iter_lead(summary: RunsSummary, pairs: Sequence[PairedSummary]) -> Iterator[str]:
    best = max(summary.agents, key=_rank)
    names = " and ".join(
        shorten_digests(found.agent) for found in summary.agents if _rank(found) == _rank(best)
    )
    each = "each " if " and " in names else ""
    yield f"{names} {each}succeeded in {_describe_rate(best)}."
    tied = []
    for pair in pairs:
        found = pair.comparison.difference
        interval = NotComputable("no difference") if isinstance(found, NotComputable) else found.interval
        if isinstance(found, NotComputable) or isinstance(interval, NotComputable) or _holds_zero(interval):
            tied.append(pair.other)
        else:
            word = "more" if found.value > 0 else "less"
            low, high = sorted(abs(round(end * 100)) for end in (interval.low, interval.high))
            yield (
                f"{shorten_digests(pair.one)} solved {abs(found.value) * 100:.0f} points {word} than "
                f"{shorten_digests(pair.other)}, 95 % interval {low} to {high}, on "
                f"{_count(pair.comparison.n_pairs, 'contract')}."
            )
    if tied:
        names = ", ".join(map(shorten_digests, tied))
        yield f"{shorten_digests(pairs[0].one)} and {names} cannot be told apart by these runs."
    if not pairs and len(summary.agents) > 1:
        yield "No agents were compared: there are more than twelve, or no rate can be computed."


def _holds_zero(interval: Interval) -> bool:
    return interval.low <= 0 <= interval.high


def _describe_rate(found: AgentSummary) -> str:
    words = f"{found.success} of {_count(found.planned, 'run')}"
    rate = found.rate
    if isinstance(rate, NotComputable):
        return f"{words} (no rate: {rate.reason})"
    if isinstance(rate.interval, NotComputable):
        return f"{words}, {rate.value:.0%} (no interval: {rate.interval.reason})"
    return f"{words}, {rate.value:.0%}, 95 % interval {rate.interval.low:.0%} to {rate.interval.high:.0%}"


def _build_rates(summary: RunsSummary, pairs: Sequence[PairedSummary], sources: Sequence[Source]) -> Section:
    rows: list[tuple[Cell, ...]] = []
    for found in summary.agents:
        rate = found.rate
        interval: object = rate if isinstance(rate, NotComputable) else rate.interval
        ends = (
            (interval, "")
            if isinstance(interval, NotComputable)
            else (round(interval.low, 4), round(interval.high, 4))  # type: ignore[attr-defined]  # an interval
        )
        rows.append(
            (
                shorten_digests(found.agent),
                found.planned,
                found.success,
                found.failure,
                found.acceptance_error,
                found.invalid,
                found.indeterminate,
                rate if isinstance(rate, NotComputable) else round(rate.value, 4),
                *ends,
            )
        )
    columns = (
        "agent",
        "planned",
        "success",
        "failure",
        "error",
        "invalid",
        "indeterminate",
        "rate",
        "low",
        "high",
    )
    table = Table(
        title="",
        name="rates",
        columns=columns,
        rows=tuple(rows),
        sources=tuple(f"agent{number}" for number in range(len(rows))),
        note="Rate: successes over all planned runs. Error, invalid and indeterminate runs count as no "
        "success; indeterminate: all attempts are excused, or the record is not believed. Low and high: 95 % "
        "interval; contracts are the units.",
    )
    figures = [_source(draw_rates(summary.agents), sources)]
    if pairs:
        figures.append(_source(draw_differences(pairs), sources))
    return Section(name="who", title="Who did how well", tables=(table,), figures=tuple(figures))


def _source(figure: Figure, sources: Sequence[Source]) -> Figure:
    used = [(source.file, source.digest) for source in sources if source.name.startswith("agent")]
    return msgspec.structs.replace(figure, sources=tuple(used))


def _build_matrix(flat: Mapping[str, Sequence[tuple[str, RunRow]]], sources: Sequence[Source]) -> Section:
    return Section(
        name="contracts", title="Contract by contract", figures=(_source(draw_tasks(flat), sources),)
    )


def _build_endings(flat: Mapping[str, Sequence[tuple[str, RunRow]]], sources: Sequence[Source]) -> Section:
    return Section(name="endings", title="How runs ended", figures=(_source(draw_endings(flat), sources),))


def _build_effort(
    summary: RunsSummary, flat: Mapping[str, Sequence[tuple[str, RunRow]]], sources: Sequence[Source]
) -> Section:
    described = [
        found.effort.describe(attempted=found.attempted, success=found.success) for found in summary.agents
    ]
    table = Table(
        title="",
        name="effort",
        columns=("agent", "answered by", *(figure.heading for figure in described[0])),
        rows=tuple(
            (shorten_digests(found.agent), found.answered_by, *(figure.text for figure in figures))
            for found, figures in zip(summary.agents, described, strict=True)
        ),
        sources=tuple(f"agent{number}" for number in range(len(described))),
        note="Models: their cost in all. Tokens, tool calls and time: the mean of a run. “A success”: "
        "everything spent, failures included, over the successes. A dash: no record states it. Notional: a "
        "script or a recording answered for the model, which is priced as if its provider had.",
    )
    drawn = [figure for figure in (draw_time(flat), draw_cost(flat)) if figure is not None]
    return Section(
        name="effort",
        title="What it took",
        tables=(table,),
        figures=tuple(_source(figure, sources) for figure in drawn),
    )


def _build_table(numbered: _Anchored) -> Section:
    rows, anchors = [], []
    for name, runs in numbered.items():
        for anchor, _, row in runs:
            anchors.append(anchor)
            rows.append((row.contract or "?", shorten_digests(name), *_build_cells(row)))
    table = Table(
        title="",
        name="runs",
        columns=_RunColumns,
        rows=tuple(rows),
        sources=tuple(anchors),
        anchors=tuple(anchors),
        is_sortable=True,
        note="In the order of agents and contracts until a heading is chosen. `run-limit` is a cap, a policy "
        "choice. Empty: no record states it; such rows come last. Invalid runs are rows like all others.",
    )
    return Section(name="runs", title="All runs", tables=(table,))


def _build_cells(row: RunRow) -> tuple[Cell, ...]:
    return (
        row.replicate,
        row.status,
        row.patch,
        row.build,
        row.acceptance,
        row.safety,
        row.ended,
        row.score,
        row.cost_usd,
        None if row.wall_seconds is None else round(row.wall_seconds, 1),
        row.tool_calls,
        row.tags,
    )


def _iter_remarks(summary: RunsSummary) -> Iterator[str]:
    for word, text in summary.remarks:
        yield mark_cap(f"{word.capitalize()}: {text}.")
    if (notional := summary.notional_remark) is not None:
        yield f"Notional cost: {notional}."
    for found in summary.agents:
        for words in found.describe_counting():
            yield f"{shorten_digests(found.agent)}: {words}."
    if untrusted := summary.untrusted:
        listed = ", ".join(f"{number} {word}" for word, number in untrusted.items())
        yield f"Not believed: {listed}; a success of such a record does not count."
    for found in summary.agents:
        if found.unanswered:
            yield (
                f"No model answered in {found.unanswered} of {found.attempted} runs of "
                f"{shorten_digests(found.agent)}, which "
                "count as they ended: look at the key, the provider and the limits before blaming the agent."
            )
    if summary.repeated:
        yield f"Not counted: {len(summary.repeated)} attempt(s) that are excused, or follow one that counts."
    if summary.mixed_conditions:
        names = ", ".join(
            f"{name} ({', '.join(fields)})" for name, fields in summary.mixed_conditions.items()
        )
        yield f"Declared differences: runs under different conditions on {names}."
    yield summary.aggregate.error_treatment


def iter_views(numbered: _Anchored, *, is_shared: bool, pages: Mapping[Path, str]) -> Iterator[RunView]:
    """Runs one by one, at most five hundred."""
    everything = [(name, item) for name, runs in numbered.items() for item in runs]
    for name, (anchor, run, row) in everything[:_MOST_DETAILS]:
        files = _list_changed(run.evidence.change)
        facts: list[tuple[str, Cell]] = [
            ("directory", row.directory),
            ("ended", row.ended),
            ("model", row.model),
            ("cost, USD", row.cost_usd),
            ("trust", row.trust),
            ("assurance", run.entry.assurance_words),
            ("record", row.head_hash),
        ]
        facts += [("deviation", mark_cap(f"{one.code}: {one.message}")) for one in run.card.deviations]
        yield RunView(
            anchor=anchor,
            title=f"{row.contract or '?'}, {shorten_digests(name)}, repeat {_known(row.replicate)}",
            status=row.status,
            gates=tuple(
                GateView(
                    gate=gate.gate, name=gate.name, outcome=gate.outcome, why=() if is_shared else gate.why
                )
                for gate in run.card.gates
            ),
            facts=tuple(facts),
            changed=tuple(files[:_MOST_FILES]),
            left_out=max(0, len(files) - _MOST_FILES),
            page=pages.get(run.directory, ""),
        )


def _known(value: int | None) -> str:
    return "?" if value is None else str(value)


def _list_changed(change: bytes | Unknown) -> list[str]:
    if isinstance(change, Unknown):
        return []
    try:
        files = read_change(change).files
    except PATCH_UNREADABLE.kind:
        return ["the change is no patch as the rules read one"]
    return [f"{file.path} +{file.added_count} -{file.removed_count}" for file in files]
