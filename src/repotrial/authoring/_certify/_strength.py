"""How hard it is to guess which tests are twins, for code that shares the judge's process."""

from __future__ import annotations

import re
from collections.abc import Set as AbstractSet
from typing import Final

from repotrial._core.display import list_some
from repotrial.authoring._certify._model import CertificateItem
from repotrial.contract import Check, LoadedContract
from repotrial.run import list_twins

__all__ = ["judge_strength"]

_ENOUGH: Final = 7
"""With seven pairs, whoever guesses is right less than once in a hundred times."""
_MOST_NAMED: Final = 5
_NAME: Final = re.compile(r"(?:.*::)?(?P<name>\w+)(?:[\[ (].*)?", re.DOTALL)


def judge_strength(loaded: LoadedContract) -> CertificateItem:
    """Pairs of a test that is to turn and a twin that looks just like it; a note where they are few.

    Only twins with another literal count: whoever knows how twins are made can find the others. The bound is
    for blind guessing; a candidate that reads the repository guesses better. Suites of the author's
    (`negative`) are not counted here.
    """
    wanted = {
        check.id: names
        for check in loaded.contract.checks
        if _has_twins(check) and (names := _list_names(loaded, check))
    }
    pairs = {
        check.id: _list_pairs(loaded, check, wanted[check.id])
        for check in loaded.contract.checks
        if check.id in wanted
    }
    if not pairs:
        reason = "no test that is to turn has twins of the tool's making"
        return CertificateItem(id="twin-strength", outcome="not-applicable", message=reason)
    weak = tuple(
        _describe(check_id, paired, wanted[check_id] - set(paired))
        for check_id, paired in pairs.items()
        if len(paired) < _ENOUGH
    )
    fewest = min(map(len, pairs.values()))
    count = f"{fewest} of the {_ENOUGH} wanted" if weak else f"{fewest} or more"
    return CertificateItem(
        id="twin-strength",
        outcome="note" if weak else "holds",
        message=f"{count} twins cannot be told from their tests",
        findings=weak,
    )


def _describe(check_id: str, paired: list[str], alone: AbstractSet[str]) -> str:
    """Which tests have a twin, and which could have one."""
    have = f" ({list_some(paired, most=_MOST_NAMED)})" if paired else ""
    lack = f", {list_some(sorted(alone), most=_MOST_NAMED)} have none" if alone else ""
    return (
        f"{check_id}: {len(paired)} tests to turn have a twin that looks like them{have}{lack}: "
        f"whoever guesses is right once in {2 ** len(paired)}; compare with literals "
        f"(`assert f(2) == 4`) in {_ENOUGH} tests or more, or judge from outside"
    )


def _has_twins(check: Check) -> bool:
    is_inside = check.judge == "in-process" and check.gate == "acceptance"
    return is_inside and bool(check.files) and not check.negative


def _list_pairs(loaded: LoadedContract, check: Check, wanted: set[str]) -> list[str]:
    """The test of each pair, once for each."""
    names = [twin.original.rpartition(".")[2] for twin in list_twins(loaded, check) if twin.kind == "literal"]
    return [name for name in names if name in wanted]


def _list_names(loaded: LoadedContract, check: Check) -> set[str]:
    inventory = loaded.inventories.get(check.id)
    ids = inventory.fail_to_pass if inventory else ()
    return {match["name"] for test in ids if (match := _NAME.fullmatch(test))}
