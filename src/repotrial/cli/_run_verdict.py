"""`repotrial run score`, and how a verdict is shown: status, gates, why, tags, what to look at."""

from __future__ import annotations

from repotrial import api
from repotrial._core.display import mark_cap
from repotrial.cli._batch import BatchVerdict, expand_runs, work_through
from repotrial.cli._options import JsonFlag, RunDirectories
from repotrial.cli._output import UNANSWERED, Screen, describe_cause, find_style, mark_gate
from repotrial.cli._run_lines import print_quotes
from repotrial.cli._trace import load_trust

_MOST_LINES = 8
_MOST_FAILING = 40
_MOST_IN_REASON = 3
"""So many failing tests the reason of a check names itself."""


def score(directories: RunDirectories, *, json: JsonFlag = False) -> None:
    """Compute the verdict on a run from its evidence alone, and write score.json and report.json beside it.

    A copy of a run directory on another machine gives the same verdict; nothing is executed.
    """
    keys = load_trust()
    work_through(
        expand_runs(directories),
        lambda directory: api.score_run(directory, keys),
        judge=lambda scored: BatchVerdict(scored.entry.status, holds=True),
        show=_show_scored,
        noun="run",
        json=json,
    )


def _show_scored(screen: Screen, scored: api.ScoredRun) -> None:
    entry = scored.entry
    screen.line((f"{entry.status:<17}", find_style(entry.status)), scored.directory)
    gates = [mark_gate(outcome) for outcome in entry.gates]
    parts = [(f"  G{number} {word}", style) for number, (word, style) in enumerate(gates, start=1)]
    facts = f"  cause {describe_cause(entry)}, trust {entry.trust}, assurance {entry.assurance_words}"
    screen.line(mark_cap(facts))
    screen.line(*parts, f"  score {entry.score or '-'}", f"  {', '.join(entry.tags)}" if entry.tags else "")


def print_verdict(screen: Screen, run: api.JudgedRun) -> None:
    """All that a person wants to know first."""
    entry, card = run.entry, run.card
    screen.line(
        (entry.status, find_style(entry.status)),
        f"  {entry.contract or '?'}  {entry.agent or '?'} ({entry.agent_version or '?'})",
        f"  replicate {'?' if entry.replicate is None else entry.replicate}",
    )
    _print_some(screen, [f"{reason.code}: {reason.message}" for reason in run.reasons])
    facts = f"  cause {describe_cause(entry)}, trust {entry.trust}, assurance {entry.assurance_words}"
    screen.line(mark_cap(facts))
    if entry.retries:
        screen.line(f"  {entry.retries} exchange(s) with the provider met trouble")
    if run.ending is not None:
        screen.line(mark_cap(f"  {run.ending}"))
    if (model_use := run.model_use) is not None:
        screen.line(f"  {model_use}")
    lines = {} if all(gate.outcome == "passed" for gate in card.gates) else api.open_lines(run)
    for gate in card.gates:
        word, style = mark_gate(gate.outcome)
        screen.line((f"  {gate.gate} {word:<6}", style), gate.name)
        if gate.outcome != "passed":
            _print_some(screen, gate.why)
            print_quotes(screen, lines.get(gate.gate, ()))
    _print_checks(screen, run)
    screen.line(f"  score {entry.score or '-'}")
    if entry.is_unanswered:
        screen.line(("  no model answered", "bold yellow"), f": {UNANSWERED}")
    if run.evidence.seal == "absent":
        screen.line(("  not sealed", "yellow"), ": nothing shows that this record was left as it was made")
    _print_notes(screen, run)


def _print_checks(screen: Screen, run: api.JudgedRun) -> None:
    """Every check; the tests that failed, if the reasons above leave some out."""
    for result in run.card.checks:
        twins = "not counted (suite failed)" if result.twins == "moot" else result.twins
        screen.line(
            f"  check {result.check}: ",
            mark_gate(result.verdict),
            f"  {result.judge}, twins {twins}, {result.wall_us / 1_000_000:.1f} s",
        )
        if result.failing_count <= _MOST_IN_REASON:
            continue
        for test in result.failing_tests[:_MOST_FAILING]:
            screen.line(f"      {test}")
        left_out = result.failing_count - min(_MOST_FAILING, len(result.failing_tests))
        if left_out > 0:
            screen.line((f"      … and {left_out} more: `--tests {result.check}` lists all", "dim"))


def _print_notes(screen: Screen, run: api.JudgedRun) -> None:
    card = run.card
    tags: dict[str, list[str]] = {}
    for tag in card.tags:
        attributes = ", ".join(f"{name} {value}" for name, value in tag.attributes.items())
        places = ", ".join(f"event {seq}" for seq in tag.event_seqs[:_MOST_LINES])
        tags.setdefault(tag.id, []).append(f"{'/'.join(tag.gates)}  {attributes}  {places}".rstrip())
    for name, found in tags.items():
        screen.line((f"  tag {name}", "bold"), mark_cap(f"  {'; '.join(dict.fromkeys(found))}".rstrip()))
    notes = dict.fromkeys(f"{note.code}: {note.message}" for note in card.review)
    for text in list(notes)[:_MOST_LINES]:
        screen.line(("  look at: ", "yellow"), text)
    for remark in card.deviations:
        screen.line(("  deviation: ", "yellow"), mark_cap(f"{remark.code}: {remark.message}"))


def _print_some(screen: Screen, lines: tuple[str, ...] | list[str]) -> None:
    for line in lines[:_MOST_LINES]:
        screen.line(mark_cap(f"      {line}"))
    if len(lines) > _MOST_LINES:
        screen.line((f"      … and {len(lines) - _MOST_LINES} more: see --json of `run score`", "dim"))
