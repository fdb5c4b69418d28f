"""Executions on record: the tests that reported, and the outcome derived again. Pure.

Only the judge can be another one than it was: the commands and the files of the check are those of the run.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath
from typing import TypeAlias

import msgspec

from repotrial._core.absence import NotComputable
from repotrial._core.errors import EvidenceError
from repotrial.contract import Check, Inventory, ResultFile, Runner
from repotrial.judging._judge import (
    Judgement,
    RunnerRecord,
    digest_results,
    judge_mixed,
    judge_negatives,
    judge_plain,
    judge_twinned,
)
from repotrial.judging._results._model import MAX_RESULTS_BYTES, RESULTS_UNREADABLE, TestResult
from repotrial.judging._results._parse import ResultsSummary, merge_results, parse_results
from repotrial.judging._twins._model import Twin
from repotrial.trace import (
    BLOB_MISSING,
    AcceptanceExecution,
    BlobStore,
    BuildCheck,
    DrawRevealed,
    Errored,
    NotStarted,
    Passed,
    RunnerExecution,
    StaticCheck,
    TestIds,
)

RecordedCheck: TypeAlias = AcceptanceExecution | BuildCheck | StaticCheck


class RecordedTests(msgspec.Struct, frozen=True, kw_only=True):
    """The tests of one execution, by what they reported; ids sorted."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Of the inventory, without a result."""
    remark: str | None = None
    """Why these may not be all; None if they are."""
    is_lost: bool = False
    """Whether that is because the directory does not have what was recorded."""


def read_recorded_tests(check: Check, event: AcceptanceExecution, blobs: BlobStore) -> RecordedTests:
    """The results of an execution; where they cannot be read, the ids that the event itself lists."""
    listed = list_recorded_tests(event)
    try:
        parts = [part for runner in check.all_runners for part in _iter_parts(check, runner, event, blobs)]
    except EvidenceError as error:
        is_lost = error.code != RESULTS_UNREADABLE
        return msgspec.structs.replace(listed, remark=error.message, is_lost=is_lost)
    if not parts:
        return msgspec.structs.replace(listed, remark="the check leaves no results: its exit code speaks")
    summary = merge_results(parts)
    return RecordedTests(
        passed=tuple(sorted(summary.passed)),
        failed=tuple(sorted(summary.failed)),
        skipped=tuple(sorted(summary.skipped)),
        missing=listed.missing,
        remark=_find_difference(event, summary),
    )


def list_recorded_tests(event: AcceptanceExecution) -> RecordedTests:
    """The ids that the event itself lists: what failed and what is missing, the first of them."""
    return RecordedTests(failed=event.failing.ids, missing=event.missing.ids)


def _find_difference(event: AcceptanceExecution, summary: ResultsSummary) -> str | None:
    if isinstance(event.outcome, Errored):
        return f"the check did not complete: {event.outcome.detail}"
    is_same = (
        len(summary.passed) == event.passed_count
        and len(summary.skipped) == event.skipped_count
        and TestIds.build(summary.failed).digest == event.failing.digest
    )
    return None if is_same else "the results on record are not all that was judged, or secrets were replaced"


def _iter_parts(
    check: Check, runner: Runner, event: AcceptanceExecution, blobs: BlobStore
) -> Iterator[tuple[TestResult, ...]]:
    for declared in runner.results:
        if declared.format == "exit-code":
            continue
        if declared.path is None:
            found = [("stdout", _load_stdout(check, runner, event, blobs))]
        else:
            found = _load_files(declared, declared.path, event, blobs)
        for name, data in found:
            stem = PurePosixPath(name).stem
            yield parse_results(data, format=declared.format, prefix=declared.prefix, name=stem)


