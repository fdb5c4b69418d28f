"""Rules about checks: each one ends, each one counts, and none can be talked into a pass (C5, S2)."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.contract._demands import iter_build_gate
from repotrial.contract._lint._subject import LintSubject, RuleFinding, rule
from repotrial.contract._oracle import Check
from repotrial.contract._problems import render_field


def has_structured_results(check: Check) -> bool:
    """Whether some command of the check reports test ids."""
    return any(result.format != "exit-code" for runner in check.all_runners for result in runner.results)


@rule(
    "check-without-timeout", "error", example='checks = [{ id = "unit", gate = "acceptance", run = "make" }]'
)
def check_without_timeout(subject: LintSubject) -> Iterator[RuleFinding]:
    """A check has no `timeout_seconds`.

    Why: a change that hangs the suite would hang the run with it, and how long is too long is the author's
    promise, not the machine's guess.

    Fix: several times what the check needs on the reference change.
    """
    for field, check in subject.iter_checks():
        if check.timeout_seconds is None:
            yield RuleFinding(
                field=f"{field}.timeout_seconds",
                message=f"expected a ceiling for check {check.id!r}, found none",
                hint="add timeout_seconds",
            )


@rule("setup-without-timeout", "error", example='setup = [{ run = "make deps" }]')
def setup_without_timeout(subject: LintSubject) -> Iterator[RuleFinding]:
    """A setup step has no `timeout_seconds`.

    Why: a step that hangs holds its worker for good, and a slow step cannot be told from a stuck one.

    Fix: several times what the step needs on a cold cache.
    """
    for index, step in enumerate(subject.contract.setup):
        if step.timeout_seconds is None:
            yield RuleFinding(
                field=f"setup[{index}].timeout_seconds",
                message=f"expected a ceiling for setup step {step.id or index}, found none",
                hint="add timeout_seconds",
            )


@rule(
    "no-mandatory-acceptance",
    "error",
    example="""
    [[checks]]
    id = "unit"
    gate = "acceptance"
    mandatory = false
    run = "make test"
    timeout_seconds = 60
    """,
)
def no_mandatory_acceptance(subject: LintSubject) -> Iterator[RuleFinding]:
    """No check of the acceptance gate is mandatory.

    Why: success is the conjunction of the mandatory checks (C5); without one, doing nothing succeeds.

    Fix: make at least one acceptance check mandatory.
    """
    if not any(check.gate == "acceptance" and check.is_mandatory for check in subject.contract.checks):
        yield RuleFinding(
            field="checks",
            message="expected a mandatory check with gate = 'acceptance', found none",
            hint="set gate = 'acceptance' and leave `mandatory` at true on the check that decides",
        )


@rule(
    "build-gate-unsaid",
    "warning",
    example="""
    [[checks]]
    id = "types"
    gate = "build"
    run = "make types"
    timeout_seconds = 60

    [scoring]
    build_gate = "none: nothing is built"
    """,
)
def build_gate_unsaid(subject: LintSubject) -> Iterator[RuleFinding]:
    """No check belongs to the build gate and the contract does not say why, or it says so beside one.

    Why: the second gate passes where nothing was checked (S2); a reader of the verdict takes that for a build
    that held.

    Fix: add a check with gate = "build", or say in words why there is none.
    """
    for finding in iter_build_gate(subject.contract.checks, subject.contract.scoring):
        yield RuleFinding(field=render_field(finding.place), message=finding.message, hint=finding.hint)


@rule(
    "layer-not-mandatory",
    "warning",
    example="""
    [[checks]]
    id = "integration"
    gate = "acceptance"
    layer = "integration"
    mandatory = false
    run = "make integration"
    timeout_seconds = 60
    """,
)
def layer_not_mandatory(subject: LintSubject) -> Iterator[RuleFinding]:
    """An acceptance layer is named, and none of its checks is mandatory.

    Why: the functional gate is made of the mandatory layers (S2); a layer that cannot fail the gate looks
    like evidence and is none.

    Fix: make one check of the layer mandatory, or take the `layer` off the optional ones.
    """
    acceptance = [(field, check) for field, check in subject.iter_checks() if check.gate == "acceptance"]
    mandatory = {check.layer for _, check in acceptance if check.is_mandatory}
    reported: set[str] = set()
    for field, check in acceptance:
        if check.layer is None or check.layer in mandatory or check.layer in reported:
            continue
        reported.add(check.layer)
        yield RuleFinding(
            field=f"{field}.layer",
            message=f"expected a mandatory check in layer {check.layer!r}, found optional ones only",
            hint="make one of them mandatory, or remove `layer`",
        )


@rule(
    "missing-baseline",
    "warning",
    example="""
    [[checks]]
    id = "unit"
    gate = "acceptance"
    run = "make test"
    timeout_seconds = 60
    """,
)
def missing_baseline(subject: LintSubject) -> Iterator[RuleFinding]:
    """An acceptance check does not say how it ends on the untouched snapshot.

    Why: certification holds the expectation against reality (C13); a check that passes already, unnoticed,
    decides nothing.

    Fix: `baseline = "fail"` for the check that the change must turn, `"pass"` for one that guards what works.
    """
    for field, check in subject.iter_checks():
        if check.gate == "acceptance" and check.baseline is None:
            yield RuleFinding(
                field=f"{field}.baseline",
                message=f"expected the outcome of {check.id!r} on the untouched snapshot, found none",
                hint='add baseline = "fail" or baseline = "pass"',
            )


@rule(
    "no-failing-check",
    "error",
    example="""
    [[checks]]
    id = "unit"
    gate = "acceptance"
    baseline = "pass"
    run = "make test"
    timeout_seconds = 60
    """,
)
def no_failing_check(subject: LintSubject) -> Iterator[RuleFinding]:
    """Nothing mandatory is declared to fail on the untouched snapshot.

    Why: the untouched snapshot must fail (C13), or an agent that changes nothing passes. What counts is an id
    in `fail_to_pass` of a mandatory check, or a mandatory check with `baseline = "fail"`.

    Fix: add the ids that the change must turn to the inventory, or declare the baseline.
    """
    for check in subject.contract.checks:
        inventory = subject.loaded.inventories.get(check.id)
        if check.is_mandatory and (check.baseline == "fail" or (inventory and inventory.fail_to_pass)):
            return
    yield RuleFinding(
        field="checks",
        message="expected a mandatory check that fails on the untouched snapshot, found none",
        hint='list ids under fail_to_pass in the inventory, or add baseline = "fail"',
    )


@rule(
    "forgeable-exit-code",
    "warning",
    example="""
    [[checks]]
    id = "unit"
    gate = "acceptance"
    baseline = "fail"
    run = "make test"
    results = [{ format = "exit-code" }]
    timeout_seconds = 60
    """,
)
def forgeable_exit_code(subject: LintSubject) -> Iterator[RuleFinding]:
    """Candidate code runs inside the judging process, and the exit code alone speaks.

    Why: one `os._exit(0)` in the product is then a pass. The exit code is sound only where the judge is
    another process that compares what the product did.

    Fix: have the runner write structured results and give an inventory, or judge from outside and say
    `judge = "out-of-process"`.
    """
    for field, check in subject.iter_checks():
        if (
            check.gate == "acceptance"
            and check.judge == "in-process"
            and check.all_runners
            and not has_structured_results(check)
        ):
            yield RuleFinding(
                field=f"{field}.judge",
                message=f"expected structured results or an out-of-process judge for {check.id!r}, "
                "found an in-process judge with nothing but its exit code",
                hint="add results and an inventory, or compare from outside",
            )


@rule(
    "missing-negative-suite",
    "warning",
    example="""
    ecosystem = "javascript"

    [[checks]]
    id = "unit"
    gate = "acceptance"
    baseline = "fail"
    run = "npm test"
    results = [{ format = "junit", path = "junit.xml" }]
    inventory = "checks/unit.json"
    timeout_seconds = 60
    """,
)
def missing_negative_suite(subject: LintSubject) -> Iterator[RuleFinding]:
    """An in-process judge outside Python has no `negative` suite.

    Why: candidate code in the judging process can rewrite results. Tests with wrong expectations, which must
    fail, show it; the harness derives them for Python only, elsewhere the author has to.

    Fix: add wrong-expectation copies of the tests under `negative`, or judge out of process.
    """
    if subject.is_python:
        return
    for field, check in subject.iter_checks():
        is_exposed = check.gate == "acceptance" and check.judge == "in-process" and not check.negative
        if is_exposed and has_structured_results(check):
            yield RuleFinding(
                field=f"{field}.negative",
                message=f"expected tests that must fail beside the in-process judge {check.id!r}, found none",
                hint='add `negative` overlays, or set judge = "out-of-process" where that is true',
            )


RULES = (
    check_without_timeout,
    setup_without_timeout,
    no_mandatory_acceptance,
    build_gate_unsaid,
    layer_not_mandatory,
    missing_baseline,
    no_failing_check,
    forgeable_exit_code,
    missing_negative_suite,
)
