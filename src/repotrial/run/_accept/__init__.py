"""Acceptance: a new sandbox from the contract; only Δ crosses, and nothing a candidate wrote is believed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Final

from repotrial._core.clock import SystemClock
from repotrial._core.digest import Digest
from repotrial._core.words import UNPAID, JudgedTree
from repotrial.contract import Check
from repotrial.cost import Exhausted
from repotrial.environment import build_resource_limits
from repotrial.isolation import CommandResult
from repotrial.run._accept._candidate import (
    Candidate,
    apply_patch_inside,
    build_candidate,
    build_tree_digest,
    is_applied,
)
from repotrial.run._accept._events import (
    build_draw_event,
    build_event,
    build_patch_event,
    build_skipped_event,
    report_ended_runners,
)
from repotrial.run._accept._execute import CheckExecution, Executor, Variant
from repotrial.run._accept._prepared import Prepared, apply_early
from repotrial.run._books import alert_exhausted
from repotrial.run._context import BoundRun
from repotrial.trace import (
    CheckOutcome,
    Errored,
    Failed,
    Intervention,
    OnAlert,
    Passed,
    Terminate,
    keep_artifacts,
)

_CONTROLLED: Final = frozenset(
    {"timeout", "crash", "resource-exhausted", "missing-dependency", "harness-exception"}
)
"""Errors that a candidate can bring about: it ends with 127, or kills everything in its sandbox."""


def accept(run: BoundRun, change: bytes) -> None:
    """Judge a change by every check of the contract; each execution is an event of its own."""
    loaded = run.plan.loaded
    base = run.installation.base.path
    candidate = build_candidate(loaded, change, is_in_base=lambda path: os.path.lexists(base / path))
    with ExitStack() as stack:
        prepared, digest = _apply(run, candidate, stack)
        if digest is None:
            _fail_all(run)
            return
        judge = _Judge(run, candidate, digest, prepared, stack)
        try:
            judge.judge_all(loaded.contract.checks)
        except _UnpaidError as unpaid:
            judge.conclude_unpaid(unpaid)
        judge.reveal_draws(loaded.contract.checks)


def find_variants(check: Check) -> tuple[Variant, ...]:
    """How a check is executed: plainly, and with wrong expectations where the author or the tool has any.

    The tool makes them only where candidate code shares the judge's process.
    """
    if check.gate == "build":
        return ("plain",)
    if check.negative:
        return ("plain", "negative")
    return ("plain", "twins") if check.judge == "in-process" and check.files else ("plain",)


def _list_negative_variants(check: Check) -> tuple[Variant, ...]:
    return tuple(variant for variant in find_variants(check) if variant != "plain")


def _iter_attempts(check: Check) -> range:
    return range(1, check.repeats + 1)


def _apply(run: BoundRun, candidate: Candidate, stack: ExitStack) -> tuple[Prepared, Digest | None]:
    """Apply the change to a fresh tree and say what tree that gives; None where it cannot be applied."""
    started_us = SystemClock().now_us()
    prepared, result = _apply_somewhere(run, candidate, stack)
    run.check_servers()  # a change that a lost sandbox did not apply is no change that does not apply
    is_good = candidate.unreadable is None and is_applied(result)
    base = run.plan.lock.repository.tree_digest
    digest = build_tree_digest(base, prepared.workspace.snapshot()) if is_good else None
    run.writer.append(
        build_patch_event(
            run.writer,
            candidate,
            result,
            started_us=started_us,
            ended_us=SystemClock().now_us(),
            tree_digest=digest,
        ),
        actor="harness",
    )
    return prepared, digest


def _apply_somewhere(
    run: BoundRun, candidate: Candidate, stack: ExitStack
) -> tuple[Prepared, CommandResult | None]:
    early = apply_early(run, run.plan.loaded.contract.checks[0], candidate.patch)
    if early is not None:
        return stack.enter_context(early[0]), early[1]
    prepared = stack.enter_context(Prepared(run.installation))
    return prepared, apply_patch_inside(run.installation, prepared.workspace, candidate.patch)


def _fail_all(run: BoundRun) -> None:
    """A change that does not apply satisfies no check, and every check says so."""
    reason = "the change does not apply"
    for check in run.plan.loaded.contract.checks:
        outcome = Failed(summary=f"{reason}, so nothing could be judged")
        _skip(run, check, outcome, reason)


def _skip(
    run: BoundRun,
    check: Check,
    outcome: CheckOutcome,
    reason: str,
    *,
    attempt: int = 1,
    started_us: int | None = None,
) -> None:
    now_us = SystemClock().now_us()
    event = build_skipped_event(
        run.writer,
        check,
        outcome,
        reason=reason,
        span_us=(now_us if started_us is None else started_us, now_us),
        tree_digest=run.plan.lock.repository.tree_digest,
        attempt=attempt,
    )
    run.writer.append(event, actor="harness")
    run.listener.on_check(check.id, outcome)


def _is_satisfied(check: Check, attempts: Sequence[Sequence[CheckOutcome]]) -> bool:
    """Whether later checks may build on this one, by the Oracle's own rule for repeats (S4, B11)."""
    passed = sum(all(isinstance(outcome, Passed) for outcome in attempt) for attempt in attempts)
    needed = check.passes_required if check.rule == "passes-required" else None
    return passed >= (needed or len(attempts))


