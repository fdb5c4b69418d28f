"""Which contracts this machine can run; the others are left out before anything is planned."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from repotrial._core.errors import ErrorCode, MachineError, RepoTrialError
from repotrial._core.words import Level
from repotrial.api._contracts import load_contract
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.contract import LoadedContract
from repotrial.environment import check_machine

CONTRACTS_UNAVAILABLE = ErrorCode(
    "contracts-unavailable",
    MachineError,
    "This machine lacks what contracts need: tools, or an isolation level.",
    hint="get what is listed, or run the contracts on a machine that has it",
)


class LeftOut(msgspec.Struct, frozen=True, kw_only=True):
    """A contract that this machine cannot run."""

    contract: str
    """The contract's id."""
    directory: str
    """The contract's directory."""
    lacks: str
    """What was expected and what was found."""
    hint: str
    """How to get it."""


def choose_available(
    directories: Sequence[Path], machine: MachineSettings
) -> tuple[list[Path], tuple[LeftOut, ...]]:
    """The directories of contracts that this machine can run, and the others.

    What is no contract counts as available, so that a command on it can say what is wrong.

    Raises:
        CONTRACTS_UNAVAILABLE: no contract can be run here.
    """
    loaded: list[LoadedContract] = []
    for directory in directories:
        with suppress(RepoTrialError):
            loaded.append(load_contract(directory))
    _, left_out = leave_out(loaded, machine, level=None, skips_unavailable=True)
    unavailable = {item.directory for item in left_out}
    return [directory for directory in directories if str(directory) not in unavailable], left_out


def leave_out(
    contracts: Sequence[LoadedContract],
    machine: MachineSettings,
    *,
    level: Level | None,
    skips_unavailable: bool,
) -> tuple[list[LoadedContract], tuple[LeftOut, ...]]:
    """The contracts that this machine can run, and the others.

    Raises:
        CONTRACTS_UNAVAILABLE: there are others and they are not to be skipped, or there are only those.
    """
    settings = build_installation_settings(machine)
    found = check_machine([loaded.contract for loaded in contracts], settings, level=level)
    usable = [loaded for loaded, error in zip(contracts, found, strict=True) if error is None]
    left_out = tuple(
        LeftOut(
            contract=loaded.contract.id,
            directory=str(loaded.directory),
            lacks=error.message,
            hint=error.hint,
        )
        for loaded, error in zip(contracts, found, strict=True)
        if error is not None
    )
    if left_out and not (skips_unavailable and usable):
        way = "; or leave such contracts out with --skip-unavailable" if usable else ""
        hints = "; ".join(dict.fromkeys(item.hint for item in left_out))
        names: dict[str, list[str]] = {}
        for item in left_out:
            names.setdefault(item.lacks, []).append(item.contract)
        lines = [f"{', '.join(found)}: {lacks}" for lacks, found in names.items()]
        raise CONTRACTS_UNAVAILABLE.error("\n".join(lines), hint=f"{hints}{way}")
    return usable, left_out
