"""From bytes of a declared format to results, and from all results of a check to one summary.

Anything doubtful is unreadable, never a pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.contract import Inventory, ResultFormat
from repotrial.judging._results._automake import parse_automake
from repotrial.judging._results._ctrf import parse_ctrf
from repotrial.judging._results._go import parse_go
from repotrial.judging._results._junit import parse_junit
from repotrial.judging._results._libtest import parse_libtest
from repotrial.judging._results._model import (
    MAX_RESULTS_BYTES,
    RESULTS_UNREADABLE,
    WORSE,
    TestOutcome,
    TestResult,
    clean_id,
    is_clean_id,
    verify_id,
)
from repotrial.judging._results._node import parse_node
from repotrial.judging._results._tap import parse_tap

_Parser: TypeAlias = Callable[[bytes], list[TestResult]]
_PARSERS: dict[ResultFormat, _Parser] = {
    "junit": parse_junit,
    "tap": parse_tap,
    "go-test-json": parse_go,
    "libtest": parse_libtest,
    "node-test": parse_node,
    "ctrf": parse_ctrf,
}


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


def parse_results(
    data: bytes,
    *,
    format: ResultFormat,  # noqa: A002 - the contract's own word for it
    prefix: str = "",
    name: str = "",
) -> tuple[TestResult, ...]:
    """The results in `data`, ids with `prefix`, in the order of the document.

    Args:
        data: A whole results file, or standard output.
        format: What it is declared to be; `exit-code` has no results.
        prefix: Put before every id.
        name: The file's stem: the id of formats that name no test themselves (`automake-trs`).

    Raises:
        RESULTS_UNREADABLE: The bytes are not a complete, consistent document of this format.
    """
    if format == "exit-code":
        return ()
    if len(data) > MAX_RESULTS_BYTES:
        raise RESULTS_UNREADABLE.error(
            f"expected at most {MAX_RESULTS_BYTES} bytes of {format} results, found {len(data)}"
        )
    if not data.strip():
        raise RESULTS_UNREADABLE.error(f"expected {format} results, found an empty document")
    try:
        results = parse_automake(data, name=name) if format == "automake-trs" else _PARSERS[format](data)
        return tuple(_with_prefix(result, clean_id(prefix)) for result in results)
    except EvidenceError as error:
        where = f"{format} results" + (f" of {name!r}" if name else "")
        raise RESULTS_UNREADABLE.error(f"{where}: {error.message}") from error


def _with_prefix(result: TestResult, prefix: str) -> TestResult:
    # A prefix counts toward the bound.
    return msgspec.structs.replace(result, id=verify_id(prefix + result.id)) if prefix else result
