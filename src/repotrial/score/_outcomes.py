"""From executions to one outcome per check: reruns (S4), twins, blocked checks, and who is to blame (S11)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.words import UNPAID, Gate
from repotrial.contract import Check, Contract
from repotrial.judging import may_be_starvation
from repotrial.score._evidence import (
    Document,
    EventPointer,
    Evidence,
    Line,
    ScoredExecution,
    Verdict,
    build_line,
)
from repotrial.trace import CheckOutcome, Errored, Failed, NotStarted, Passed

_TESTS_SHOWN = 50

Attribution: TypeAlias = Literal["not-needed", "change", "machine", "unclear"]
"""Who caused an error: what its sandbox got of the machine tells, or the same check on the reference."""

TwinResult: TypeAlias = Literal["not-run", "moot", "held", "survived", "silent", "failed", "errored"]
"""What became of the tests with wrong expectations; `held`: exactly they failed. Where the suite did not pass
without them, they are `moot`: a wrong product may meet a wrong expectation."""


class CheckResult(Document, frozen=True, kw_only=True):
    """What the Oracle's rule makes of all executions of one check."""

    check: Line
    """The contract's check."""
    gate: Gate
    """The gate that it serves."""
    layer: str | None
    """The contract's layer; null if it declares none."""
    is_mandatory: bool
    """Whether success needs it."""
    verdict: Verdict
    """pass, fail or error, after reruns and twins."""
    is_complete: bool
    """Whether every execution that the rule needs has its event (P4, P15)."""
    can_start: bool
    """Whether every execution started, or waited for a check that did not pass."""
    judge: Literal["in-process", "out-of-process"]
    """Whether candidate code ran inside the judging process: how much a pass is worth."""
    twins: TwinResult
    """What became of the twins."""
    rule: Literal["any-failure-dominates", "passes-required"]
    """How its attempts became one outcome."""
    attempts: Count
    """Executions on the candidate as the contract has them."""
    passes: Count
    """Those that passed."""
    attribution: Attribution
    """For an error, or a failure of a starved sandbox: the change's, the machine's, or not known."""
    blocked_by: str | None
    """What kept it from starting; null if nothing did."""
    events: tuple[EventPointer, ...]
    """Its executions on the candidate."""
    controls: tuple[EventPointer, ...]
    """Its executions on other trees."""
    failing_tests: tuple[str, ...]
    """Tests that failed, in any attempt; the first of them."""
    failing_count: Count
    """How many failed in the worst attempt."""
    surviving_twins: tuple[str, ...]
    """Wrong-expectation tests that passed; the first of them."""
    wall_us: Count
    """Time of its executions on the candidate, together (P23)."""
    why: tuple[Line, ...]
    """The reasons, for people."""


def build_results(contract: Contract, evidence: Evidence) -> tuple[CheckResult, ...]:
    """One result for each check of the contract, in its order."""
    verdicts: dict[str, Verdict] = {"patch": find_patch_verdict(evidence)}
    results = []
    for check in contract.checks:
        # C10: an invariant holds whatever the task, so no contract can make it optional.
        is_mandatory = check.is_mandatory or check.id in contract.policy.invariants
        result = _build_result(check, evidence, verdicts)
        result = msgspec.structs.replace(result, is_mandatory=is_mandatory)
        verdicts[check.id] = result.verdict
        results.append(result)
    return tuple(results)


def find_patch_verdict(evidence: Evidence) -> Verdict:
    """What became of applying the change."""
    patch = evidence.patch
    return "errored" if patch is None else _verdict_of(patch.event.outcome)


