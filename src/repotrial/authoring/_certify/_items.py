"""From runs to items of the certificate. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from repotrial._core.display import list_some
from repotrial.authoring._certify._model import CertificateItem, CheatTrial
from repotrial.authoring._certify._trials import TrialResult
from repotrial.contract import Check, Inventory, LoadedContract
from repotrial.run import list_mixable, list_twins
from repotrial.score import CheckResult
from repotrial.workspace import SetupNetworkRecord

_REVISION = "fix it, replace it, or remove it and lock the contract anew: the version id changes with it"
_MOST_FLAKY_NAMED = 3


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
            named = f" ({list_some(flaky, most=_MOST_FLAKY_NAMED)})" if flaky else ""
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


_ENOUGH: Final = 7
"""With seven pairs, a guess is right less than once in a hundred times."""
_MOST_NAMED: Final = 5
_NAME: Final = re.compile(r"(?:.*::)?(?P<name>\w+)(?:[\[ (].*)?", re.DOTALL)


def judge_strength(loaded: LoadedContract) -> CertificateItem:
    """Tests that are to turn and have a wrong copy which looks just like them; a note where they are few.

    Of the tool's own twins only those with another literal count: the others can be found by
    knowing how twins are made. Of an author's suite (`negative`) those count that can stand among right ones.
    The bound is for blind guessing; a candidate that reads the repository guesses better.
    """
    weighed = [_weigh(loaded, check) for check in loaded.contract.checks if _is_doubted(check)]
    found = [each for each in weighed if each.paired or each.alone]
    if not found:
        reason = "no test that is to turn is judged in the candidate's process"
        return CertificateItem(id="twin-strength", outcome="not-applicable", message=reason)
    weak = tuple(_describe(each) for each in found if len(each.paired) < _ENOUGH)
    fewest = min(len(each.paired) for each in found)
    count = f"{fewest} of the {_ENOUGH} wanted" if weak else f"{fewest} or more"
    return CertificateItem(
        id="twin-strength",
        outcome="note" if weak else "holds",
        message=f"{count} twins cannot be told from their tests",
        findings=weak,
    )


class _Weighed(NamedTuple):
    """The tests of one check that are to turn."""

    check: Check
    paired: tuple[str, ...]
    """Those with a wrong copy that looks like them."""
    alone: tuple[str, ...]
    """Those without."""


def _weigh(loaded: LoadedContract, check: Check) -> _Weighed:
    inventory = loaded.inventories.get(check.id)
    ids = inventory.fail_to_pass if inventory else ()
    if check.negative:
        wanted, able = {*ids}, list(list_mixable(loaded, check))
    else:
        wanted = {match["name"] for test in ids if (match := _NAME.fullmatch(test))}
        twins = [twin for twin in list_twins(loaded, check) if twin.kind == "literal"]
        able = [twin.original.rpartition(".")[2] for twin in twins]
    paired = tuple(test for test in able if test in wanted)
    return _Weighed(check, paired, tuple(sorted(wanted - {*paired})))


def _describe(found: _Weighed) -> str:
    """Which tests have a wrong copy, and which could have one."""
    have = f" ({list_some(found.paired, most=_MOST_NAMED)})" if found.paired else ""
    lack = f", {list_some(found.alone, most=_MOST_NAMED)} have none" if found.alone else ""
    way = (
        "give a wrong line of its own, inside of the test, to"
        if found.check.negative
        else "compare with literals (`assert f(2) == 4`) in"
    )
    return (
        f"{found.check.id}: {len(found.paired)} tests to turn have a twin that looks like them{have}{lack}: "
        f"whoever guesses is right once in {2 ** len(found.paired)}; {way} {_ENOUGH} tests or more, "
        "or judge from outside"
    )


def _is_doubted(check: Check) -> bool:
    is_inside = check.judge == "in-process" and check.gate == "acceptance"
    return is_inside and bool(check.files or check.negative)


_SHOWN = 5
_RUN_IT = (
    "see for yourself with `repotrial sandbox exec DIR -- COMMAND`, then mend the check or [environment]"
)
_LOOK = "keep the run with `--runs DIR` and look at it with `repotrial run show`"


def build_item(
    item_id: str, claim: str, findings: Iterable[str], results: Sequence[TrialResult] = ()
) -> CertificateItem:
    """An item that holds where nothing was found against it."""
    found = tuple(findings)
    return CertificateItem(
        id=item_id,
        outcome="fails" if found else "holds",
        message=claim,
        findings=found,
        runs=tuple(result.run_id for result in results),
    )


def judge_baseline(loaded: LoadedContract, results: Sequence[TrialResult]) -> CertificateItem:
    """The untouched snapshot does what each check declares."""
    findings = [finding for result in results for finding in _iter_baseline(loaded, result)]
    claim = "the untouched snapshot fails as declared"
    return build_item("baseline", claim, dict.fromkeys(findings), results)


def _iter_baseline(loaded: LoadedContract, result: TrialResult) -> Iterator[str]:
    if result.is_success:
        yield (
            "the untouched snapshot is a success: the contract asks for nothing: "
            "add a check that fails until the work is done"
        )
    outcomes = {check.check: check for check in result.card.checks}
    for check in loaded.contract.checks:
        found = outcomes[check.id]
        said = {"passed": "pass", "failed": "fail"}.get(found.verdict, "error")
        if found.blocked_by is None and check.baseline is not None and said != check.baseline:
            why = f" ({found.why[0]})" if found.why else ""
            way = _RUN_IT if said == "error" else "correct `baseline` or the check"
            yield f"{check.id}: expected {check.baseline}, found {said}{why}: {way}"
        inventory = loaded.inventories.get(check.id)
        if inventory is not None and found.blocked_by is None and said != "error":
            yield from _iter_inventory(check, inventory, result)


def _iter_inventory(check: Check, inventory: Inventory, result: TrialResult) -> Iterator[str]:
    """Tests that are to turn do not pass, tests that are to stay do."""
    for execution in result.evidence.facts.executions:
        is_own = execution.check_id == check.id and execution.variant == "plain"
        if not is_own or execution.subject != "candidate" or execution.tests is None:
            continue
        lists = (execution.tests.failing, execution.tests.missing)
        unsuccessful = {name for each in lists for name in each.ids}
        if breaking := sorted(unsuccessful & {*inventory.pass_to_pass}):
            named = _name_tests(breaking, "does not pass", "do not pass")
            way = f"move from `pass_to_pass` to `fail_to_pass` in {check.inventory}, or leave out"
            yield f"{check.id}: {named} on the snapshot: {way}"
        is_whole = all(
            each.count == len(each.ids) for each in lists
        )  # of very long lists, only the first are kept
        turned = sorted({*inventory.fail_to_pass} - unsuccessful)
        if is_whole and turned:
            named = _name_tests(turned, "passes", "pass")
            way = f"move from `fail_to_pass` to `pass_to_pass` in {check.inventory}"
            yield f"{check.id}: {named} on the snapshot: {way}"


def _name_tests(tests: Sequence[str], one: str, many: str) -> str:
    more = f" and {len(tests) - _SHOWN} more" if len(tests) > _SHOWN else ""
    return f"{', '.join(tests[:_SHOWN])}{more} {one if len(tests) == 1 else many}"


def judge_reference(results: Sequence[TrialResult]) -> CertificateItem:
    """The reference change is a success, every time."""
    findings = [
        f"{result.run_id}: expected success, found {result.verdict}: {_explain(result)}"
        for result in results
        if not result.is_success
    ]
    return build_item("reference", f"the reference passes {len(results)} times", findings, results)


def _explain(result: TrialResult) -> str:
    """The first reason, and what to do about it."""
    for check in result.card.checks:
        if check.verdict != "passed" and check.why:
            return f"{check.why[0]}: {_find_way(check)}"
    for rule in result.card.violations:
        return f"{rule.rule}: {', '.join(rule.paths)}: allow it in [policy], or change the reference"
    return f"{', '.join(result.card.gate_vector)}: {_LOOK}"


def _find_way(found: CheckResult) -> str:
    if found.blocked_by == "patch":
        return "make the reference anew, as `git diff --binary` from the snapshot"
    if found.blocked_by is not None:
        return f"mend {found.blocked_by} first"
    if found.verdict == "errored":
        return _RUN_IT
    is_of_twins = found.attempts > 0 and found.passes == found.attempts and found.twins != "held"
    return "see `twins`" if is_of_twins else f"mend the check or the reference; {_LOOK}"


def judge_repetition(results: Sequence[TrialResult]) -> CertificateItem:
    """Acceptance of one and the same change says the same when it runs again."""
    said = {(result.verdict, result.card.gate_vector, *_list_verdicts(result)) for result in results}
    findings = [] if len(said) <= 1 else [f"{len(said)} different verdicts on one change: see `stability`"]
    return build_item("repetition", "the verdict is the same when acceptance runs again", findings, results)


def _list_verdicts(result: TrialResult) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((check.check, check.verdict) for check in result.card.checks))


def judge_stability(
    checks: Sequence[Check], untouched: Sequence[TrialResult], reference: Sequence[TrialResult]
) -> CertificateItem:
    """Every check says the same on the same tree, within its tolerance."""
    findings = [complaint for _, complaint in find_unstable_checks(checks, untouched, reference)]
    count = len(untouched) + len(reference)
    claim = f"every check is stable over {count} runs within its tolerance"
    return build_item("stability", claim, findings, (*untouched, *reference))


def judge_order(first: TrialResult, reordered: TrialResult | None) -> CertificateItem:
    """The verdict does not depend on the order of checks."""
    if reordered is None:
        reason = "there is only one order in which the checks can run"
        return CertificateItem(id="order", outcome="not-applicable", message=reason)
    differing = sorted(name for name, _ in {*_list_verdicts(first)} ^ {*_list_verdicts(reordered)})
    findings = [
        f"{name} depends on the checks before it: say so with `needs`" for name in dict.fromkeys(differing)
    ]
    if first.verdict != reordered.verdict and not findings:
        findings.append(f"expected {first.verdict} in another order, found {reordered.verdict}: {_LOOK}")
    return build_item(
        "order", "the verdict is the same when checks are reordered", findings, (first, reordered)
    )


def judge_patches(untouched: TrialResult, empty: TrialResult, oversized: TrialResult) -> CertificateItem:
    """Changes of no size and of far too much are judged, not stumbled over."""
    findings = []
    if (empty.verdict, _list_verdicts(empty)) != (untouched.verdict, _list_verdicts(untouched)):
        found = f"expected {untouched.verdict} as without one, found {empty.verdict}"
        findings.append(f"empty patch: {found}: see `baseline` and `stability`; {_LOOK}")
    if oversized.verdict != "failure":
        found = f"expected failure, found {oversized.verdict}"
        findings.append(f"oversized patch: {found}: see `baseline`; {_LOOK}")
    return build_item(
        "odd-patches",
        "an empty patch and an oversized one are judged as failures",
        findings,
        (empty, oversized),
    )


def judge_network(results: Sequence[TrialResult]) -> CertificateItem:
    """No check reaches for the network."""
    findings = {
        f"a check reached for the network ({alert.trigger.text if alert.trigger else alert.rule}): "
        "bring what it needs with the contract"
        for result in results
        for alert in result.evidence.facts.alerts
        if alert.phase == "accept" and alert.rule == "network-attempt"
    }
    return build_item("offline-oracle", "the oracle needs no network", sorted(findings), results)


def describe_setup(record: SetupNetworkRecord) -> CertificateItem:
    """C12: what was tried stands on one product of a Setup that can make another one tomorrow."""
    changed = [] if record.previous_digest is None else [f"an earlier product was {record.previous_digest}"]
    return CertificateItem(
        id="setup-network",
        outcome="note",
        message=f"set up with network: product digest {record.product_digest}",
        findings=(*(f"{host} answered" for host in record.hosts), *changed),
    )


def judge_twins(loaded: LoadedContract, results: Sequence[TrialResult]) -> CertificateItem:
    """Judges that share their process with the candidate have twins, and these hold on the reference."""
    in_process = {
        check.id
        for check in loaded.contract.checks
        if check.gate == "acceptance" and check.is_mandatory and check.judge == "in-process"
    }
    if not in_process:
        reason = "no judge shares its process with the candidate"
        return CertificateItem(id="twins", outcome="not-applicable", message=reason)
    judged = [found for result in results for found in result.card.checks if found.check in in_process]
    findings = dict.fromkeys(
        _complain_about_twins(found) for found in judged if found.twins != "held" and not _is_cut_short(found)
    )
    if not findings and any(map(_is_cut_short, judged)):
        reason = "nothing is known about twins before the reference passes: see `reference`"
        return CertificateItem(id="twins", outcome="not-applicable", message=reason)
    return build_item("twins", "twins are there and hold on the reference", findings, results)


def _is_cut_short(found: CheckResult) -> bool:
    """Whether twins say nothing because the check did not pass by itself."""
    return found.twins in {"not-run", "moot"} and found.verdict != "passed"


def _complain_about_twins(found: CheckResult) -> str:
    match found.twins:
        case "not-run":
            return f"{found.check}: no test has a twin: add a `negative` suite, or judge from outside"
        case "survived":
            named = _name_tests(found.surviving_twins, "passes", "pass")
            way = "make the expectation wrong for certain"
            return f"{found.check}: {named} on the reference though meant to be wrong: {way}"
        case "errored":
            return f"{found.check}: twins errored on the reference: {_RUN_IT}"
        case _:
            way = "let each test report by itself, whatever stands beside it"
            return f"{found.check}: twins {found.twins} on the reference: {way}"


def judge_cheats(cheats: Sequence[CheatTrial]) -> CertificateItem:
    """No trick is taken for success, and none counts that did not get as far as a judge."""
    tried = [cheat for cheat in cheats if cheat.outcome in ("refused", "accepted")]
    findings = tuple(finding for cheat in cheats if (finding := _complain_about_cheat(cheat)))
    known = any(cheat.run for cheat in cheats)
    return CertificateItem(
        id="cheats",
        outcome="fails" if findings else "holds" if tried else "not-applicable",
        message=f"{len(tried)} cheats are refused" if known else "no cheat is known for this ecosystem",
        findings=findings,
        runs=tuple(cheat.run for cheat in cheats if cheat.run),
    )


def _complain_about_cheat(cheat: CheatTrial) -> str | None:
    name = f"{cheat.name} ({cheat.variant})"
    if cheat.outcome == "accepted":
        return f"{name} was accepted: see docs/how-to/certify.md"
    if cheat.outcome == "not-tried" and cheat.run:
        return (
            f"{name} was not tried ({cheat.reason}), so that nothing is known about it: "
            "see docs/how-to/certify.md"
        )
    return None