def _load_files(
    declared: ResultFile, pattern: str, event: AcceptanceExecution, blobs: BlobStore
) -> list[tuple[str, bytes]]:
    logs = [log for log in event.logs if fnmatch.fnmatchcase(log.name, pattern)]
    if not logs:
        raise RESULTS_UNREADABLE.error(f"expected {pattern} on record, found no such file")
    for log in logs:
        if log.blob.size_bytes > MAX_RESULTS_BYTES:
            raise RESULTS_UNREADABLE.error(
                f"{log.name}: expected at most {MAX_RESULTS_BYTES} bytes of {declared.format} results, "
                f"found {log.blob.size_bytes}"
            )
    return [(log.name, blobs.read(log.blob)) for log in logs]


def _load_stdout(check: Check, runner: Runner, event: AcceptanceExecution, blobs: BlobStore) -> bytes:
    number = check.all_runners.index(runner)
    if number < len(event.runners):
        stream = event.runners[number].stdout.load(blobs)
    elif runner == check.all_runners[-1]:
        stream = event.stdout.load(blobs)
    else:
        raise RESULTS_UNREADABLE.error(
            "expected all of standard output, found that only the last command's is kept"
        )
    if stream.lost is not None:
        raise BLOB_MISSING.error(stream.lost)
    if not stream.is_whole:
        raise RESULTS_UNREADABLE.error(
            f"expected all {stream.length_bytes} bytes of standard output, found {len(stream.data)} on record"
        )
    return stream.data


def judge_recorded(
    event: RecordedCheck,
    blobs: BlobStore,
    *,
    recorded: Check,
    check: Check,
    inventory: Inventory | None,
    draw: DrawRevealed | None = None,
) -> Judgement | NotComputable:
    """What the judge makes of an execution on record; why nothing, if the record lacks what it needs.

    Args:
        event: The execution.
        blobs: Where the files that it left are kept.
        recorded: The check that was executed.
        check: The check to judge by.
        inventory: Of that check.
        draw: What was drawn for its wrong expectations; None if the record does not tell.

    Raises:
        EvidenceError: a file is not the one that was recorded, or is lost.
    """
    if isinstance(event.exit, NotStarted):
        return NotComputable(reason=f"it was not executed: {event.exit.reason}")
    if _list_executed(recorded) != _list_executed(check):
        return NotComputable(reason="the contract has other commands or files for it than the run executed")
    if _lacks_commands(event, recorded):
        return NotComputable(reason="the record has of its commands only how the last one ended")
    records = _build_records(event, recorded, check, blobs)
    lack = _find_lack(event, records)
    if lack is not None:
        return lack
    current = _with_runners(records, check)
    if _is_plain(event):
        return judge_plain(check, inventory, current)
    if draw is not None:
        return _judge_drawn(check, inventory, draw, current, blobs)
    if check.negative and recorded.inventory is None and inventory is None:
        return judge_negatives(current)
    return NotComputable(reason="the draw is not on record: which of its tests had a wrong expectation")


def _judge_drawn(
    check: Check,
    inventory: Inventory | None,
    draw: DrawRevealed,
    records: list[RunnerRecord],
    blobs: BlobStore,
) -> Judgement:
    if draw.twins is not None:
        twins = msgspec.json.decode(draw.twins.load(blobs), type=tuple[Twin, ...])
        return judge_twinned(check, inventory, twins, records)
    if draw.wrong and inventory is not None:
        return judge_mixed(check, inventory, frozenset(draw.wrong), records)
    return judge_negatives(records)


def apply_judgement(event: RecordedCheck, judgement: Judgement) -> RecordedCheck:
    """The execution as it is judged now; the very event if that is what it says."""
    derived = msgspec.structs.replace(event, outcome=judgement.outcome)
    if isinstance(derived, AcceptanceExecution):
        derived = msgspec.structs.replace(
            derived,
            failing=judgement.failing,
            missing=judgement.missing,
            passed_count=judgement.passed_count,
            skipped_count=judgement.skipped_count,
            twins=judgement.twins,
        )
    # Sentences for people may quote times and output that the record does not keep.
    is_same = _kind_of(event) == _kind_of(derived) and derived == msgspec.structs.replace(
        event, outcome=derived.outcome
    )
    return event if is_same else derived