def _build_result(check: Check, evidence: Evidence, verdicts: Mapping[str, Verdict]) -> CheckResult:
    executed = [*evidence.iter_executions(check.id)]
    doubted = [*evidence.iter_executions(check.id, variant="twins")]
    plain, doubts = count_executions(executed, check.repeats), count_executions(doubted, check.repeats)
    passed = {e.attempt for e in plain if isinstance(e.outcome, Passed)}
    twins = [e for e in doubts if e.attempt in passed]
    controls = [e for e in evidence.facts.executions if e.check_id == check.id and e.subject != "candidate"]
    blocker = _find_blocker(check, plain, verdicts)
    verdict = _combine(check, [e.outcome for e in plain])
    if blocker is not None:  # it says nothing by itself
        verdict = verdicts[blocker]
    twin_result: TwinResult = "moot" if doubts else "not-run"
    if twins:
        twin_result = _judge_twins(check, twins, is_plain_passed=verdict == "passed")
    is_error_of_plain = verdict == "errored"
    verdict = _merge(verdict, twin_result)
    is_starved = verdict == "failed" and any(_is_starved(e) for e in plain)
    needs_blame = (verdict == "errored" or is_starved) and blocker is None and bool(plain)
    tests = [e.tests for e in (*plain, *twins) if e.tests is not None and e.variant == "plain"]
    return CheckResult(
        check=check.id,
        gate=check.gate,
        layer=check.layer,
        is_mandatory=check.is_mandatory,
        verdict=verdict,
        is_complete=blocker is not None or _is_complete(check, plain, twin_result),
        can_start=blocker is not None or not any(_could_not_start(e) for e in (*plain, *twins)),
        judge=check.judge,
        twins=twin_result,
        rule=check.rule,
        attempts=len(plain),
        passes=sum(isinstance(e.outcome, Passed) for e in plain),
        attribution=_attribute(controls, [*plain, *twins]) if needs_blame else "not-needed",
        blocked_by=blocker,
        events=tuple(e.pointer for e in (*executed, *twins)),
        controls=tuple(e.pointer for e in controls),
        failing_tests=tuple(sorted({i for t in tests for i in t.failing.ids})[:_TESTS_SHOWN]),
        failing_count=max((t.failing.count for t in tests), default=0),
        surviving_twins=_list_survivors(twins),
        wall_us=sum(e.wall_us for e in (*executed, *doubted)),
        why=_explain(check, plain if is_error_of_plain or not twins else [*plain, *twins], blocker),
    )


def _verdict_of(outcome: CheckOutcome) -> Verdict:
    match outcome:
        case Passed():
            return "passed"
        case Failed():
            return "failed"
        case Errored():
            return "errored"


def _combine(check: Check, outcomes: Sequence[CheckOutcome]) -> Verdict:
    verdicts = [_verdict_of(outcome) for outcome in outcomes]
    if not verdicts:
        return "errored"
    # S4: a safety failure dominates whatever the check's own rule says.
    if check.gate == "safety" and "failed" in verdicts:
        return "failed"
    if check.rule == "passes-required":
        needed = check.passes_required or check.repeats
        if verdicts.count("passed") >= needed:
            return "passed"
        # What did not complete might have passed.
        undecided = verdicts.count("passed") + verdicts.count("errored") >= needed
        return "errored" if undecided else "failed"
    if "failed" in verdicts:
        return "failed"
    return "errored" if "errored" in verdicts else "passed"


def _judge_twins(check: Check, twins: Sequence[ScoredExecution], *, is_plain_passed: bool) -> TwinResult:
    if any(e.twins is not None and e.twins.survived.count for e in twins):
        return "survived"
    verdicts = [_verdict_of(e.outcome) for e in twins]
    held = "passed" in verdicts if check.rule == "passes-required" else set(verdicts) == {"passed"}
    if held:
        return "held"
    if is_plain_passed and any(e.twins is not None and e.twins.silent.count for e in twins):
        return "silent"
    return "failed" if "failed" in verdicts else "errored"


def _merge(verdict: Verdict, twins: TwinResult) -> Verdict:
    if verdict == "failed" or twins in {"survived", "silent", "failed"}:
        return "failed"
    return "errored" if verdict == "errored" or twins == "errored" else "passed"


