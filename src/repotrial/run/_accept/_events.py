"""Executions as the trace records them (S12)."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from itertools import accumulate
from typing import Any, Final

from repotrial._core.digest import Digest
from repotrial.contract import Check
from repotrial.isolation import CommandResult
from repotrial.judging import RunnerRecord
from repotrial.run._accept._candidate import APPLY_ARGV, Candidate, find_rejected_paths, is_applied
from repotrial.run._accept._execute import CheckExecution
from repotrial.run._program_events import build_output
from repotrial.trace import (
    AcceptanceExecution,
    BuildCheck,
    CheckOutcome,
    Command,
    Errored,
    Exited,
    Failed,
    LogPointer,
    NotStarted,
    Passed,
    PatchApplication,
    TestIds,
    TraceWriter,
)

_NOTHING_TO_DO = Exited(code=0)
_MOST_LOGS: Final = 1000
_NAME_CHARACTERS: Final = 1024**2
"""Of all names in one list: a candidate must not make its own event too large to record."""
_TEXT_CHARACTERS: Final = 10_000


def build_patch_event(
    writer: TraceWriter,
    candidate: Candidate,
    result: CommandResult | None,
    *,
    started_us: int,
    ended_us: int,
    tree_digest: Digest | None,
) -> PatchApplication:
    """How the change met a fresh tree (gate 1)."""
    return PatchApplication(
        started_at_us=started_us,
        ended_at_us=ended_us,
        cpu_us=None if result is None else result.usage.cpu_us,
        command=Command(argv=APPLY_ARGV, cwd="."),
        exit=_NOTHING_TO_DO if result is None else result.exit,
        cause="ended" if result is None else result.cause,
        outcome=_cut_text(_judge_application(candidate, result)),
        stdout=writer.output(b"")
        if result is None
        else build_output(writer, result.stdout, of=PatchApplication),
        stderr=writer.output(b"")
        if result is None
        else build_output(writer, result.stderr, of=PatchApplication),
        patch_digest=candidate.digest,
        tree_digest=tree_digest,
        rejected_paths=_list_first(find_rejected_paths(result)),
        stripped_paths=_list_first(sorted({*candidate.stripped, *candidate.steering})),
    )


def _judge_application(candidate: Candidate, result: CommandResult | None) -> CheckOutcome:
    if candidate.unreadable is not None:
        return Failed(summary=f"the change cannot be read: {candidate.unreadable}")
    if is_applied(result):
        return Passed()
    assert result is not None
    if result.cause != "ended":
        return Errored(reason="harness-exception", detail=f"applying the change was ended: {result.cause}")
    return Failed(summary="the change does not apply to the snapshot")


def build_event(
    writer: TraceWriter, execution: CheckExecution, candidate: Candidate
) -> AcceptanceExecution | BuildCheck:
    """What one execution of a check came to."""
    check, runner, last = execution.check, execution.records[-1].runner, execution.results[-1]
    of = BuildCheck if check.gate == "build" else AcceptanceExecution
    is_candidate = execution.subject == "candidate"
    built = BuildCheck(
        started_at_us=execution.started_us,
        ended_at_us=execution.ended_us,
        cpu_us=_sum(result.usage.cpu_us for result in execution.results),
        ceiling_us=None if check.timeout_seconds is None else check.timeout_seconds * 10**6,
        command=Command(argv=("/bin/sh", "-c", runner.run), cwd=runner.cwd),
        exit=last.exit,
        cause=last.cause,
        peak_memory_bytes=_max(result.usage.peak_memory_bytes for result in execution.results),
        outcome=_cut_text(execution.judgement.outcome),
        stdout=build_output(writer, last.stdout, of=of),
        stderr=build_output(writer, last.stderr, of=of),
        logs=_keep_logs(writer, execution.records, of),
        check_id=check.id,
        gate=check.gate,
        attempt=execution.attempt,
        subject=execution.subject,
        collisions=_list_first(candidate.collisions.get(check.id, ())) if is_candidate else (),
        removed=_list_first(candidate.steering) if is_candidate else (),
    )
    if check.gate == "build":
        return built
    judgement = execution.judgement
    return AcceptanceExecution(
        **_list_fields(built),
        layer=check.layer,
        judge=check.judge,
        variant="plain" if execution.variant == "plain" else "twins",
        failing=judgement.failing,
        passed_count=judgement.passed_count,
        skipped_count=judgement.skipped_count,
        missing=judgement.missing,
        results_digest=judgement.results_digest,
        twins=judgement.twins,
        tree_digest=execution.tree_digest,
    )


def _cut_text(outcome: CheckOutcome) -> CheckOutcome:
    """The same; its words may quote what a candidate wrote."""
    match outcome:
        case Failed(summary=text) if len(text) > _TEXT_CHARACTERS:
            return Failed(summary=text[: _TEXT_CHARACTERS - 1] + "…")
        case Errored(reason=reason, detail=text) if len(text) > _TEXT_CHARACTERS:
            return Errored(reason=reason, detail=text[: _TEXT_CHARACTERS - 1] + "…")
        case _:
            return outcome


def _list_fields(built: BuildCheck) -> dict[str, Any]:
    """What all checks have in common, whatever their gate."""
    return {name: getattr(built, name) for name in BuildCheck.__struct_fields__}


def build_skipped_event(
    writer: TraceWriter, check: Check, outcome: CheckOutcome, *, reason: str, now_us: int, tree_digest: Digest
) -> AcceptanceExecution | BuildCheck:
    """A check that could not start: it still has its event, because silence is no evidence (P15)."""
    built = BuildCheck(
        started_at_us=now_us,
        ended_at_us=now_us,
        command=Command(argv=("/bin/sh", "-c", check.all_runners[-1].run), cwd=check.cwd),
        exit=NotStarted(reason=reason),
        outcome=outcome,
        stdout=writer.output(b""),
        stderr=writer.output(b""),
        check_id=check.id,
        gate=check.gate,
        attempt=1,
    )
    if check.gate == "build":
        return built
    return AcceptanceExecution(
        **_list_fields(built),
        layer=check.layer,
        judge=check.judge,
        failing=TestIds.build([]),
        passed_count=0,
        skipped_count=0,
        missing=TestIds.build([]),
        tree_digest=tree_digest,
    )


def _keep_logs(
    writer: TraceWriter, records: tuple[RunnerRecord, ...], of: type[AcceptanceExecution | BuildCheck]
) -> tuple[LogPointer, ...]:
    """The last look at the results directory holds what every runner left; declared results come first."""
    files = records[-1].files
    patterns = [declared.path for each in records for declared in each.runner.results if declared.path]
    declared = [name for name in sorted(files) if any(fnmatch.fnmatchcase(name, one) for one in patterns)]
    names = _list_first(dict.fromkeys([*declared, *sorted(files)]))[:_MOST_LOGS]
    kept = []
    for name in sorted(names):
        blob = writer.blob(files[name], of=of)
        if blob is not None:
            kept.append(LogPointer(name=name, blob=blob))
    return tuple(kept)


def _list_first(names: Iterable[str]) -> tuple[str, ...]:
    """As many as fit into the bound."""
    listed = [*names]
    ends = accumulate(map(len, listed))
    return tuple(name for name, end in zip(listed, ends, strict=True) if end <= _NAME_CHARACTERS)


def _sum(values: Iterable[int | None]) -> int | None:
    found = [value for value in values if value is not None]
    return sum(found) if found else None


def _max(values: Iterable[int | None]) -> int | None:
    return max((value for value in values if value is not None), default=None)
