"""One run on one page that opens anywhere: nothing is fetched, no script but ours runs.

Verdicts are computed again from the evidence; `score.json` and `report.json` are not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from markupsafe import Markup

from repotrial import __version__
from repotrial._core.errors import EvidenceError
from repotrial.contract import ContractRecord
from repotrial.report._conversation import EVENT_CLASSES, build_conversation
from repotrial.report._diff import build_change_page
from repotrial.report._document import SHARED
from repotrial.report._facts import (
    build_aspects,
    build_commands,
    build_identity,
    build_provenance,
    build_seal_sentence,
)
from repotrial.report._quotes import build_quotes
from repotrial.report._record import read_record
from repotrial.report._render import load_script, render_template
from repotrial.report._run_figures import draw_run_figures
from repotrial.report._timeline import build_strip, build_timeline
from repotrial.report._verdict import GATE_WORDS, build_banner, build_grade_page
from repotrial.score import (
    EventPointer,
    Evidence,
    EvidencePointer,
    InvalidReason,
    ProgramsView,
    ScoreCard,
    build_run_report,
    build_score_card,
    load_evidence,
    load_taxonomy,
    order_reasons,
    read_programs,
)
from repotrial.trace import RunPaths

_MAX_CITED = 500


def build_run_page(
    run_directory: Path,
    *,
    is_shared: bool = False,
    bodies: Mapping[str, str] | None = None,
    neighbors: tuple[str, str] = ("", ""),
) -> str:
    """All of a run as one HTML document; the same directory gives the same bytes.

    Args:
        run_directory: What the run left.
        is_shared: Whether source code, prompts and outputs are left out.
        bodies: Files beside the page that hold what is too large for it: name and link.
        neighbors: Pages of the runs before and after this one, as links; empty if there are none.

    Raises:
        NO_RUN_DIRECTORY: there is no such directory.
    """
    evidence = load_evidence(run_directory)
    paths = RunPaths(run_directory)
    card = build_score_card(evidence)
    report = build_run_report(evidence, card)
    verified = evidence.verification.chain_report.count
    record = read_record(paths, verified_count=verified)
    reasons = order_reasons(evidence, card)
    cited = frozenset(islice(_iter_cited(card, reasons), _MAX_CITED))
    head = card.identity.head_hash
    figures = draw_run_figures(record, head=head if isinstance(head, str) else "none", is_shared=is_shared)
    programs = _read_programs(paths, verified)
    script, script_digest = load_script()
    run_name = run_directory.resolve().name
    return render_template(
        "run.html.j2",
        run_name=run_name,
        left_out=SHARED if is_shared else "",
        bodies=bodies or {},
        title=_find_title(evidence, run_name),
        version=__version__,
        banner=build_banner(card, reasons),
        reasons=reasons,
        words=GATE_WORDS,
        card=card,
        quotes=build_quotes(paths, card),
        modes={mode.id: mode.title for mode in load_taxonomy()},
        identity=build_identity(evidence, card, report, record),
        ceilings=record.ceilings,
        grade=build_grade_page(card.graded),
        change=build_change_page(evidence.change),
        briefing=record.briefing,
        printed=record.printed,
        strip=build_strip(record),
        total_us=record.total_us,
        programs=programs,
        programs_of={} if programs is None else {call.seq: call for call in programs.calls},
        conversation=build_conversation(paths, verified_count=verified),
        figures=figures,
        drawings={figure.name: Markup(figure.svg) for figure in figures},  # noqa: S704 - drawn by us
        class_of={kind: name for name, kinds in EVENT_CLASSES.items() for kind in kinds},
        neighbors=neighbors,
        script=script,
        script_digest=script_digest,
        timeline=build_timeline(paths, cited=cited, verified_count=verified),
        provenance=build_provenance(evidence, card, report),
        aspects=build_aspects(evidence.verification, run_directory),
        seal_sentence=build_seal_sentence(evidence),
        commands=build_commands(run_name),
    )


def _read_programs(paths: RunPaths, verified_count: int) -> ProgramsView | None:
    """What ran, as far as the trace holds; None where it cannot be read, which the verdict says."""
    try:
        return read_programs(paths, events=verified_count)
    except EvidenceError:
        return None


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
