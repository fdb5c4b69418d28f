"""Which tests spoke in an execution on record: read again from the results that the trace kept. Pure."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator
from pathlib import PurePosixPath

import msgspec

from repotrial._core.errors import EvidenceError
from repotrial.contract import Check, ResultFile, Runner
from repotrial.judging._results._model import MAX_RESULTS_BYTES, RESULTS_UNREADABLE, TestResult
from repotrial.judging._results._parse import parse_results
from repotrial.judging._results._summary import ResultsSummary, merge_results
from repotrial.trace import BLOB_MISSING, AcceptanceExecution, BlobStore, Errored, TestIds


class RecordedTests(msgspec.Struct, frozen=True, kw_only=True):
    """The tests of one execution, by what they reported; ids sorted."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    skipped: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    """Of the inventory, without a result."""
    remark: str | None = None
    """Why these may not be all; null where they are."""
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
    if runner != check.all_runners[-1]:
        raise RESULTS_UNREADABLE.error(
            "expected all of standard output, found that only the last command's is kept"
        )
    stream = event.stdout.load(blobs)
    if stream.lost is not None:
        raise BLOB_MISSING.error(stream.lost)
    if not stream.is_whole:
        raise RESULTS_UNREADABLE.error(
            f"expected all {stream.length_bytes} bytes of standard output, found {len(stream.data)} on record"
        )
    return stream.data
