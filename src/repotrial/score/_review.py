"""What a person should look at; flags never open or close a gate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from repotrial._core.canonical import Count
from repotrial.change import ChangeView
from repotrial.contract import ContractRecord
from repotrial.policy import find_review_flags
from repotrial.score._delta import Delta, list_requirements
from repotrial.score._document import ChangePointer, Document, EventPointer, EvidencePointer, Line, build_line
from repotrial.score._evidence import Evidence
from repotrial.score._outcomes import CheckResult

_MOST = 200


class ReviewNote(Document, frozen=True, kw_only=True):
    """A reason to look, and where."""

    code: Line
    """Stable kebab-case name."""
    message: Line
    """What was seen."""
    line: Count | None = None
    """The line of the changed file; null where it is about no line."""
    segment: str = ""
    """The exact text that asks for it; empty where none does."""
    is_mentioned_only: bool = False
    """Whether it stands in a comment or in prose, where it cannot run."""
    evidence: tuple[EvidencePointer, ...]
    """Where."""


def build_review_notes(
    evidence: Evidence, results: Sequence[CheckResult], delta: Delta
) -> tuple[ReviewNote, ...]:
    """All flags, those of the change first."""
    notes = [
        *_iter_change_notes(delta),
        *_iter_requirements(evidence, delta),
        *_iter_displaced(evidence),
        *_iter_judges(results),
    ]
    return tuple(notes[:_MOST])


def _iter_change_notes(delta: Delta) -> Iterator[ReviewNote]:
    if not isinstance(delta.view, ChangeView):
        return
    for flag in find_review_flags(delta.view):
        yield ReviewNote(
            code=flag.code,
            message=build_line(f"{flag.path}: {flag.why}"),
            line=flag.line,
            segment=flag.segment,
            is_mentioned_only=flag.confidence == "text",
            evidence=(ChangePointer(path=flag.path),),
        )


def _iter_requirements(evidence: Evidence, delta: Delta) -> Iterator[ReviewNote]:
    """B6: a person looks at every new dependency, allowed or not."""
    if isinstance(delta.view, ChangeView) and isinstance(evidence.record, ContractRecord):
        for each in list_requirements(delta.view, evidence.record.contract.policy.dependencies):
            message = build_line(f"{each.path}: requires {each.name}")
            pointer = ChangePointer(path=each.path)
            yield ReviewNote(code="new-dependency", message=message, line=each.line, evidence=(pointer,))


def _iter_displaced(evidence: Evidence) -> Iterator[ReviewNote]:
    words = {
        "collision": "an oracle file took the place of the candidate's",
        "removed": "taken away before judging, because it would have steered the judge",
    }
    seen: dict[tuple[str, str], EventPointer] = {}
    for execution in evidence.facts.executions:
        if execution.subject == "candidate":
            for code, paths in (("collision", execution.collisions), ("removed", execution.removed)):
                for path in paths:
                    seen.setdefault((code, path), execution.pointer)
    for (code, path), pointer in seen.items():
        message = build_line(f"{path}: {words[code]}")
        yield ReviewNote(code=code, message=message, evidence=(pointer, ChangePointer(path=path)))


def _iter_judges(results: Sequence[CheckResult]) -> Iterator[ReviewNote]:
    for result in results:
        is_acceptance = result.gate == "acceptance" and result.judge == "in-process"
        if is_acceptance and result.verdict == "passed" and result.twins == "not-run":
            message = f"{result.check}: candidate code ran inside the judge, and no twins were mixed in"
            yield ReviewNote(code="judge-without-twins", message=message, evidence=result.events)
