"""`repotrial run list` and `run summary`: many runs in a line each, and how agents did."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

import typer

from repotrial import api
from repotrial._core.display import mark_cap, neutralize, shorten_digests, shorten_version
from repotrial._core.errors import USAGE
from repotrial.cli._options import JsonFlag, LookFlag
from repotrial.cli._output import (
    RUN_HEADER,
    UNANSWERED,
    Screen,
    ScreenPart,
    build_run_rows,
    counted,
    describe_cause,
    print_deviations,
    print_json,
    print_table,
)
from repotrial.cli._run_page import find_missing_parent, tell_made
from repotrial.cli._trace import KeyFiles, find_key_file, load_trust

_RunsDirectory: TypeAlias = Annotated[
    Path, typer.Argument(metavar="DIR", readable=False, help="The directory that run directories are in.")
]
_AgentPattern: TypeAlias = Annotated[
    str | None, typer.Option("--agent", metavar="NAME", help="Only runs of this agent; * and ? match.")
]
_ContractPattern: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--contract",
        metavar="ID[@VERSION]",
        help="Only runs on this contract, * and ? match; with @, only on versions that begin so.",
    ),
]
_MAX_WHY = 60
_StatusWord: TypeAlias = Literal["success", "failure", "acceptance-error", "invalid"]


def list_runs(  # noqa: PLR0913 - one parameter for each option
    directory: _RunsDirectory = Path("runs"),
    *,
    agent: _AgentPattern = None,
    contract: _ContractPattern = None,
    status: Annotated[_StatusWord | None, typer.Option("--status", help="Only runs that ended so.")] = None,
    tag: Annotated[
        str | None,
        typer.Option("--tag", metavar="ID", help="Only runs with this tag; * and ? match."),
    ] = None,
    look: LookFlag = False,
    keys: KeyFiles = None,
    json: JsonFlag = False,
) -> None:
    """List runs with their verdicts, each computed anew from its evidence; nothing is written."""
    wanted = api.RunFilter(agent=agent, contract=contract, status=status, tag=tag)
    look_key = find_key_file() if look else None
    entries = api.list_runs(directory, wanted, load_trust(keys), look_key=look_key)
    if json:
        print_json(entries)
        return
    screen = Screen()
    if entries:
        header = (*RUN_HEADER[:-1], "cause", "trust", "assurance", "tags", RUN_HEADER[-1])
        mixed = _find_mixed(entries)
        rows: list[list[ScreenPart]] = []
        for entry, (name, *cells, place) in zip(entries, build_run_rows(entries), strict=True):
            shown = entry.contract_label if entry.contract in mixed else name
            facts = (describe_cause(entry), entry.trust, entry.assurance_words, _describe_tags(entry))
            rows.append([shown, *cells, *facts, place])
        print_table(screen, header, rows)
    screen.line((counted(len(entries), "run"), "bold"))
    if any(entry.cause == "run-limit" for entry in entries):
        screen.line(mark_cap("run-limit: the contract's cap ended the run"))
    print_deviations(screen, entries)


def _find_mixed(entries: Sequence[api.RunEntry]) -> set[str | None]:
    """Contracts that occur with several versions: their ids alone do not say which."""
    versions = {(entry.contract, entry.contract_version_id) for entry in entries}
    names = [name for name, _ in versions]
    return {name for name in names if names.count(name) > 1}


def _describe_tags(entry: api.RunEntry) -> str:
    """Failure modes; in brackets, why there is no failure to speak of."""
    why: tuple[str, ...] = ()
    if entry.is_stopped:
        why = ("(stopped by the operator)",)
    elif entry.status == "invalid" and entry.why is not None:
        why = (f"({neutralize(entry.why, max_characters=_MAX_WHY)})",)
    return ",".join((*why, *entry.tags)) or "-"


def print_effort(screen: Screen, agents: tuple[api.AgentSummary, ...]) -> None:
    """Cost, tokens, calls and time of each agent, and its failure modes by frequency."""
    screen.line(
        ("what it took", "bold"),
        ": cost of models in all, a run and a success; tokens, calls and the agent's time a run",
    )
    described = [found.effort.describe(attempted=found.attempted, success=found.success) for found in agents]
    rows = [
        [
            shorten_digests(found.agent),
            found.answered_by,
            *(figure.text for figure in figures),
        ]
        for found, figures in zip(agents, described, strict=True)
    ]
    headings = [figure.heading for figure in described[0]]
    print_table(screen, ("agent", "answered by", *headings), rows)


_BAR_CELLS = 20
_LEGEND = "█ below the interval, ▓ from there to the rate, ░ on to the interval's end, · above it"


def summarize(  # noqa: PLR0913 - one parameter for each option
    directory: _RunsDirectory = Path("runs"),
    *,
    agent: _AgentPattern = None,
    contract: _ContractPattern = None,
    compare: Annotated[
        str | None,
        typer.Option(
            "--compare",
            metavar="A,B",
            help="The difference between two agents, by contract; by name, or by how it begins.",
        ),
    ] = None,
    pool_versions: Annotated[
        bool,
        typer.Option("--pool-versions", help="Count versions of one contract together; labeled."),
    ] = False,
    page: Annotated[
        Path | None,
        typer.Option(
            "--page", metavar="FILE", readable=False, help="Also write it as one HTML page, to hand around."
        ),
    ] = None,
    look: LookFlag = False,
    keys: KeyFiles = None,
    json: JsonFlag = False,
) -> None:
    """Count successes, failures, acceptance errors and invalid runs apart, with an interval for the rate.

    The rate is over all planned runs: each counts by its first attempt that is not excused, successes only
    of records whose seal is believed. Contracts, not runs, are the sampling units of its interval.
    """
    wanted = api.RunFilter(agent=agent, contract=contract)
    pair = _split(compare)
    places = api.admit_places([directory], find_key_file() if look else None)
    collected = api.summarize_runs(
        places, wanted=wanted, compare=pair, pool_versions=pool_versions, keys=load_trust(keys)
    )
    if page is not None:
        missing = find_missing_parent(page)
        api.write_summary_page(collected, page)
        tell_made(missing)
    summary = collected.summary
    if json:
        print_json(summary)
        return
    screen = Screen()
    _print_agents(screen, summary)
    print_effort(screen, summary.agents)
    _print_versions(screen, summary)
    if summary.paired is not None:
        title, *lines = summary.paired.describe()
        screen.line((title, "bold"))
        for line in lines:
            screen.line(f"  {line}")
    _print_remarks(screen, summary)
    if page is not None:
        screen.line(f"page: {page}")


def _split(compare: str | None) -> tuple[str, str] | None:
    if compare is None:
        return None
    one, comma, other = compare.partition(",")
    if not (one and comma and other) or "," in other:
        message = f"--compare: expected two agents as A,B, found {compare!r}"
        raise USAGE.error(message, hint="write --compare A,B")
    return one.strip(), other.strip()


def _print_agents(screen: Screen, summary: api.RunsSummary) -> None:
    header = (
        *("agent", "planned", "success", "failure", "error", "invalid", "unknown"),
        *("rate", "", "95 % interval"),
    )
    rows = [
        [
            shorten_digests(found.agent),
            str(found.planned),
            str(found.success),
            str(found.failure),
            str(found.acceptance_error),
            str(found.invalid),
            str(found.indeterminate),
            *_describe_rate(found),
        ]
        for found in summary.agents
    ]
    print_table(screen, header, rows)
    screen.line((f"bar, 0 to 100 %: {_LEGEND}", "dim"))


def _describe_rate(found: api.AgentSummary) -> tuple[str, str, str]:
    """The value, a bar that grows lighter at the interval's ends and at the value, and the interval."""
    from repotrial._core.absence import NotComputable  # loads what `--version` does without

    rate = found.rate
    if isinstance(rate, NotComputable):
        return "-", "", rate.reason
    if isinstance(rate.interval, NotComputable):
        return f"{rate.value:.1%}", _draw(rate.value, rate.value, rate.value), f"none: {rate.interval.reason}"
    interval = rate.interval
    words = f"{interval.low:.1%} to {interval.high:.1%} ({interval.method.value})"
    return f"{rate.value:.1%}", _draw(interval.low, rate.value, interval.high), words


