"""From what the runners of a check left behind to an outcome (C5, P3). Pure.

A pass needs all of it: every command ended with 0 by itself, results can be read, every id of the inventory
has an explicit pass, nothing failed. A command that did not come to its end, or left no readable results,
says nothing about the change: that is an error, and the control run on the reference says whose.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Final, NamedTuple, Self

import msgspec

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.display import list_some, neutralize
from repotrial._core.errors import EvidenceError
from repotrial._core.words import EndCause, ErrorReason
from repotrial.contract import Check, Inventory, ResultFile, Runner
from repotrial.judging._results._model import RESULTS_UNREADABLE, TestResult
from repotrial.judging._results._parse import (
    ResultsSummary,
    as_reported,
    compare_with_inventory,
    merge_results,
    parse_results,
)
from repotrial.judging._twins._judge import find_silent, judge_twins, pair_tests
from repotrial.judging._twins._model import Twin
from repotrial.trace import (
    CheckOutcome,
    Errored,
    Exited,
    ExitStatus,
    Failed,
    NotStarted,
    Passed,
    Signaled,
    TestIds,
    TwinCount,
)

_CAUSES: Final[dict[EndCause, ErrorReason]] = {
    "timeout": "timeout",
    "cpu": "resource-exhausted",
    "memory": "resource-exhausted",
    "output": "resource-exhausted",
    "disk": "resource-exhausted",
    "processes": "resource-exhausted",
    "sandbox-lost": "harness-exception",
}
_NOT_FOUND: Final = (126, 127)
_TAIL_CHARACTERS: Final = 300
_SHOWN_IDS: Final = 3


_NO_TESTS = TestIds.build([])


class RunnerRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One command of a check, how it ended, and what it left."""

    runner: Runner
    exit: ExitStatus
    cause: EndCause
    wall_us: int
    stdout: bytes
    """The beginning of what it printed."""
    stdout_bytes: int
    """How much it printed."""
    stderr: bytes
    """The beginning of what it printed as errors."""
    files: Mapping[str, bytes]
    """What lay in the results directory afterwards, by name."""


class Judgement(msgspec.Struct, frozen=True, kw_only=True):
    """What one execution of a check says."""

    outcome: CheckOutcome
    failing: TestIds
    missing: TestIds
    passed_count: int = 0
    skipped_count: int = 0
    results_digest: Digest | None = None
    twins: TwinCount | None = None


def judge_plain(check: Check, inventory: Inventory | None, records: Sequence[RunnerRecord]) -> Judgement:
    """The suite as the contract has it."""
    read = _read(records)
    if isinstance(read, Errored):
        return Judgement(outcome=read, failing=_NO_TESTS, missing=_NO_TESTS)
    wanted = inventory or Inventory(fail_to_pass=())
    verdict = compare_with_inventory(read.summary, wanted, check.expected_skips)
    complaints = [
        _complain("no result of", verdict.missing),
        _complain("failed:", (*verdict.failing, *verdict.unlisted_failing)),
        _complain("skipped:", verdict.skipped_unexpected),
        _complain("reported twice, differently:", verdict.contradictory),
        _complain_about_exit(records),
    ]
    found = [complaint for complaint in complaints if complaint]
    return _build(
        read, outcome=Failed(summary="; ".join(found)) if found else Passed(), missing=verdict.missing
    )


def judge_twinned(
    check: Check, inventory: Inventory | None, twins: Sequence[Twin], records: Sequence[RunnerRecord]
) -> Judgement:
    """The suite with twins mixed in: an honest judge fails exactly them, and passes all the others.

    Both are asked for id by id. A candidate that detects the twins, which is easy, could otherwise report
    nothing in this run, and a pass of everything in the other.
    """
    read = _read(records)
    if isinstance(read, Errored):
        return Judgement(outcome=read, failing=_NO_TESTS, missing=_NO_TESTS)
    verdict = judge_twins(read.summary, twins)
    beside = _judge_beside(read.summary, check, inventory or Inventory(fail_to_pass=()), twins)
    quiet = verdict.missing if inventory else (*verdict.missing, *verdict.idle)
    silent = sorted({*(twin.name for twin in quiet), *beside.silent})
    others = tuple(test for test in verdict.other_failing if test not in check.expected_skips)
    complaints = [
        _complain("passed though the expectation is wrong:", verdict.survived),
        _complain("no result of the twin", silent),
        _complain("skipped although the original passed:", [twin.name for twin in verdict.evaded]),
        _complain("failed beside the twins:", others),
        _complain("no pass beside the twins:", beside.unpassed),
        "" if verdict.expected_failing else "no twin failed",
        "" if _has_failed_exit(records) else "the judge ended with 0 although twins must fail",
    ]
    return _build_negative(read, complaints, len(twins), verdict.survived, silent)


