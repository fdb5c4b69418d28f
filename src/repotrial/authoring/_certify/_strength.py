"""How hard it is to guess which tests are twins, for code that shares the judge's process."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from repotrial._core.display import list_some
from repotrial.authoring._certify._model import CertificateItem
from repotrial.contract import Check, LoadedContract
from repotrial.run import list_mixable, list_twins

_ENOUGH: Final = 7
"""With seven pairs, whoever guesses is right less than once in a hundred times."""
_MOST_NAMED: Final = 5
_NAME: Final = re.compile(r"(?:.*::)?(?P<name>\w+)(?:[\[ (].*)?", re.DOTALL)


def judge_strength(loaded: LoadedContract) -> CertificateItem:
    """Tests that are to turn and have a wrong copy which looks just like them; a note where they are few.

    Of the tool's own twins only those with another literal count: whoever knows how twins are made can find
    the others. Of an author's suite (`negative`) those count that can stand among right ones. The bound is
    for blind guessing; a candidate that reads the repository guesses better.
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
