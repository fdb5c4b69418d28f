"""How hard it is to guess which tests are twins, for code that shares the judge's process."""

from __future__ import annotations

import re
from typing import Final

from repotrial.authoring._certify._model import CertificateItem
from repotrial.contract import Check, LoadedContract
from repotrial.run import list_twins

__all__ = ["judge_strength"]

_ENOUGH: Final = 7
"""With seven pairs, whoever guesses is right less than once in a hundred times."""
_NAME: Final = re.compile(r"(?:.*::)?(?P<name>\w+)(?:[\[ (].*)?", re.DOTALL)


def judge_strength(loaded: LoadedContract) -> CertificateItem:
    """Pairs of a test that is to turn and a twin that looks just like it; a note where they are few.

    Twins that are made by a function of their own are left out: whoever knows how twins are made can find
    them. The bound is for blind guessing; a candidate that reads the statement guesses better. Suites of the
    author's (`negative`) are not counted here.
    """
    pairs = {
        check.id: _count_pairs(loaded, check, wanted)
        for check in loaded.contract.checks
        if _has_twins(check) and (wanted := _list_names(loaded, check))
    }
    if not pairs:
        reason = "no test that is to turn has twins of the tool's making"
        return CertificateItem(id="twin-strength", outcome="not-applicable", message=reason)
    weak = tuple(
        f"{check_id}: {count} tests to turn have a twin that looks like them: whoever guesses is right "
        f"once in {2**count}; add tests with literal expectations, or judge from outside"
        for check_id, count in pairs.items()
        if count < _ENOUGH
    )
    return CertificateItem(
        id="twin-strength",
        outcome="note" if weak else "holds",
        message=f"{min(pairs.values())} or more twins cannot be told from their tests",
        findings=weak,
    )


def _has_twins(check: Check) -> bool:
    is_inside = check.judge == "in-process" and check.gate == "acceptance"
    return is_inside and bool(check.files) and not check.negative


def _count_pairs(loaded: LoadedContract, check: Check, wanted: set[str]) -> int:
    return sum(
        twin.kind != "helper" and twin.original.rpartition(".")[2] in wanted
        for twin in list_twins(loaded, check)
    )


def _list_names(loaded: LoadedContract, check: Check) -> set[str]:
    inventory = loaded.inventories.get(check.id)
    ids = inventory.fail_to_pass if inventory else ()
    return {match["name"] for test in ids if (match := _NAME.fullmatch(test))}
