"""Whether this machine can run a contract, and at which isolation level: the strongest that it reaches."""

from __future__ import annotations

from collections.abc import Sequence

from repotrial._core.errors import MachineError
from repotrial._core.words import Level
from repotrial.contract import Contract
from repotrial.environment._host import HOST_TOOLS_UNMET, observe_host, verify_host
from repotrial.environment._installation._contract_environment import InstallationSettings
from repotrial.environment._installation._needs import UnmetNeed, check_requirements
from repotrial.isolation import ISOLATION_LEVEL, Capabilities, Missing, find_back_end, probe_machine


def check_machine(
    contracts: Sequence[Contract], settings: InstallationSettings, *, level: Level | None = None
) -> list[MachineError | None]:
    """For each contract, what this machine lacks for it; None if nothing. Nothing is prepared.

    Args:
        contracts: What is to be run.
        settings: Whose tools count.
        level: The isolation that is wanted; the strongest that this machine reaches unless told.
    """
    known: dict[tuple[object, ...], MachineError | None] = {}
    found: list[MachineError | None] = []
    for contract in contracts:
        environment = contract.environment
        packages = [wanted and wanted.version for wanted in (environment.python, environment.node)]
        # Asking a tool for its version starts it: once for all contracts that want the same.
        key = (environment.image, *sorted(environment.tools.items()), *packages)
        if key not in known:
            known[key] = _check_tools(contract, settings)
        found.append(_check_level(contract, level) or known[key])
    return found


def _check_level(contract: Contract, level: Level | None) -> MachineError | None:
    try:
        choose_level(contract, level)
    except MachineError as error:
        if error.code != ISOLATION_LEVEL:
            raise
        return error
    return None


def _check_tools(contract: Contract, settings: InstallationSettings) -> MachineError | None:
    if contract.environment.image != "host":
        return None
    path = settings.variables.get("PATH", "")
    try:
        verify_host(observe_host(contract.environment, search_path=path, home=settings.home))
    except MachineError as error:
        if error.code != HOST_TOOLS_UNMET:
            raise
        return error
    return None


def choose_level(contract: Contract, level: Level | None) -> Capabilities:
    """What sandboxes of this contract can do.

    Args:
        contract: What is needed.
        level: The one that is wanted; the strongest unless told.

    Raises:
        ISOLATION_RETIRED: the level is not offered any more.
        ISOLATION_LEVEL: the machine does not reach it, or it is not enough.
    """
    findings = probe_machine() if level is None else (find_back_end(level).probe(),)
    reached = [finding for finding in findings if isinstance(finding, Capabilities)]
    if not reached:
        missing = [finding for finding in findings if isinstance(finding, Missing)]
        raise _build_missing(missing, level)
    # Strongest first: if that is not enough, nothing is.
    needs = check_requirements(reached[0], contract.environment, contract.policy, contract.limits)
    if needs:
        raise _build_unmet(needs)
    return reached[0]


def _build_missing(missing: Sequence[Missing], level: Level | None) -> MachineError:
    reasons = "; ".join(f"{finding.level}: {finding.reason}" for finding in missing)
    return ISOLATION_LEVEL.error(
        f"expected {level or 'a sandbox'}, found {reasons}",
        hint="; ".join(dict.fromkeys(item.remedy for item in missing)),
    )


def _build_unmet(needs: Sequence[UnmetNeed]) -> MachineError:
    return ISOLATION_LEVEL.error(
        "; ".join(f"{need.field}: {need.reason}" for need in needs),
        hint="; ".join(dict.fromkeys(need.remedy for need in needs)),
    )
