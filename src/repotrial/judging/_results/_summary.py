"""Results of all files of a check together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from repotrial.judging._results._model import TestOutcome, TestResult

_WORSE: dict[TestOutcome, int] = {"pass": 0, "skip": 1, "fail": 2, "error": 3}


class ResultsSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Each id in exactly one set: the worst outcome that was reported for it."""

    passed: frozenset[str]
    """Every report of these was a pass."""
    failed: frozenset[str]
    """Failures and errors."""
    skipped: frozenset[str]
    """Skipped, to do, or expected to fail; not a pass."""
    duplicates: frozenset[str]
    """Reported more than once with different outcomes: a sign of forgery."""

    @property
    def ids(self) -> frozenset[str]:
        """Every test that spoke."""
        return self.passed | self.failed | self.skipped


def merge_results(parts: Iterable[tuple[TestResult, ...]]) -> ResultsSummary:
    """One outcome for each id: error before fail before skip before pass."""
    worst: dict[str, TestOutcome] = {}
    duplicates: set[str] = set()
    for part in parts:
        for result in part:
            known = worst.setdefault(result.id, result.outcome)
            if known != result.outcome:
                duplicates.add(result.id)
                worst[result.id] = max(known, result.outcome, key=_WORSE.__getitem__)
    return ResultsSummary(
        passed=_select(worst, "pass"),
        failed=_select(worst, "fail", "error"),
        skipped=_select(worst, "skip"),
        duplicates=frozenset(duplicates),
    )


def _select(worst: dict[str, TestOutcome], *outcomes: TestOutcome) -> frozenset[str]:
    return frozenset(test for test, outcome in worst.items() if outcome in outcomes)
