"""One run, from an empty directory to a sealed one: a row of phases."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from repotrial import __version__
from repotrial._core.clock import SystemClock
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import MachineError, RepoTrialError, UsageError
from repotrial._core.files import write_atomic
from repotrial._core.words import LifecyclePhase, TerminationCategory
from repotrial.cost import Exhausted
from repotrial.environment import HostExecution, Installation, Interrupt, interruptible, telling
from repotrial.redaction import Redactor, SecretRedactor
from repotrial.run._accept import accept
from repotrial.run._act import act
from repotrial.run._books import RunBooks, open_books
from repotrial.run._briefing import build_briefing, verify_no_leak
from repotrial.run._context import BoundRun, Lifecycle, RunListener, SilentListener
from repotrial.run._directory import open_attempt
from repotrial.run._facts import build_facts
from repotrial.run._request import PlannedRun, RunSettings
from repotrial.run._stop import BUDGET_REACHED, RUN_STOPPED
from repotrial.run._termination import terminate_unpaid
from repotrial.trace import (
    Briefing,
    Justification,
    Manifest,
    ManifestBound,
    MonitorAlert,
    OperatorDecision,
    RunFacts,
    RunOpened,
    RunPaths,
    Termination,
    TraceWriter,
    WriterOptions,
    seal_run,
    write_manifest,
)
from repotrial.witness import ExecutionRecord

_MAX_REASON: Final = 8000
"""Characters of an error's message; a record with all of a very long one could not be sealed."""


class RunEnded(msgspec.Struct, frozen=True, kw_only=True, tag_field="event", tag="ended"):
    """A run is over and sealed; what it is worth is for the judges to say."""

    run_id: str
    """Of the specification; attempts share it."""
    directory: str
    """Its record."""
    fault: str | None
    """What kept the harness from carrying it through; None if nothing did."""
    hint: str = ""
    """What to do about it; empty if that is not known."""
    is_stopped: bool = False
    """Whether that was because the operator stopped it."""
    is_doubtful: bool = False
    """Whether it came to its end, but only its judges can tell if the machine kept it from working."""

    @property
    def paths(self) -> RunPaths:
        return RunPaths(Path(self.directory))


def conduct_run(
    plan: PlannedRun,
    settings: RunSettings,
    open_installation: Callable[[], Installation],
    *,
    listener: RunListener | None = None,
) -> RunEnded:
    """Carry out one attempt. Whatever goes wrong after the directory exists is recorded in it.

    Args:
        plan: The run.
        settings: Of all runs.
        open_installation: The contract's environment; shared by many runs, so not closed here.
        listener: Told of phases and checks.

    Raises:
        RUN_DIRECTORY: there is no place for the record.
    """
    paths = open_attempt(settings.runs, plan.spec, plan.record, number=plan.number)
    started_at_us = SystemClock().now_us()
    options = WriterOptions(is_durable=False)  # it ends with the seal, or counts for nothing
    with open_books(plan, settings, paths.root.name) as books:
        # P1: from here on whatever happens has a record, before anything is provisioned or set up.
        writer = _open_trace(paths, _find_redactor(settings, paths), options)
        attempt = _Attempt(
            plan=plan,
            settings=settings,
            paths=paths,
            writer=writer,
            lifecycle=Lifecycle(writer, listener or SilentListener()),
            listener=listener or SilentListener(),
            books=books,
            options=options,
            started_at_us=started_at_us,
        )
        with writer:
            fault, words = attempt.carry_out(open_installation)
            attempt.lifecycle.enter("seal")
        seal_run(paths, settings.key, harness_version=__version__, head=writer.head)
        books.settle(paths)
    return RunEnded(
        run_id=plan.spec.run_id,
        directory=str(paths.root),
        fault=words,
        hint=fault.hint if isinstance(fault, RepoTrialError) else "",
        is_stopped=isinstance(fault, UsageError) and fault.code == RUN_STOPPED,
        is_doubtful=attempt.lifecycle.is_doubtful,
    )


@dataclass(frozen=True, kw_only=True)
class _Attempt:
    """One attempt with its record open, before it is known what it stands on."""

    plan: PlannedRun
    settings: RunSettings
    paths: RunPaths
    writer: TraceWriter
    lifecycle: Lifecycle
    listener: RunListener
    books: RunBooks
    options: WriterOptions
    started_at_us: int

    def carry_out(self, open_installation: Callable[[], Installation]) -> tuple[Exception | None, str | None]:
        """Bind, and go through the phases; what kept it from going on, if anything did, and in words."""
        self.lifecycle.enter("bind")
        told: list[HostExecution] = []
        with telling(told.append):
            installation = _try_open(open_installation, self.books)
        facts = build_facts(
            self.plan,
            self.settings,
            run_id=self.paths.root.name,
            installation=installation,
            started_at_us=self.started_at_us,
            options=self.options,
        )
        manifest = _bind(self.paths, facts, self.writer, self.settings.redactor)
        record = ExecutionRecord(self.writer, since_us=self.started_at_us)
        try:
            _carry_through(
                BoundRun(
                    plan=self.plan,
                    settings=self.settings,
                    paths=self.paths,
                    manifest=manifest,
                    writer=self.writer,
                    lifecycle=self.lifecycle,
                    listener=self.listener,
                    installation=_verify_open(installation, record, told),
                    books=self.books,
                ),
                record,
            )
        except Exception as error:  # noqa: BLE001 - whatever it was, the record must say so
            return error, _record_fault(self.writer, self.lifecycle, error, self.books.find_ending())
        return None, None