def _kind_of(event: RecordedCheck) -> tuple[type, str]:
    outcome = event.outcome
    return type(outcome), outcome.reason if isinstance(outcome, Errored) else ""


def _is_plain(event: RecordedCheck) -> bool:
    return not isinstance(event, AcceptanceExecution) or event.variant == "plain"


def _list_executed(check: Check) -> list[tuple[object, ...]]:
    commands = [(runner.run, runner.cwd, runner.variables) for runner in check.all_runners]
    return [*commands, (check.variables, check.files, check.negative, check.needs)]


def _lacks_commands(event: RecordedCheck, recorded: Check) -> bool:
    """Of commands before the last one, version 1 tells no more than that all of a pass ended with 0."""
    if event.runners:
        return False
    earlier = recorded.all_runners[:-1]
    is_passed = _is_plain(event) and isinstance(event.outcome, Passed)
    has_printed = any(
        declared.path is None and declared.format != "exit-code"
        for runner in earlier
        for declared in runner.results
    )
    return bool(earlier) and (has_printed or not is_passed)


def _build_records(
    event: RecordedCheck, recorded: Check, check: Check, blobs: BlobStore
) -> list[RunnerRecord]:
    """As the check was judged, with all files that either version of it declares."""
    runners = (*recorded.all_runners, *check.all_runners)
    patterns = {declared.path for runner in runners for declared in runner.results if declared.path}
    files = {
        log.name: blobs.read(log.blob)
        for log in event.logs
        if any(fnmatch.fnmatchcase(log.name, pattern) for pattern in patterns)
    }
    if event.runners:
        told = zip(recorded.all_runners, event.runners, strict=False)  # a lost sandbox ends the others
        return [_build_record(runner, ended, files, blobs) for runner, ended in told]
    stdout, stderr = event.stdout.load(blobs), event.stderr.load(blobs)
    last = RunnerRecord(
        runner=runners[-1],
        exit=event.exit,
        cause=event.cause,
        wall_us=event.ended_at_us - event.started_at_us,
        stdout=stdout.data,
        stdout_bytes=stdout.length_bytes,
        stderr=stderr.data,
        files=files,
    )
    return _with_runners([last] * len(recorded.all_runners), recorded)


def _build_record(
    runner: Runner, ended: RunnerExecution, files: dict[str, bytes], blobs: BlobStore
) -> RunnerRecord:
    stdout, stderr = ended.stdout.load(blobs), ended.stderr.load(blobs)
    return RunnerRecord(
        runner=runner,
        exit=ended.exit,
        cause=ended.cause,
        wall_us=ended.ended_at_us - ended.started_at_us,
        stdout=stdout.data,
        stdout_bytes=stdout.length_bytes,
        stderr=stderr.data,
        files=files,
    )


def _with_runners(records: Iterable[RunnerRecord], check: Check) -> list[RunnerRecord]:
    return [
        msgspec.structs.replace(record, runner=runner)
        for record, runner in zip(records, check.all_runners, strict=False)
    ]


def _find_lack(event: RecordedCheck, records: list[RunnerRecord]) -> NotComputable | None:
    """Whether the results on record are not all of those that were judged."""
    judged = event.results_digest if isinstance(event, AcceptanceExecution) else None
    try:
        found = digest_results(records)
    except EvidenceError as error:
        if error.code != RESULTS_UNREADABLE:
            raise
        # An error may be for want of exactly this file.
        is_expected = judged is None and isinstance(event.outcome, Errored)
        return None if is_expected else NotComputable(reason=f"results are not on record: {error.message}")
    if judged is not None and judged != found:
        return NotComputable(reason="results on record are not all that was judged, or secrets were replaced")
    return None