class _Beside(NamedTuple):
    """What is missing of the inventory in a run with twins."""

    silent: tuple[str, ...]
    """Wrong expectations that neither failed nor passed."""
    unpassed: tuple[str, ...]
    """Required tests without a result, skipped, or reported twice with different outcomes."""


def _judge_beside(
    summary: ResultsSummary, check: Check, inventory: Inventory, twins: Sequence[Twin]
) -> _Beside:
    tests = [as_reported(test) for test in (*inventory.fail_to_pass, *inventory.pass_to_pass)]
    skips = {as_reported(test) for test in check.expected_skips}
    pairs = pair_tests({*tests, *skips}, twins)
    right = compare_with_inventory(
        summary,
        Inventory(fail_to_pass=tuple(pairs[test].true_id for test in tests)),
        [pairs[test].true_id for test in skips],
    )
    return _Beside(
        silent=find_silent(summary, (pairs[test] for test in tests if test not in skips)),
        unpassed=(*right.missing, *right.skipped_unexpected, *right.contradictory),
    )


def judge_negatives(records: Sequence[RunnerRecord]) -> Judgement:
    """The author's wrong-expectation suite alone: every test of it must fail."""
    read = _read(records)
    if isinstance(read, Errored):
        return Judgement(outcome=read, failing=_NO_TESTS, missing=_NO_TESTS)
    survived = tuple(sorted(read.summary.passed))
    complaints = [
        _complain("passed though the expectation is wrong:", survived),
        _complain("skipped:", tuple(sorted(read.summary.skipped))),
        "" if _has_failed_exit(records) else "the judge ended with 0 although every test must fail",
    ]
    return _build_negative(read, complaints, len(read.summary.ids), survived, ())


def judge_mixed(
    check: Check, inventory: Inventory, wrong: frozenset[str], records: Sequence[RunnerRecord]
) -> Judgement:
    """The suite with some of its expectations made wrong by the author: exactly these must fail."""
    read = _read(records)
    if isinstance(read, Errored):
        return Judgement(outcome=read, failing=_NO_TESTS, missing=_NO_TESTS)
    right = Inventory(
        fail_to_pass=tuple(test for test in inventory.fail_to_pass if test not in wrong),
        pass_to_pass=tuple(test for test in inventory.pass_to_pass if test not in wrong),
    )
    of_wrong = compare_with_inventory(read.summary, Inventory(fail_to_pass=tuple(sorted(wrong))))
    of_right = compare_with_inventory(read.summary, right, check.expected_skips)
    failed = {*of_wrong.failing} - {*of_wrong.contradictory}
    silent = (*of_wrong.missing, *of_wrong.skipped_unexpected)
    survived = tuple(sorted(wrong - failed - {*silent}))
    complaints = [
        _complain("passed though the expectation is wrong:", survived),
        _complain("no result of the wrong expectation", silent),
        _complain("failed beside them:", (*of_right.failing, *of_right.contradictory)),
        _complain("no result of", (*of_right.missing, *of_right.skipped_unexpected)),
        "" if _has_failed_exit(records) else "the judge ended with 0 although tests must fail",
    ]
    return _build_negative(read, complaints, len(wrong), survived, silent)


