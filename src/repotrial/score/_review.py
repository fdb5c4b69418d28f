"""What a person should look at: review flags, and an interpretation of a failure (P31); no gate reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from repotrial._core.canonical import Count
from repotrial._core.display import escape_unprintable
from repotrial.change import ChangeView
from repotrial.contract import ContractRecord
from repotrial.policy import find_review_flags
from repotrial.score._delta import ReadDelta, list_requirements
from repotrial.score._evidence import (
    ChangePointer,
    Document,
    EventPointer,
    Evidence,
    EvidencePointer,
    Line,
    WorkspaceEdit,
    build_line,
)
from repotrial.score._outcomes import CheckResult

_TESTS_SHOWN = 20


class FailingTests(Document, frozen=True, kw_only=True):
    """Tests of one check that failed."""

    check: Line
    """The check."""
    count: Count
    """How many failed in its worst attempt."""
    tests: tuple[str, ...]
    """The first of them."""


class RecentEdit(Document, frozen=True, kw_only=True):
    """One of the last changes of the workspace while the agent acted."""

    seq: Count
    """Its event."""
    paths: tuple[str, ...]
    """The first files of it."""
    path_count: Count
    """How many files there were."""


class AttributionSummary(Document, frozen=True, kw_only=True):
    """Where a person would look first."""

    label: Literal["interpretation"]
    """This is a reading of the trace, not a finding."""
    failing_tests: tuple[FailingTests, ...]
    """By check."""
    recent_edits: tuple[RecentEdit, ...]
    """The last of them, in order."""
    last_green: Count | None
    """The agent's last test run that ended well; null if none was seen."""
    first_red: Count | None
    """Its first failing test run after that; null if none was seen."""
    sentences: tuple[Line, ...]
    """The guess, in at most a few sentences."""


class RecentDiff(Document, frozen=True, kw_only=True):
    """What one of the last changes made of one path."""

    seq: Count
    """Its event."""
    path: str
    """The path."""
    diff: str
    """The beginning of its unified diff; in brackets, why there is none."""
    is_cut: bool
    """Whether there is more of it."""


class FailureAttribution(Document, frozen=True, kw_only=True):
    """Where a failure may come from (P31): facts first, then a reading of them."""

    failing_tests: tuple[FailingTests, ...]
    """By check: ids of tests that failed, as the trace has them."""
    recent_diffs: tuple[RecentDiff, ...]
    """The last changes of the workspace while the agent acted, the newest last."""
    causal_summary: AttributionSummary
    """An interpretation, labeled as that."""


def build_failure_attribution(
    evidence: Evidence, results: Sequence[CheckResult], summary: AttributionSummary
) -> FailureAttribution:
    """The same evidence that the summary reads, in full as far as it is bounded."""
    return FailureAttribution(
        failing_tests=tuple(
            FailingTests(check=result.check, count=result.failing_count, tests=result.failing_tests)
            for result in results
            if result.verdict != "passed" and result.failing_count
        ),
        recent_diffs=tuple(
            RecentDiff(
                seq=edit.seq,
                path=diff.path,
                diff=escape_unprintable(diff.text, keep="\n\t"),
                is_cut=diff.is_cut,
            )
            for edit in evidence.facts.history.recent_edits
            for diff in edit.diffs
        ),
        causal_summary=summary,
    )


def build_attribution(evidence: Evidence, results: Sequence[CheckResult]) -> AttributionSummary:
    """What the end of the trace suggests about the cause of a failure."""
    history = evidence.facts.history
    failing = [result for result in results if result.verdict != "passed" and result.failing_count]
    return AttributionSummary(
        label="interpretation",
        failing_tests=tuple(
            FailingTests(check=r.check, count=r.failing_count, tests=r.failing_tests[:_TESTS_SHOWN])
            for r in failing
        ),
        recent_edits=tuple(
            RecentEdit(seq=edit.seq, paths=edit.paths, path_count=edit.path_count)
            for edit in history.recent_edits
        ),
        last_green=evidence.facts.work.last_green,
        first_red=evidence.facts.work.first_red_after_green,
        sentences=tuple(_iter_sentences(evidence)) if any(r.verdict != "passed" for r in results) else (),
    )


def _iter_sentences(evidence: Evidence) -> Iterator[str]:
    history = evidence.facts.history
    if history.largest_edit is not None:
        yield build_line(_describe_largest(history.largest_edit))
    if (red := evidence.facts.work.first_red_after_green) is not None:
        yield build_line(f"The first failing test run after the last green one is event {red}.")
    if history.largest_edit is None and not history.recent_edits:
        yield "No change of the workspace was recorded while the agent acted."


def _describe_largest(edit: WorkspaceEdit) -> str:
    size = f"The largest edit touched {edit.path_count} file(s) in event {edit.seq}"
    if edit.last_green is None:
        return f"{size}; no green test run was seen before it."
    return f"{size}; the last green test run before it is event {edit.last_green}."


_MOST = 200


class ReviewNote(Document, frozen=True, kw_only=True):
    """A reason to look, and where."""

    code: Line
    """Stable kebab-case name."""
    message: Line
    """What was seen."""
    line: Count | None = None
    """The line of the changed file; null if it is about no line."""
    segment: str = ""
    """The exact text that asks for it; empty where none does."""
    is_mentioned_only: bool = False
    """Whether it stands in a comment or in prose, where it cannot run."""
    evidence: tuple[EvidencePointer, ...]
    """Where."""


def build_review_notes(
    evidence: Evidence, results: Sequence[CheckResult], delta: ReadDelta
) -> tuple[ReviewNote, ...]:
    """All flags, those of the change first."""
    notes = [
        *_iter_change_notes(delta),
        *_iter_requirements(evidence, delta),
        *_iter_displaced(evidence),
        *_iter_judges(results),
    ]
    return tuple(notes[:_MOST])


def _iter_change_notes(delta: ReadDelta) -> Iterator[ReviewNote]:
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


def _iter_requirements(evidence: Evidence, delta: ReadDelta) -> Iterator[ReviewNote]:
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
