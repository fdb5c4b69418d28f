"""Executions as the trace records them (S12)."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable
from functools import partial
from itertools import accumulate
from typing import Any, Final, TypeAlias

import msgspec

from repotrial._core.digest import Digest
from repotrial.contract import Check, Inventory
from repotrial.isolation import CommandResult, ResourceLimits
from repotrial.judging import RunnerRecord
from repotrial.run._accept._candidate import APPLY_ARGV, Candidate, find_rejected_paths, is_applied
from repotrial.run._accept._execute import RESULT_BYTES, CheckExecution, Executor, prints_results
from repotrial.run._termination import CEILING_CODES
from repotrial.trace import (
    AcceptanceExecution,
    BuildCheck,
    CheckOutcome,
    Command,
    DrawRevealed,
    EndCommand,
    Errored,
    Exited,
    Failed,
    Intervention,
    LogPointer,
    MonitorAlert,
    NotStarted,
    OnAlert,
    Passed,
    PatchApplication,
    RunnerExecution,
    Signal,
    StaticCheck,
    TestIds,
    TraceWriter,
)
from repotrial.witness import build_output

CheckEvent: TypeAlias = AcceptanceExecution | BuildCheck | StaticCheck
STATIC_LAYER: Final = "static"
"""What a contract calls the layer of checks that look at the tree without running it."""

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


def build_event(writer: TraceWriter, execution: CheckExecution, candidate: Candidate) -> CheckEvent:
    """What one execution of a check came to."""
    check, judgement = execution.check, execution.judgement
    of = find_event_type(check)
    is_candidate = execution.subject == "candidate"
    runners = _build_runners(writer, execution, of)
    last = runners[-1]
    built = BuildCheck(
        started_at_us=execution.started_us,
        ended_at_us=execution.ended_us,
        cpu_us=_sum(runner.cpu_us for runner in runners),
        ceiling_us=last.ceiling_us,
        command=last.command,
        exit=last.exit,
        cause=last.cause,
        peak_memory_bytes=_max(runner.peak_memory_bytes for runner in runners),
        outcome=_cut_text(judgement.outcome),
        stdout=last.stdout,
        stderr=last.stderr,
        logs=_keep_logs(writer, execution.records, of),
        check_id=check.id,
        gate=check.gate,
        attempt=execution.attempt,
        subject=execution.subject,
        collisions=_list_first(candidate.collisions.get(check.id, ())) if is_candidate else (),
        removed=_list_first(candidate.steering) if is_candidate else (),
        runners=runners,
    )
    if of is BuildCheck:
        return built
    if of is StaticCheck:
        has_results = judgement.results_digest is not None
        return StaticCheck(**_list_fields(built), findings=judgement.failing.count if has_results else None)
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


def find_event_type(check: Check) -> type[CheckEvent]:
    """S12: a check of gate 2 is a build, or looks at the tree without running it."""
    if check.gate != "build":
        return AcceptanceExecution
    return StaticCheck if check.layer == STATIC_LAYER else BuildCheck


def _build_runners(
    writer: TraceWriter, execution: CheckExecution, of: type[CheckEvent]
) -> tuple[RunnerExecution, ...]:
    """Each command with all that it printed where it is judged by that, else with the beginning."""
    found = []
    for record, timed in zip(execution.records, execution.results, strict=True):
        result, started_us = timed.result, timed.started_us
        stdout = (
            partial(build_output, log_bytes=RESULT_BYTES) if prints_results(record.runner) else build_output
        )
        found.append(
            RunnerExecution(
                started_at_us=started_us,
                ended_at_us=started_us + result.usage.wall_us,
                cpu_us=result.usage.cpu_us,
                peak_memory_bytes=result.usage.peak_memory_bytes,
                pressure=result.usage.pressure or msgspec.UNSET,
                ceiling_us=timed.ceiling_us,
                command=Command(argv=("/bin/sh", "-c", record.runner.run), cwd=record.runner.cwd),
                exit=result.exit,
                cause=result.cause,
                stdout=stdout(writer, result.stdout, of=of),
                stderr=build_output(writer, result.stderr, of=of),
                changed=timed.changed,
            )
        )
    return tuple(found)


def build_draw_event(
    writer: TraceWriter, check: Check, inventory: Inventory | None, executor: Executor
) -> DrawRevealed:
    """What the judges of a check knew beside its results: with it, they can be asked again."""
    drawn = executor.drawn.get(check.id)
    keep = partial(writer.body, of=DrawRevealed)
    return DrawRevealed(
        check_id=check.id,
        subject=executor.subject,
        inventory=None if inventory is None else keep(msgspec.json.encode(inventory)),
        twins=None if drawn is None or not drawn.twins else keep(msgspec.json.encode(drawn.twins)),
        wrong=() if drawn is None else tuple(sorted(drawn.wrong)),
    )


def report_ended_runners(writer: TraceWriter, event: CheckEvent, limits: ResourceLimits) -> None:
    """A ceiling that ended a command of a check: the alert, and what was done about it (P14, P18)."""
    for number, runner in enumerate(event.runners, start=1):
        if runner.cause == "ended" or runner.cause == "sandbox-lost":  # noqa: PLR1714 - narrows the type
            continue
        observed_us = runner.ended_at_us - runner.started_at_us
        signals = [
            Signal(name="runner", value=number),
            Signal(name="wall_us", value=observed_us, threshold=runner.ceiling_us),
        ]
        if runner.peak_memory_bytes is not None:
            ceiling = limits.memory_mb * 1024**2
            signals.append(
                Signal(name="peak_memory_bytes", value=runner.peak_memory_bytes, threshold=ceiling)
            )
        alert = writer.append(
            MonitorAlert(
                monitor="resources",
                rule=CEILING_CODES[runner.cause][1],
                severity="warning",
                phase="accept",
                signals=tuple(signals),
            ),
            actor="monitor",
        )
        detail = f"check {event.check_id}, attempt {event.attempt}, command {number}"
        writer.append(
            Intervention(action=EndCommand(), basis=OnAlert(alert=alert.seq), effective=True, detail=detail),
            actor="harness",
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
    writer: TraceWriter,
    check: Check,
    outcome: CheckOutcome,
    *,
    reason: str,
    span_us: tuple[int, int],
    tree_digest: Digest,
    attempt: int,
) -> CheckEvent:
    """A check that could not start: it still has its event, because silence is no evidence (P15)."""
    built = BuildCheck(
        started_at_us=span_us[0],
        ended_at_us=span_us[1],
        command=Command(argv=("/bin/sh", "-c", check.all_runners[-1].run), cwd=check.cwd),
        exit=NotStarted(reason=reason),
        outcome=outcome,
        stdout=writer.output(b""),
        stderr=writer.output(b""),
        check_id=check.id,
        gate=check.gate,
        attempt=attempt,
    )
    of = find_event_type(check)
    if of is not AcceptanceExecution:
        return of(**_list_fields(built))
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
    writer: TraceWriter, records: tuple[RunnerRecord, ...], of: type[CheckEvent]
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