class ReportedTests(msgspec.Struct, frozen=True, kw_only=True):
    """The tests that one execution reported, by outcome; ids sorted."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    error: str | None = None
    """Why there are none: the command did not complete, or left no readable results; None if it did."""

    @classmethod
    def read(cls, records: Sequence[RunnerRecord]) -> Self:
        """What the commands of a check reported, whatever its inventory says."""
        read = _read(records)
        if isinstance(read, Errored):
            return cls(error=read.detail)
        return cls(
            passed=tuple(sorted(read.summary.passed)),
            failed=tuple(sorted(read.summary.failed)),
            skipped=tuple(sorted(read.summary.skipped)),
        )


class _Read(msgspec.Struct, frozen=True, kw_only=True):
    summary: ResultsSummary
    digest: Digest | None


def _read(records: Sequence[RunnerRecord]) -> _Read | Errored:
    for record in records:
        if (error := _find_error(record)) is not None:
            return error
    parts: list[tuple[TestResult, ...]] = []
    for record in records:
        try:
            for declared in record.runner.results:
                for name, data in _find_results(record, declared):
                    stem = PurePosixPath(name).stem
                    parts.append(
                        parse_results(data, format=declared.format, prefix=declared.prefix, name=stem)
                    )
        except EvidenceError as error:  # `results-unreadable`
            return _build_unreadable(record, error.message)
    return _Read(summary=merge_results(parts), digest=digest_results(records))


def digest_results(records: Iterable[RunnerRecord]) -> Digest | None:
    """One digest over all results that the commands declare; None if they declare none.

    Raises:
        RESULTS_UNREADABLE: some are not there.
    """
    digests = [
        digest_bytes(data)
        for record in records
        for declared in record.runner.results
        for _, data in _find_results(record, declared)
    ]
    return canonical_digest(list(digests)) if digests else None


def _find_error(record: RunnerRecord) -> Errored | None:
    if record.cause != "ended":
        detail = f"ended by the harness ({record.cause}) after {record.wall_us / 1e6:.1f} s"
        return Errored(reason=_CAUSES[record.cause], detail=detail)
    match record.exit:
        case Signaled(signal=number):
            return Errored(reason="crash", detail=f"ended by signal {number}{_quote(record)}")
        case NotStarted(reason=reason):
            return Errored(reason="missing-dependency", detail=reason)
        case Exited(code=code) if code in _NOT_FOUND:
            return Errored(reason="missing-dependency", detail=f"exit code {code}{_quote(record)}")
        case _:
            return None


def _build_unreadable(record: RunnerRecord, message: str) -> Errored:
    code = record.exit.code if isinstance(record.exit, Exited) else None
    detail = f"ended with {code} and without readable results: {message}{_quote(record)}"
    return Errored(reason="crash", detail=detail)


def _find_results(record: RunnerRecord, declared: ResultFile) -> list[tuple[str, bytes]]:
    if declared.format == "exit-code":
        return []
    if declared.path is None:
        if record.stdout_bytes != len(record.stdout):
            raise RESULTS_UNREADABLE.error(
                f"expected all of standard output, found {record.stdout_bytes} bytes"
            )
        return [("stdout", record.stdout)]
    found = [item for item in sorted(record.files.items()) if fnmatch.fnmatchcase(item[0], declared.path)]
    if not found:
        raise RESULTS_UNREADABLE.error(f"expected {declared.path}, found no such file")
    return found


def _build(read: _Read, *, outcome: CheckOutcome, missing: Sequence[str]) -> Judgement:
    return Judgement(
        outcome=outcome,
        failing=TestIds.build(read.summary.failed),
        missing=TestIds.build(missing),
        passed_count=len(read.summary.passed),
        skipped_count=len(read.summary.skipped),
        results_digest=read.digest,
    )


def _build_negative(
    read: _Read, complaints: Sequence[str], count: int, survived: Sequence[str], silent: Sequence[str]
) -> Judgement:
    found = [complaint for complaint in complaints if complaint]
    if not count:
        found.append("no test with a wrong expectation spoke")
    judgement = _build(read, outcome=Failed(summary="; ".join(found)) if found else Passed(), missing=())
    twins = TwinCount(mixed_in=count, survived=TestIds.build(survived), silent=TestIds.build(silent))
    return msgspec.structs.replace(judgement, twins=twins)


def _complain(what: str, ids: Sequence[str]) -> str:
    if not ids:
        return ""
    return f"{what} {list_some([neutralize(test, max_characters=200) for test in ids], most=_SHOWN_IDS)}"


def _complain_about_exit(records: Sequence[RunnerRecord]) -> str:
    codes = [record.exit.code for record in records if isinstance(record.exit, Exited)]
    bad = [code for code in codes if code != 0]
    return f"exit code {bad[0]}" if bad else ""


def _has_failed_exit(records: Sequence[RunnerRecord]) -> bool:
    return bool(_complain_about_exit(records))


def _quote(record: RunnerRecord) -> str:
    """The end of what it said, for people."""
    said = (record.stderr or record.stdout)[-_TAIL_CHARACTERS:].decode("utf-8", "replace").strip()
    return f": {neutralize(said, max_characters=_TAIL_CHARACTERS)}" if said else ""