def _try_open(
    open_installation: Callable[[], Installation], books: RunBooks
) -> Installation | RepoTrialError:
    """What the run stands on; a run that stands on nothing is recorded as that.

    Provisioning and Setup are paid from the run's budget: they end with it.
    """
    interrupt = Interrupt()
    installation: Installation | RepoTrialError
    try:
        with interruptible(interrupt), books.watch(lambda _: interrupt.throw()):
            installation = open_installation()
    except RepoTrialError as error:
        installation = error
    if (ending := books.find_ending()) is not None:
        return BUDGET_REACHED.error(f"before the agent began: {ending.message}")
    return installation


def _verify_open(
    installation: Installation | RepoTrialError, record: ExecutionRecord, told: list[HostExecution]
) -> Installation:
    """What the run stands on; where there is nothing, what was tried is on record before it ends."""
    if isinstance(installation, RepoTrialError):
        record.take_all(told)
        raise installation
    return installation


def _carry_through(run: BoundRun, record: ExecutionRecord) -> None:
    with telling(record.take):
        try:
            _go_through_phases(run, record)
        except (MachineError, OSError):
            run.check_servers()  # what failed after such a loss failed for it
            raise


def _go_through_phases(run: BoundRun, record: ExecutionRecord) -> None:
    verify_going = run.settings.stopper.verify_going

    def enter(phase: LifecyclePhase) -> None:
        run.lifecycle.enter(phase)
        run.books.enter(phase, run.plan.agent)

    enter("set-up")
    record.take_all(run.installation.executions)
    verify_going()
    if (reached := run.installation.setup_network) is not None:
        record.take_network(reached)
    enter("brief")
    briefing = _brief(run)
    enter("act")
    change = act(run, briefing)
    run.check_servers()  # before what may be a part of the change is judged
    run.writer.stage = None
    write_atomic(run.paths.change, change, is_durable=False)  # sealing makes it durable
    run.books.report(run.writer, "act")
    verify_going()
    enter("accept")
    accept(run, change)
    run.books.report(run.writer, "accept")


def _find_redactor(settings: RunSettings, paths: RunPaths) -> Redactor:
    """What texts pass through; under a custody policy it keeps their originals, encrypted (P27)."""
    if settings.custody is None:
        return settings.redactor
    return settings.custody.open_redactor(settings.redactor, run=paths.root.name)


def _open_trace(paths: RunPaths, redactor: Redactor, options: WriterOptions) -> TraceWriter:
    opened = RunOpened(
        run_id=paths.root.name,
        redaction_rules_id=redactor.rules_id,
        harness_version=__version__,
        completeness_rules=3,
        policy_rules=2,
    )
    return TraceWriter.create(paths, opened, redactor=redactor, options=options)


def _bind(paths: RunPaths, facts: RunFacts, writer: TraceWriter, redactor: SecretRedactor) -> Manifest:
    """Say what run this is, now that it is known what it stands on (P2)."""
    manifest = facts.build_manifest()
    written = write_manifest(paths.manifest, manifest, redactor=redactor)
    writer.append(ManifestBound(manifest_digest=digest_bytes(written)), actor="harness")
    return manifest


def _brief(run: BoundRun) -> str:
    """Tell the agent what there is to do, and keep every word of it (P6)."""
    loaded = run.plan.loaded
    verify_no_leak(loaded)
    text = build_briefing(loaded.contract, loaded.statement, run.plan.agent.briefing)
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


def _record_fault(
    writer: TraceWriter, lifecycle: Lifecycle, error: Exception, unpaid: Exhausted | None
) -> str:
    """Record that the harness could not go on, and why; the agent did not fail."""
    code = error.code if isinstance(error, RepoTrialError) else "harness-exception"
    said = error.message if isinstance(error, RepoTrialError) else f"{type(error).__name__}: {error}"
    text = said[:_MAX_REASON].encode("utf-8", "backslashreplace").decode("utf-8")
    is_stopped = isinstance(error, UsageError) and error.code == RUN_STOPPED
    evidence: tuple[int, ...] = ()
    if is_stopped:
        decision = OperatorDecision(
            operator="operator",
            decision="abort",
            justification=Justification(reason=code, text="the harness was told to stop"),
        )
        evidence = (writer.append(decision, actor="operator").seq,)
    if unpaid is not None and isinstance(error, UsageError) and error.code == BUDGET_REACHED:
        terminate_unpaid(writer, lifecycle, unpaid, phase=lifecycle.phase or "bind")
    elif lifecycle.has_termination:
        # Acting has ended before: what broke afterwards is the harness's own.
        phase = lifecycle.phase or "bind"
        writer.alert(MonitorAlert(monitor="harness", rule=code, severity="critical", phase=phase), text)
    else:
        category: TerminationCategory = "operator-abort" if is_stopped else "harness-fault"
        lifecycle.terminate(
            Termination(category=category, nature="none", code=code, rationale=text, evidence=evidence)
        )
    return f"{code}: {text}"
