"""Results of all files of a check together."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from repotrial.contract import Inventory
from repotrial.judging._results._model import WORSE, TestOutcome, TestResult, clean_id, is_clean_id


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
                worst[result.id] = max(known, result.outcome, key=WORSE.__getitem__)
    return ResultsSummary(
        passed=_select(worst, "pass"),
        failed=_select(worst, "fail", "error"),
        skipped=_select(worst, "skip"),
        duplicates=frozenset(duplicates),
    )


def _select(worst: dict[str, TestOutcome], *outcomes: TestOutcome) -> frozenset[str]:
    return frozenset(test for test, outcome in worst.items() if outcome in outcomes)


class InventoryVerdict(msgspec.Struct, frozen=True, kw_only=True):
    """What keeps the results from satisfying the inventory; ids are sorted."""

    missing: tuple[str, ...]
    """Must speak and did not."""
    failing: tuple[str, ...]
    """Must pass and failed."""
    skipped_unexpected: tuple[str, ...]
    """Must pass and were skipped, without the contract's leave."""
    contradictory: tuple[str, ...]
    """Of the inventory, and reported with different outcomes."""
    unlisted_failing: tuple[str, ...]
    """Failed, though the inventory does not know them."""


def compare_with_inventory(
    summary: ResultsSummary, inventory: Inventory, expected_skips: Iterable[str] = ()
) -> InventoryVerdict:
    """Compare what was reported with what must be."""
    wanted = {as_reported(test) for test in (*inventory.fail_to_pass, *inventory.pass_to_pass)}
    may_skip = {as_reported(test) for test in expected_skips}
    return InventoryVerdict(
        missing=_sort(wanted - summary.ids),
        failing=_sort(wanted & summary.failed),
        skipped_unexpected=_sort((wanted & summary.skipped) - may_skip),
        contradictory=_sort(wanted & summary.duplicates),
        unlisted_failing=_sort(summary.failed - wanted),
    )


def as_reported(test: str) -> str:
    """An id of an inventory as results have it."""
    # An inventory may have been written by hand, with control characters as the runner prints them.
    return test if is_clean_id(test) else clean_id(test)


def _sort(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted(ids))
