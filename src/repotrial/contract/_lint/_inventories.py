"""Rules about inventories: every test id that must speak is named, once, and can speak (C5)."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from repotrial.contract._lint._checks import has_structured_results
from repotrial.contract._lint._subject import Example, Finding, Subject, rule
from repotrial.contract._oracle import Check, Inventory

_INVENTORY = "checks/unit.json"


def _iter_inventories(subject: Subject) -> Iterator[tuple[str, Check, Inventory]]:
    for field, check in subject.iter_checks():
        inventory = subject.loaded.inventories.get(check.id)
        if inventory is not None:
            yield field, check, inventory


@rule(
    "check-without-inventory",
    "error",
    example="""
    [[checks]]
    id = "unit"
    gate = "acceptance"
    run = "make test"
    results = [{ format = "junit", path = "junit.xml" }]
    timeout_seconds = 60
    """,
)
def check_without_inventory(subject: Subject) -> Iterator[Finding]:
    """A check reports test ids, or might, and no inventory says which ones must pass.

    Why: without a list, a test that was skipped, deselected or never collected is not missed. This concerns
    every check with structured results, and every acceptance check that leaves open what it reports.

    Fix: name an `inventory`. Where the exit code is meant to speak alone, say so with
    `results = [{ format = "exit-code" }]`.
    """
    for field, check in subject.iter_checks():
        if check.inventory is not None:
            continue
        is_undecided = check.gate == "acceptance" and any(not runner.results for runner in check.all_runners)
        if has_structured_results(check) or is_undecided:
            yield Finding(
                field=f"{field}.inventory",
                message=f"expected an inventory for check {check.id!r}, found none",
                hint='add inventory = "checks/….json", or results = [{ format = "exit-code" }] where '
                "the exit code is meant to speak alone",
            )


@rule(
    "mute-inventory",
    "error",
    example="""
    [[checks]]
    id = "unit"
    gate = "acceptance"
    baseline = "fail"
    run = "make test"
    results = [{ format = "exit-code" }]
    inventory = "checks/unit.json"
    timeout_seconds = 60
    """,
)
def mute_inventory(subject: Subject) -> Iterator[Finding]:
    """A check has an inventory, and no command of it reports test ids.

    Why: every id needs an explicit pass; where nothing reports ids, no change can ever pass.

    Fix: declare the result file that the runner writes, or drop the inventory.
    """
    for field, check in subject.iter_checks():
        if check.inventory is not None and not has_structured_results(check):
            yield Finding(
                field=f"{field}.results",
                message=f"expected structured results for the inventory of {check.id!r}, "
                "found none but an exit code",
                hint='for example: results = [{ format = "junit", path = "junit.xml" }]',
            )


@rule(
    "empty-inventory",
    "error",
    example=Example(file=_INVENTORY, text='{"fail_to_pass": [], "pass_to_pass": []}'),
)
def empty_inventory(subject: Subject) -> Iterator[Finding]:
    """An inventory names no test.

    Why: a list of no ids is satisfied by a suite that collects nothing.

    Fix: list what fails before and passes after under `fail_to_pass`, and what passes both times under
    `pass_to_pass`.
    """
    for field, check, inventory in _iter_inventories(subject):
        if not any(test.strip() for test in chain(inventory.fail_to_pass, inventory.pass_to_pass)):
            yield Finding(
                field=f"{field}.inventory",
                message=f"expected test ids in the inventory of {check.id!r}, found none",
                hint="run the suite on the reference change and list its ids",
            )


@rule(
    "decisive-test-skippable",
    "error",
    example="""
    [[checks]]
    id = "unit"
    gate = "acceptance"
    baseline = "fail"
    run = "make test"
    results = [{ format = "junit", path = "junit.xml" }]
    inventory = "checks/unit.json"
    expected_skips = ["tests/test_wrap.py::test_wide_text"]
    timeout_seconds = 60
    """,
)
def decisive_test_skippable(subject: Subject) -> Iterator[Finding]:
    """A test that must turn from failing to passing may be skipped.

    Why: a `fail_to_pass` test among `expected_skips` is passed by skipping it.

    Fix: take decisive tests out of `expected_skips`.
    """
    for field, check, inventory in _iter_inventories(subject):
        if not check.expected_skips:
            continue
        for test in sorted(set(check.expected_skips).intersection(inventory.fail_to_pass)):
            yield Finding(
                field=f"{field}.expected_skips",
                message=f"expected {test!r} to be decisive, as fail_to_pass says, found it among the skips",
                hint="remove it from expected_skips",
            )


@rule(
    "baseline-contradiction",
    "error",
    example="""
    [[checks]]
    id = "unit"
    gate = "acceptance"
    baseline = "pass"
    run = "make test"
    results = [{ format = "junit", path = "junit.xml" }]
    inventory = "checks/unit.json"
    timeout_seconds = 60
    """,
)
def baseline_contradiction(subject: Subject) -> Iterator[Finding]:
    """What a check is declared to do on the untouched snapshot is not what its inventory says.

    Why: one of the two is wrong, and certification will refuse the contract. A check passes there exactly if
    it has no test under `fail_to_pass`.

    Fix: correct `baseline`, or add the ids that the change must turn under `fail_to_pass`.
    """
    for field, check, inventory in _iter_inventories(subject):
        expected = "fail" if inventory.fail_to_pass else "pass"
        if check.baseline not in (None, expected):
            yield Finding(
                field=f"{field}.baseline",
                message=f'expected baseline = "{expected}" for {check.id!r}, whose inventory has '
                f'{len(inventory.fail_to_pass)} fail_to_pass ids, found "{check.baseline}"',
                hint="correct the baseline or the inventory",
            )


RULES = (
    check_without_inventory,
    mute_inventory,
    empty_inventory,
    decisive_test_skippable,
    baseline_contradiction,
)