def _needs_control(execution: CheckExecution) -> bool:
    """Whether only a control run can say if the change or the machine is to blame.

    What did not complete is the change's where its sandbox got the processor time that it was due: nothing
    else is shared with others (S11). Wrong expectations are ours or the author's, and may take too long.
    """
    outcome = execution.judgement.outcome
    is_error = isinstance(outcome, Errored) and outcome.reason in _CONTROLLED
    is_certain = execution.supply == "fair" and execution.variant == "plain"
    return execution.is_starved or (is_error and not is_certain)


class _UnpaidError(Exception):
    """A cap or an envelope is used up in acceptance."""

    def __init__(
        self, exhausted: Exhausted, *, cut: tuple[str, int] | None = None, started_us: int | None = None
    ) -> None:
        super().__init__(exhausted.message)
        self.exhausted = exhausted
        self.cut = cut
        """The execution that was under way."""
        self.started_us = started_us


class _Judge:
    def __init__(
        self, run: BoundRun, candidate: Candidate, digest: Digest, prepared: Prepared, stack: ExitStack
    ) -> None:
        self._run = run
        self._candidate = candidate
        self._stack = stack
        self._executor = self._open("candidate", candidate.patch, digest)
        self._executor.prepared = prepared
        self._judged: set[str] = set()
        self._recorded: set[tuple[str, int]] = set()
        """Attempts that were executed without wrong expectations, to their end."""
        self._passed: set[str] = set()
        self._negatives: dict[str, dict[int, CheckExecution]] = {}
        """By check and attempt: the suite with wrong expectations."""
        self._control: Executor | None = None
        self._controlled: dict[tuple[str, Variant], bool] = {}
        """Whether an execution of a check passed on the reference."""

    def judge_all(self, checks: Sequence[Check]) -> None:
        """Wrong expectations first (ADR 0019): a program that has seen the plain suite could tell.

        No sandbox keeps a program from leaving a mark: which pages of a file are in the machine's memory is
        enough to say of every test whether it was there before.
        """
        for check in checks:
            if self._can_run_before_plain(check):
                self._run_negative_suites(check)
        for check in checks:
            self._judge(check)

    def conclude_unpaid(self, unpaid: _UnpaidError) -> None:
        """B11: no budget is left for acceptance, adjudication included; what was judged by then is kept.

        The run's own cap fails the endpoint; an envelope that runs share says nothing about the change (B4).
        """
        run, exhausted = self._run, unpaid.exhausted
        alert = alert_exhausted(run.writer, exhausted, "accept")
        basis = OnAlert(alert=alert)
        run.writer.append(Intervention(action=Terminate(), basis=basis, effective=True), actor="harness")
        outcome: CheckOutcome = Failed(summary=exhausted.message)
        if not exhausted.is_run_cap:
            outcome = Errored(reason="resource-exhausted", detail=exhausted.message)
        for check in run.plan.loaded.contract.checks:
            for attempt in _iter_attempts(check):
                if (check.id, attempt) not in self._recorded and not self._is_skipped(check):
                    is_cut = (check.id, attempt) == unpaid.cut
                    started_us = unpaid.started_us if is_cut else None
                    _skip(run, check, outcome, UNPAID, attempt=attempt, started_us=started_us)

    def _is_skipped(self, check: Check) -> bool:
        """Whether it has its one event already: what it needs did not pass."""
        return check.id in self._judged and any(need not in self._passed for need in check.needs)

    def reveal_draws(self, checks: Sequence[Check]) -> None:
        """What the judges knew: only now, since nothing that could use it runs any more."""
        for check in checks:
            inventory = self._run.plan.loaded.inventories.get(check.id)
            for executor in (self._executor, self._control):
                if executor is None or (inventory is None and check.id not in executor.drawn):
                    continue
                event = build_draw_event(self._run.writer, check, inventory, executor)
                self._run.writer.append(event, actor="harness")

    def _can_run_before_plain(self, check: Check) -> bool:
        """Whether all that it needs can be judged before any plain suite that has wrong expectations."""
        if not _list_negative_variants(check):
            return False
        needs = self._list_needs(check)
        certain = [needed for needed in needs if not _list_negative_variants(needed)]
        before = {other.id for needed in certain for other in self._list_needs(needed)}
        if any(
            _list_negative_variants(needed) and (needed.outputs or needed.id in before) for needed in needs
        ):
            return False
        for needed in certain:
            self._judge(needed)
        return all(needed.id in self._passed for needed in certain)

    def _run_negative_suites(self, check: Check) -> None:
        executions = self._negatives.setdefault(check.id, {})
        for attempt in _iter_attempts(check):
            for variant in _list_negative_variants(check):
                execution = self._execute(check, attempt=attempt, variant=variant)
                if execution is not None:
                    self._record(execution)
                    executions[attempt] = execution
        self._execute_again(check, executions)

    def _execute_again(self, check: Check, executions: dict[int, CheckExecution]) -> None:
        """What was starved is executed once more, after all others of its kind; that counts instead."""
        starved = [attempt for attempt, execution in executions.items() if execution.is_starved]
        for number, attempt in enumerate(starved, start=check.repeats + 1):
            again = self._execute(check, attempt=number, variant=executions[attempt].variant)
            if again is not None:
                self._record(again)
                executions[attempt] = again

    def _execute(self, check: Check, *, attempt: int, variant: Variant) -> CheckExecution | None:
        """Execute it on the candidate, while that can be paid.

        Raises:
            _UnpaidError: it could not start, or was ended: what it left is not judged.
        """
        find_ending, started_us = self._run.books.find_ending, SystemClock().now_us()
        if (ending := find_ending()) is not None:
            raise _UnpaidError(ending)
        execution = self._executor.execute(check, attempt=attempt, variant=variant)
        is_lost = execution is not None and any(
            timed.result.cause == "sandbox-lost" for timed in execution.results
        )
        if is_lost and (ending := find_ending()) is not None:
            raise _UnpaidError(ending, cut=(check.id, attempt), started_us=started_us)
        return execution

    def _judge(self, check: Check) -> None:
        if check.id in self._judged:
            return
        self._judged.add(check.id)
        unmet = [needed for needed in check.needs if needed not in self._passed]
        if unmet:
            reason = f"needs {unmet[0]}, which did not pass"
            _skip(self._run, check, Failed(summary=reason), reason)
            return
        if check.id not in self._negatives:
            self._run_negative_suites(check)
        plain = {number: self._attempt(check, number) for number in _iter_attempts(check)}
        self._execute_again(check, plain)
        believed = [self._list_believed(execution, number) for number, execution in plain.items()]
        outcomes = [[each.judgement.outcome for each in attempt] for attempt in believed]
        for each in outcomes:
            # Once, and the worst: a pass that is not believed must not be seen as one for a moment.
            worst = next((outcome for outcome in each if not isinstance(outcome, Passed)), each[0])
            self._run.listener.on_check(check.id, worst)
        if _is_satisfied(check, outcomes):
            self._passed.add(check.id)
            return
        unexplained = [each.variant for attempt in believed for each in attempt if _needs_control(each)]
        if unexplained:
            self._attribute(check, "plain" if "plain" in unexplained else unexplained[-1])

    def _attempt(self, check: Check, attempt: int) -> CheckExecution:
        execution = self._execute(check, attempt=attempt, variant="plain")
        assert execution is not None, "only twins can be impossible"
        self._record(execution)
        self._recorded.add((check.id, attempt))
        return execution

    def _list_believed(self, execution: CheckExecution, attempt: int) -> list[CheckExecution]:
        """A pass is believed only where the wrong expectations failed.

        Those of a suite that fails prove nothing: a wrong product may meet a wrong expectation.
        """
        negative = self._negatives[execution.check.id].get(attempt)
        is_passed = isinstance(execution.judgement.outcome, Passed)
        return [execution, negative] if negative is not None and is_passed else [execution]

    def _attribute(self, check: Check, variant: Variant) -> None:
        """The same execution on the reference tree, on this machine, at once: whose fault is it?"""
        reference = self._run.plan.loaded.reference
        if reference is None or self._run.books.find_ending() is not None:
            return
        if self._control is None:
            self._control = self._open("reference", reference, self._run.plan.lock.repository.tree_digest)
        # If what it needs does not pass on the reference either, the control says nothing.
        if all(self._passes_control(self._control, needed, "plain") for needed in self._list_needs(check)):
            self._passes_control(self._control, check, variant)

    def _passes_control(self, control: Executor, check: Check, variant: Variant) -> bool:
        """Once for each check: a second event of the same attempt would make the whole trace invalid."""
        key = (check.id, variant)
        if key not in self._controlled:
            self._run.lifecycle.is_doubtful = True
            execution = control.execute(check, attempt=1, variant=variant)
            assert execution is not None, "twins that were possible are so on any tree"
            self._controlled[key] = isinstance(execution.judgement.outcome, Passed)
            self._record(execution)
        return self._controlled[key]

    def _open(self, subject: JudgedTree, patch: bytes, digest: Digest) -> Executor:
        executor = Executor(run=self._run, subject=subject, patch=patch, tree_digest=digest)
        self._stack.callback(executor.close)
        return executor

    def _list_needs(self, check: Check) -> list[Check]:
        """All that must come before it, also for what it needs, in the order of the contract."""
        checks = self._run.plan.loaded.contract.checks
        by_id = {each.id: each for each in checks}
        needed: set[str] = set()
        pending = list(check.needs)
        while pending:
            name = pending.pop()
            if name not in needed:
                needed.add(name)
                pending += by_id[name].needs
        return [each for each in checks if each.id in needed]

    def _record(self, execution: CheckExecution) -> None:
        run = self._run
        event = build_event(run.writer, execution, self._candidate)
        report_ended_runners(
            run.writer, event, build_resource_limits(run.plan.loaded.contract.limits, phase="accept")
        )
        run.writer.append(event, actor="harness")
        run.writer.flush()
        keep_artifacts(run.paths, event)
