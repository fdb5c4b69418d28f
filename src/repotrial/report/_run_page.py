"""One run on one page that opens anywhere: nothing is fetched, no script runs, nothing is believed unread.

Verdicts are computed again from the evidence; `score.json` and `report.json` are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

from repotrial import __version__
from repotrial.contract import ContractRecord
from repotrial.report._diff import build_change_page
from repotrial.report._facts import (
    build_aspects,
    build_commands,
    build_identity,
    build_provenance,
    build_seal_sentence,
)
from repotrial.report._record import read_record
from repotrial.report._render import render_template
from repotrial.report._timeline import build_strip, build_timeline
from repotrial.report._verdict import GATE_WORDS, build_banner, build_grade_page
from repotrial.score import (
    EventPointer,
    Evidence,
    EvidencePointer,
    InvalidReason,
    ScoreCard,
    build_run_report,
    build_score_card,
    load_evidence,
    load_taxonomy,
    order_reasons,
)
from repotrial.trace import RunPaths, check_run

_MAX_CITED = 500


def build_run_page(run_directory: Path) -> str:
    """All of a run as one HTML document; the same directory gives the same bytes.

    Raises:
        NO_RUN_DIRECTORY: there is no such directory.
    """
    evidence = load_evidence(run_directory)
    paths = RunPaths(run_directory)
    verification = check_run(paths, trusted_keys=None)
    verified_count = verification.chain_report.count
    card = build_score_card(evidence)
    report = build_run_report(evidence, card)
    record = read_record(paths, verified_count=verified_count)
    reasons = order_reasons(evidence, card)
    cited = frozenset(islice(_iter_cited(card, reasons), _MAX_CITED))
    run_name = run_directory.resolve().name
    return render_template(
        "run.html.j2",
        run_name=run_name,
        title=_find_title(evidence, run_name),
        version=__version__,
        banner=build_banner(card, reasons),
        reasons=reasons,
        words=GATE_WORDS,
        card=card,
        modes={mode.id: mode.title for mode in load_taxonomy()},
        identity=build_identity(evidence, card, report, record),
        ceilings=record.ceilings,
        grade=build_grade_page(card.graded),
        change=build_change_page(evidence.change),
        briefing=record.briefing,
        printed=record.printed,
        strip=build_strip(record),
        total_us=record.total_us,
        timeline=build_timeline(paths, cited=cited, verified_count=verified_count),
        provenance=build_provenance(evidence, card, report),
        aspects=build_aspects(verification, run_directory),
        seal_sentence=build_seal_sentence(evidence, verification),
        commands=build_commands(run_name),
    )


def _find_title(evidence: Evidence, run_name: str) -> str:
    record = evidence.record
    return record.contract.title if isinstance(record, ContractRecord) else run_name


def _iter_cited(card: ScoreCard, reasons: Iterable[InvalidReason]) -> Iterator[int]:
    """Events that the verdict points at, the most important first."""
    yield from (reason.seq for reason in reasons if reason.seq is not None)
    for tag in card.tags:
        yield from _iter_events(tag.evidence)
    for gate in card.gates:
        yield from _iter_events(gate.evidence)
    for rule in card.violations:
        yield from _iter_events(rule.evidence)
    for check in card.checks:
        yield from _iter_events(check.events)
    for note in card.review:
        yield from _iter_events(note.evidence)


def _iter_events(evidence: Iterable[EvidencePointer]) -> Iterator[int]:
    return (pointer.seq for pointer in evidence if isinstance(pointer, EventPointer))
