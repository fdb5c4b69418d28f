"""CTRF, the common test report format: one JSON document. The id is `suite::name`, or the name alone."""

from __future__ import annotations

from collections import Counter
from typing import Literal, TypeAlias

import msgspec

from repotrial.judging._results._model import (
    RESULTS_UNREADABLE,
    TestOutcome,
    TestResult,
    build_result,
)

_Status: TypeAlias = Literal["passed", "failed", "skipped", "pending", "other"]
_OUTCOMES: dict[_Status, TestOutcome] = {
    "passed": "pass",
    "failed": "fail",
    "skipped": "skip",
    "pending": "skip",
    "other": "error",
}
_SUITE_SEPARATOR = " > "


class _Test(msgspec.Struct):
    name: str
    status: _Status
    duration: float | None = None
    suite: str | list[str] | None = None
    message: str | None = None


class _Summary(msgspec.Struct):
    tests: int
    passed: int
    failed: int
    skipped: int
    pending: int
    other: int


class _Results(msgspec.Struct):
    summary: _Summary
    tests: list[_Test]


class _Report(msgspec.Struct):
    results: _Results


def parse_ctrf(data: bytes) -> list[TestResult]:
    """The tests of a report whose summary counts them alike."""
    try:
        report = msgspec.json.decode(data, type=_Report)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise RESULTS_UNREADABLE.error(f"expected a CTRF report, found: {error}") from error
    tests, summary = report.results.tests, report.results.summary
    counts = Counter(test.status for test in tests)
    stated = {status: getattr(summary, status) for status in _OUTCOMES}
    if summary.tests != len(tests) or any(counts[status] != stated[status] for status in _OUTCOMES):
        raise RESULTS_UNREADABLE.error(
            f"expected the {summary.tests} tests that the summary counts as {stated}, found {dict(counts)}"
        )
    return [build_result(_build_id(test), _OUTCOMES[test.status]) for test in tests]


def _build_id(test: _Test) -> str:
    if not test.name:
        raise RESULTS_UNREADABLE.error("expected a name for every test, found an empty one")
    suite = _SUITE_SEPARATOR.join(test.suite) if isinstance(test.suite, list) else test.suite
    return f"{suite}::{test.name}" if suite else test.name
