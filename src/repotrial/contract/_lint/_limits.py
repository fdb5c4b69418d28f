"""Rules about numbers: limits that fit together, weights that add up, isolation that holds (C7, S6, P16)."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal

from repotrial._core.words import OFFERED_LEVELS, RETIRED_LEVELS
from repotrial.contract._demands import iter_unenforced
from repotrial.contract._lint._subject import LintSubject, RuleFinding, rule
from repotrial.contract._problems import render_field


@rule(
    "weights-sum",
    "error",
    example="""
    [scoring]
    weights = { minimal = "0.5", trace = "0.5", maintainable = "0.5" }
    """,
)
def weights_sum(subject: LintSubject) -> Iterator[RuleFinding]:
    """The weights of the graded score do not sum to 1.

    Why: s = Σ w·q is a share of 1 only if the weights are (S6). The sum is one of decimals, not floats.

    Fix: adjust the weights.
    """
    weights = subject.contract.scoring.weights
    named = {"minimal": weights.minimal, "trace": weights.trace, "maintainable": weights.maintainable}
    yield from _sum_to_one("scoring.weights", named)


@rule(
    "interface-weights",
    "error",
    example="""
    [scoring]
    interface = { ok = "0.8", value = "0.5", violation = "0.2" }
    """,
)
def interface_weights(subject: LintSubject) -> Iterator[RuleFinding]:
    """The rewards of the general score interface do not sum to 1.

    Why: S = w_ok·[pass] + w_val·V - w_viol·P is bounded by -w_viol and w_ok + w_val (C15); with rewards that
    sum to 1 the best change of every contract scores 1.

    Fix: `ok` + `value` = 1; `violation` is apart.
    """
    weights = subject.contract.scoring.interface
    yield from _sum_to_one("scoring.interface", {"ok": weights.ok, "value": weights.value})


def _sum_to_one(field: str, named: dict[str, Decimal]) -> Iterator[RuleFinding]:
    found = sum(named.values(), start=Decimal(0))
    if found != 1:
        yield RuleFinding(
            field=field,
            message=f"expected {' + '.join(named)} = 1, found {found}",
            hint="adjust the weights",
        )


@rule(
    "limits-inconsistent",
    "warning",
    example="""
    [limits]
    wall_seconds = 60
    command_seconds = 600
    """,
)
def limits_inconsistent(subject: LintSubject) -> Iterator[RuleFinding]:
    """A ceiling is higher than the ceiling of the whole run.

    Why: a single command, setup step or check that may take longer than `limits.wall_seconds` has a ceiling
    that is never reached, or a run ceiling that was forgotten.

    Fix: lower the one or raise the other.
    """
    contract = subject.contract
    wall = contract.limits.wall_seconds
    ceilings = [("limits.command_seconds", contract.limits.command_seconds)]
    ceilings += [
        (f"setup[{i}].timeout_seconds", step.timeout_seconds or 0) for i, step in enumerate(contract.setup)
    ]
    ceilings += [
        (f"{field}.timeout_seconds", check.timeout_seconds or 0) for field, check in subject.iter_checks()
    ]
    for field, seconds in ceilings:
        if seconds > wall:
            yield RuleFinding(
                field=field,
                message=f"expected at most limits.wall_seconds = {wall}, found {seconds}",
                hint="lower it, or raise limits.wall_seconds",
            )


@rule(
    "key-not-enforced",
    "warning",
    example="""
    [policy]
    stages = "single"
    test_tools = ["/usr/bin/pytest"]
    """,
)
def key_not_enforced(subject: LintSubject) -> Iterator[RuleFinding]:
    """A key has no effect beside the other keys of the contract.

    Why: a rule that nothing enforces is a promise that is not kept, and its author believes that it is (C7).
    A contract of version 2 is refused for it.

    Fix: as the finding says.
    """
    contract = subject.contract
    for finding in iter_unenforced(contract.environment, contract.policy):
        if contract.environment.isolation in RETIRED_LEVELS and finding.place[-1] == "isolation":
            continue  # `weak-isolation` says it
        yield RuleFinding(field=render_field(finding.place), message=finding.message, hint=finding.hint)


@rule(
    "weak-isolation",
    "warning",
    example="""
    [environment]
    isolation = "L1"
    """,
)
def weak_isolation(subject: LintSubject) -> Iterator[RuleFinding]:
    """The contract names an isolation level that is not offered any more.

    Why: L1 and L0 had no namespaces; the contract runs at a stronger level now.

    Fix: ask for `L2` or more; the default is `L3`.
    """
    level = subject.contract.environment.isolation
    if level in RETIRED_LEVELS:
        yield RuleFinding(
            field="environment.isolation",
            message=f"expected one of {', '.join(OFFERED_LEVELS)}, found {level}",
            hint="leave it out",
        )


RULES = (
    weights_sum,
    interface_weights,
    limits_inconsistent,
    key_not_enforced,
    weak_isolation,
)
