"""One run, from an empty directory to a sealed one: a row of phases."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Final

import msgspec

from repotrial import __version__
from repotrial._core.clock import SystemClock
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import RepoTrialError
from repotrial._core.files import write_atomic
from repotrial.run._accept import accept
from repotrial.run._act import act
from repotrial.run._briefing import build_briefing, verify_no_leak
from repotrial.run._context import BoundRun
from repotrial.run._directory import open_attempt
from repotrial.run._facts import build_bound_facts, build_unbound_facts
from repotrial.run._faults import RunStoppedError
from repotrial.run._lifecycle import Lifecycle
from repotrial.run._request import RunRequest
from repotrial.run._setup_network import tell_setup_network
from repotrial.trace import (
    Briefing,
    Justification,
    Manifest,
    MonitorAlert,
    OperatorDecision,
    RunFacts,
    RunOpened,
    RunPaths,
    SecretRedactor,
    Segment,
    Termination,
    TerminationCategory,
    TraceWriter,
    WriterOptions,
    build_manifest,
    seal_run,
    write_manifest,
)

_MAX_REASON: Final = 8000
"""Characters of an error's message; a record with all of a very long one could not be sealed."""


class ConductedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was carried out; what it is worth is for the judges to say."""

    paths: RunPaths
    fault: str | None
    """What kept the harness from carrying it through; null where nothing did."""
    hint: str = ""
    """What to do about it; empty where nobody knows."""
    is_stopped: bool = False
    """Whether that was because the operator stopped it."""


def conduct_run(request: RunRequest) -> ConductedRun:
    """Carry out one attempt. Whatever goes wrong after the directory exists is recorded in it.

    Raises:
        RunDirectoryError: there is no place for the record.
    """
    paths = open_attempt(request.runs, request.spec, request.record)
    run = _bind(request, paths, request.redactor)
    if isinstance(run, ConductedRun):
        return run
    fault, hint, is_stopped = None, "", False
    with run.writer:
        try:
            _carry_through(run)
        except Exception as error:  # noqa: BLE001 - whatever it was, the record must say so
            is_stopped = isinstance(error, RunStoppedError)
            hint = error.hint if isinstance(error, RepoTrialError) else ""
            fault = _record_fault(run.writer, run.lifecycle, error)
        run.lifecycle.enter("seal")
    seal_run(paths, request.key, harness_version=__version__)
    return ConductedRun(paths=paths, fault=fault, hint=hint, is_stopped=is_stopped)


def _carry_through(run: BoundRun) -> None:
    enter, verify_going = run.lifecycle.enter, run.request.stopper.verify_going
    enter("set-up")
    verify_going()
    if (record := run.installation.setup_network) is not None:
        tell_setup_network(run.writer, record)
    enter("brief")
    briefing = _brief(run)
    enter("act")
    change = act(run, briefing)
    write_atomic(run.paths.change, change, is_durable=False)  # sealing makes it durable
    verify_going()
    enter("accept")
    accept(run, change)


def _bind(request: RunRequest, paths: RunPaths, redactor: SecretRedactor) -> BoundRun | ConductedRun:
    """Find out what the run stands on; a run that stands on nothing is recorded as that."""
    run_id, now_us = paths.root.name, SystemClock().now_us()
    rules_id = redactor.rules_id
    try:
        installation = request.open_installation()
    except RepoTrialError as error:
        reason = f"{error.code}: {error.message}"
        facts = build_unbound_facts(request, run_id, reason, rules_id=rules_id, started_at_us=now_us)
        return _seal_unbound(request, paths, facts, redactor, error)
    facts = build_bound_facts(request, run_id, installation, rules_id=rules_id, started_at_us=now_us)
    manifest, writer = _open_trace(paths, facts, redactor)
    lifecycle = Lifecycle(writer, request.listener)
    with ExitStack() as stack:
        stack.callback(writer.close)
        lifecycle.enter("bind")
        stack.pop_all()
    return BoundRun(
        request=request,
        paths=paths,
        manifest=manifest,
        writer=writer,
        lifecycle=lifecycle,
        installation=installation,
    )


def _seal_unbound(
    request: RunRequest, paths: RunPaths, facts: RunFacts, redactor: SecretRedactor, error: RepoTrialError
) -> ConductedRun:
    _, writer = _open_trace(paths, facts, redactor)
    with writer:
        lifecycle = Lifecycle(writer, request.listener)
        lifecycle.enter("bind")
        fault = _record_fault(writer, lifecycle, error)
        lifecycle.enter("seal")
    seal_run(paths, request.key, harness_version=__version__)
    is_stopped = isinstance(error, RunStoppedError)
    return ConductedRun(paths=paths, fault=fault, hint=error.hint, is_stopped=is_stopped)


def _open_trace(paths: RunPaths, facts: RunFacts, redactor: SecretRedactor) -> tuple[Manifest, TraceWriter]:
    manifest = build_manifest(facts)
    written = write_manifest(paths.manifest, manifest, redactor=redactor)
    opened = RunOpened(
        run_id=facts.run_id,
        manifest_digest=digest_bytes(written),
        redaction_rules_id=redactor.rules_id,
        harness_version=__version__,
    )
    options = WriterOptions(is_durable=False)  # it ends with the seal, or counts for nothing
    return manifest, TraceWriter.create(paths, opened, redactor=redactor, options=options)


def _brief(run: BoundRun) -> str:
    """Tell the agent what there is to do, and keep every word of it (P6)."""
    loaded = run.request.loaded
    verify_no_leak(loaded)
    text = build_briefing(loaded.contract, loaded.statement)
    keep = run.writer.body
    run.writer.append(
        Briefing(
            issue=keep(text.issue.encode(), of=Briefing),
            obligations=tuple(keep(item.encode(), of=Briefing) for item in text.obligations),
            hints=tuple(keep(item.encode(), of=Briefing) for item in text.hints),
            delivered=keep(text.delivered.encode(), of=Briefing),
        ),
        actor="harness",
    )
    return text.delivered


def _record_fault(writer: TraceWriter, lifecycle: Lifecycle, error: Exception) -> str:
    """The harness could not go on: the trace says so, and why, and nobody takes it for a failure."""
    code = error.code if isinstance(error, RepoTrialError) else "harness-exception"
    said = error.message if isinstance(error, RepoTrialError) else f"{type(error).__name__}: {error}"
    text = said[:_MAX_REASON].encode("utf-8", "backslashreplace").decode("utf-8")
    is_stopped = isinstance(error, RunStoppedError)
    evidence: tuple[int, ...] = ()
    if is_stopped:
        decision = OperatorDecision(
            operator="operator",
            decision="abort",
            justification=Justification(reason=code, text="the harness was told to stop"),
        )
        evidence = (writer.append(decision, actor="operator").seq,)
    if lifecycle.has_termination:
        _record_alert(writer, lifecycle, code, text)
    else:
        category: TerminationCategory = "operator-abort" if is_stopped else "harness-fault"
        lifecycle.terminate(
            Termination(category=category, nature="none", code=code, rationale=text, evidence=evidence)
        )
    return f"{code}: {text}"


def _record_alert(writer: TraceWriter, lifecycle: Lifecycle, code: str, text: str) -> None:
    """Acting has ended before: what broke afterwards is the harness's own."""
    segment = Segment(
        format="natural-language",
        body=writer.body(text.encode("utf-8", "backslashreplace"), of=MonitorAlert),
        event=writer.head.count - 1,
    )
    writer.append(
        MonitorAlert(
            monitor="harness",
            rule=code,
            severity="critical",
            phase=lifecycle.phase or "bind",
            segment=segment,
        ),
        actor="monitor",
    )
