"""Checks that do not always say the same (P11): which, how often, and what to do about it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from repotrial._core.display import list_some
from repotrial.authoring._certify._trials import TrialResult
from repotrial.contract import Check

_REVISION = "fix it, replace it, or remove it and lock the contract anew: the version id changes with it"
_MOST_NAMED = 3


def find_unstable_checks(
    checks: Sequence[Check], *groups: Sequence[TrialResult]
) -> Iterator[tuple[str, str]]:
    """Check and complaint, where outcomes on one tree differ more often than the check's tolerance allows.

    Args:
        checks: Of the contract.
        groups: Results on one and the same tree each.
    """
    for check in checks:
        differing = sum(_count_differing(check, group) for group in groups)
        if differing > check.tolerance:
            flaky = sorted({test for group in groups for test in _find_flaky_tests(check, group)})
            named = f" ({list_some(flaky, most=_MOST_NAMED)})" if flaky else ""
            allowed = f"{differing} outcomes differ, {check.tolerance} may"
            yield check.id, f"{check.id} is flaky{named}: {allowed}; {_REVISION}"


def _count_differing(check: Check, group: Sequence[TrialResult]) -> int:
    """Executions that say something else than most."""
    said = Counter(key for result in group for key in _iter_outcomes(check, result))
    return sum(said.values()) - max(said.values(), default=0)


def _iter_outcomes(check: Check, result: TrialResult) -> Iterator[tuple[str, str]]:
    """The outcome of each plain execution, and which tests failed in it."""
    for execution in result.evidence.facts.executions:
        is_plain = execution.subject == "candidate" and execution.variant == "plain"
        if execution.check_id == check.id and is_plain:
            failing = execution.tests.failing.digest if execution.tests else ""
            yield str(execution.outcome.__struct_config__.tag), failing


def _find_flaky_tests(check: Check, group: Sequence[TrialResult]) -> set[str]:
    failing = [
        frozenset(execution.tests.failing.ids)
        for result in group
        for execution in result.evidence.facts.executions
        if execution.check_id == check.id and execution.variant == "plain" and execution.tests
    ]
    return set(frozenset.union(*failing) - frozenset.intersection(*failing)) if failing else set()
