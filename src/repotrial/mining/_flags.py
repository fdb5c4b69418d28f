"""What a reader of a mined contract should look at: no reason to drop it, but to know it."""

from __future__ import annotations

import ast
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Final

from repotrial._core.display import list_some
from repotrial._core.python_source import parse_python
from repotrial.authoring import Certificate
from repotrial.contract import LoadedContract, lint_contract
from repotrial.mining._candidates import MineCandidate
from repotrial.mining._unknowable import check_unknowable

_FEW: Final = 2
_MOST_NAMED: Final = 4
_LEAKS: Final = frozenset(
    {
        *("reference-in-statement", "new-name-in-statement", "statement-names-oracle"),
        *("draft-names-identifier", "draft-quotes-code", "draft-tells-solution"),
    }
)


def find_flags(
    loaded: LoadedContract, candidate: MineCandidate, *, cutoff: dt.date | None
) -> tuple[str, ...]:
    """The lints of mining: each is a code and what was found.

    Args:
        loaded: The contract.
        candidate: Where it is from.
        cutoff: What the models that it is for were trained up to; None if that is not stated.
    """
    return tuple(_iter_flags(loaded, candidate, cutoff))


def _iter_flags(loaded: LoadedContract, candidate: MineCandidate, cutoff: dt.date | None) -> Iterator[str]:
    for problem in check_unknowable(loaded):
        yield f"{problem.code}: {problem.message.rpartition(': ')[2]}"
    for problem in lint_contract(loaded):
        if problem.code in _LEAKS:
            yield f"{problem.code}: {problem.message}"
    if private := find_private_names(_load_tests(loaded)):
        yield f"private-names: {list_some(private, most=_MOST_NAMED)}"
    turning = sum(len(inventory.fail_to_pass) for inventory in loaded.inventories.values())
    if turning < _FEW:
        yield f"few-turning: {turning} test turns"
    day = dt.datetime.fromtimestamp(candidate.committed_at_seconds, dt.UTC).date()
    if cutoff is not None and day <= cutoff:
        yield f"before-cutoff: the change is of {day}, the models know what was public on {cutoff}"


def find_weakness(certificate: Certificate) -> tuple[str, ...]:
    """What the certificate notes about the strength of the tests."""
    return tuple(
        f"{item.id}: {item.message}"
        for item in certificate.items
        if item.id == "twin-strength" and item.outcome == "note"
    )


def _load_tests(loaded: LoadedContract) -> dict[str, str]:
    found = {}
    for pin in loaded.files:
        if pin.path.startswith("checks/") and pin.path.endswith(".py"):
            found[pin.path] = (loaded.directory / pin.path).read_text(encoding="utf-8", errors="replace")
    return found


def find_private_names(tests: Mapping[str, str]) -> list[str]:
    """Names with a leading underscore that tests take from what they import."""
    found: set[str] = set()
    for text in tests.values():
        try:
            module = parse_python(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        imported: set[str] = set()
        for node in ast.walk(module):
            match node:
                case ast.ImportFrom(names=names, module=str(origin)):
                    imported |= {alias.asname or alias.name for alias in names}
                    found |= {alias.name for alias in names if _is_private(alias.name)}
                    found |= {part for part in origin.split(".") if _is_private(part)}
                case ast.Import(names=names):
                    imported |= {(alias.asname or alias.name).partition(".")[0] for alias in names}
                case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in imported:
                    found |= {name} if _is_private(name) else set()
                case _:
                    continue
    return sorted(found)


def _is_private(name: str) -> bool:
    return re.fullmatch(r"_[A-Za-z]\w*", name) is not None
