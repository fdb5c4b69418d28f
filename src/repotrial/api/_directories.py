"""Contract directories that a user names: there, or a message that says what is."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import find_obstacle
from repotrial.contract import CONTRACT_FILE

CONTRACT_DIRECTORY_MISSING = ErrorCode(
    "contract-directory-missing",
    UsageError,
    "The path does not name a directory, so there is no contract to look at.",
    hint="name the directory that holds contract.toml; `repotrial contract new` makes one",
)


def verify_contract_directory(directory: Path) -> None:
    obstacle = find_obstacle(directory)
    if obstacle:
        raise CONTRACT_DIRECTORY_MISSING.error(
            f"{directory}: expected a contract directory, found {obstacle}"
        )
    if count := _count_contracts_below(directory):
        raise CONTRACT_DIRECTORY_MISSING.error(
            f"{directory}: expected a contract directory, found a directory of {count} contract(s)",
            hint=f"name them one by one, or all: {shlex.quote(str(directory))}/*",
        )


def _count_contracts_below(directory: Path) -> int:
    """How many contracts are in a directory that is none itself."""
    if os.path.lexists(directory / CONTRACT_FILE):
        return 0
    try:
        return sum(os.path.lexists(Path(entry) / CONTRACT_FILE) for entry in os.scandir(directory))
    except OSError:
        return 0  # whoever reads it says more
