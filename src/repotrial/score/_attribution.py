"""Failure attribution (P31): pointers and a bounded guess, labeled as interpretation; no verdict reads it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from repotrial._core.canonical import Count
from repotrial.score._document import Document, Line, build_line
from repotrial.score._evidence import Edit, Evidence
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
    """The agent's last test run that ended well; null where none was seen."""
    first_red: Count | None
    """Its first failing test run after that; null where none was seen."""
    sentences: tuple[Line, ...]
    """The guess, in at most a few sentences."""


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
        last_green=history.last_green,
        first_red=history.first_red_after_green,
        sentences=tuple(_iter_sentences(evidence)) if any(r.verdict != "passed" for r in results) else (),
    )


def _iter_sentences(evidence: Evidence) -> Iterator[str]:
    history = evidence.facts.history
    if history.largest_edit is not None:
        yield build_line(_describe_largest(history.largest_edit))
    if history.first_red_after_green is not None:
        yield build_line(
            f"The first failing test run after the last green one is event {history.first_red_after_green}."
        )
    if history.largest_edit is None and not history.recent_edits:
        yield "No change of the workspace was recorded while the agent acted."


def _describe_largest(edit: Edit) -> str:
    size = f"The largest edit touched {edit.path_count} file(s) in event {edit.seq}"
    if edit.last_green is None:
        return f"{size}; no green test run was seen before it."
    return f"{size}; the last green test run before it is event {edit.last_green}."