def _draw(low: float, value: float, high: float) -> str:
    ends = [round(end * _BAR_CELLS) for end in (0, low, value, high, 1)]
    return "".join(cell * (end - start) for cell, (start, end) in zip("█▓░·", pairwise(ends), strict=True))


def _print_versions(screen: Screen, summary: api.RunsSummary) -> None:
    header = ("contract", "version", "agent", "success", "error", "invalid", "over all", "mean score")
    rows = []
    for row in summary.aggregate.by_version:
        versions = ",".join(map(shorten_version, row.contract_version_ids))
        rows.append(
            [
                _known(row.contract_id),
                versions or "?",
                shorten_digests(row.agent_label),
                *(
                    f"{rate.count}/{rate.of}"
                    for rate in (row.success, row.acceptance_error, row.invalid, row.over_attempted)
                ),
                _known(row.mean_graded),
            ]
        )
    screen.line(
        ("by contract version", "bold"),
        f" ({summary.aggregate.label}): success and error of scorable runs, invalid of attempted ones",
    )
    print_table(screen, header, rows)


def _known(value: object) -> str:
    return value if isinstance(value, str) else "-"


def _print_remarks(screen: Screen, summary: api.RunsSummary) -> None:
    for word, text in summary.remarks:
        screen.line((word, "bold yellow" if word == "root seeds" else "yellow"), f": {text}")
    if (notional := summary.notional_remark) is not None:
        screen.line(("notional cost", "yellow"), f": {notional}")
    for found in summary.agents:
        if found.unanswered:
            screen.line(
                ("no model answered", "bold yellow"),
                f" in {found.unanswered} of {found.attempted} runs of "
                f"{shorten_digests(found.agent)}: {UNANSWERED}",
            )
    for found in summary.agents:
        for words in found.describe_counting():
            screen.line((shorten_digests(found.agent), "yellow"), f": {words}")
    if untrusted := summary.untrusted:
        listed = ", ".join(f"{number} {word}" for word, number in untrusted.items())
        screen.line(
            ("not believed", "bold yellow"),
            f": {listed}; a success of theirs does not count (`repotrial trace key list` shows whose does)",
        )
    if summary.mixed_conditions:
        names = ", ".join(
            f"{name} ({', '.join(fields)})" for name, fields in summary.mixed_conditions.items()
        )
        screen.line(
            ("declared differences", "yellow"), mark_cap(f": runs under different conditions on {names}")
        )
    screen.line((summary.aggregate.error_treatment, "dim"))