def _is_complete(check: Check, plain: Sequence[ScoredExecution], twins: TwinResult) -> bool:
    """Whether the rule can be decided from what was executed; an author's twins must have been executed."""
    passes = sum(isinstance(e.outcome, Passed) for e in plain)
    if not plain:
        return False
    if check.rule == "passes-required":
        is_decided = passes >= (check.passes_required or check.repeats) or len(plain) >= check.repeats
    else:
        is_decided = passes < len(plain) or len(plain) >= check.repeats
    is_passing = passes == len(plain)
    return is_decided and not (check.negative and is_passing and twins == "not-run")


def _could_not_start(execution: ScoredExecution) -> bool:
    """Whether something kept it from starting; a budget that was used up says nothing about the check."""
    return isinstance(execution.exit, NotStarted) and execution.exit.reason != UNPAID


def _find_blocker(
    check: Check, plain: Sequence[ScoredExecution], verdicts: Mapping[str, Verdict]
) -> str | None:
    if not any(isinstance(e.exit, NotStarted) for e in plain):
        return None
    return next((need for need in ("patch", *check.needs) if verdicts.get(need, "passed") != "passed"), None)


def _attribute(controls: Sequence[ScoredExecution], executions: Sequence[ScoredExecution]) -> Attribution:
    """S11: a change is to blame for what did not complete with all the processor time that it was due.

    Otherwise, and for wrong expectations, a control on the reference tells; beside a starved execution only
    where it passed.
    """
    undecided = [e for e in executions if isinstance(e.outcome, Errored) or _is_starved(e)]
    if undecided and all(e.supply == "fair" and e.variant == "plain" for e in undecided):
        return "change"
    on_reference = [e for e in controls if e.subject == "reference"]
    if not on_reference:
        return "unclear"
    is_starved = any(_is_starved(e) for e in undecided)
    completed = (Passed,) if is_starved else (Passed, Failed)
    return "change" if all(isinstance(e.outcome, completed) for e in on_reference) else "machine"


def _is_starved(execution: ScoredExecution) -> bool:
    """Whether it says nothing about the change, for want of processor time."""
    is_negative = execution.variant != "plain"
    return may_be_starvation(execution.outcome, execution.supply, is_negative=is_negative)


def count_executions(executions: Sequence[ScoredExecution], repeats: int) -> list[ScoredExecution]:
    """Those that count, in the contract's number: a second one stands for one that was starved."""
    first = [e for e in executions if e.attempt <= repeats]
    second = [e for e in executions if e.attempt > repeats]
    counted = []
    for execution in first:
        again = second.pop(0) if second and _is_starved(execution) else execution
        counted.append(msgspec.structs.replace(again, attempt=execution.attempt))
    return [*counted, *second]


def _list_survivors(twins: Sequence[ScoredExecution]) -> tuple[str, ...]:
    found = {i for e in twins if e.twins is not None for i in e.twins.survived.ids}
    return tuple(sorted(found)[:_TESTS_SHOWN])


def _explain(check: Check, executions: Sequence[ScoredExecution], blocker: str | None) -> tuple[str, ...]:
    if not executions:
        return (build_line(f"{check.id}: no execution was recorded"),)
    if blocker is not None:
        return (build_line(f"{check.id}: could not start, because {blocker} did not pass"),)
    lines = []
    for execution in executions:
        name = check.id if execution.variant == "plain" else f"{check.id} (with twins)"
        match execution.outcome:
            case Passed():
                continue
            case Failed(summary=summary):
                lines.append(build_line(f"{name}, attempt {execution.attempt}: {summary or 'failed'}"))
            case Errored(reason=reason, detail=detail):
                lines.append(build_line(f"{name}, attempt {execution.attempt}: {reason}: {detail}"))
    return tuple(lines) or (build_line(f"{check.id}: passed"),)
