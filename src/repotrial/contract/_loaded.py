"""A contract directory, loaded."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from repotrial.contract._contract import Contract
from repotrial.contract._lock import ContractLock, FilePin
from repotrial.contract._oracle import Inventory
from repotrial.contract._problems import Problem

CONTRACT_FILE = "contract.toml"


def _nowhere(_field: str) -> int | None:
    return None


@dataclass(frozen=True, kw_only=True)
class LoadedContract:
    """Everything that a contract directory says, read once; nothing in it was executed."""

    directory: Path
    contract: Contract
    statement: str
    """The text of the statement file."""
    reference: bytes | None
    """The bytes of the reference patch."""
    inventories: Mapping[str, Inventory]
    """By check id."""
    files: tuple[FilePin, ...]
    """Every file beside the contract that the version id depends on, sorted by path."""
    lock: ContractLock | None
    locate: Callable[[str], int | None] = field(default=_nowhere, compare=False)
    """Line of a field of `contract.toml`, by its dotted path."""
    _found: dict[object, tuple[Problem, ...]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def find_once(self, check: Callable[[LoadedContract], Iterable[Problem]]) -> list[Problem]:
        """What a check finds in it; made once, since all that it looks at is in here."""
        if check not in self._found:
            self._found[check] = tuple(check(self))
        return [*self._found[check]]
