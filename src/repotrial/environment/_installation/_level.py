"""Whether this machine can run a contract, and at which isolation level: the strongest that it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from repotrial._core.errors import ContractError, MachineError
from repotrial._core.words import Level
from repotrial.contract import Contract, Environment, Limits, Policy
from repotrial.environment._host import HOST_TOOLS_UNMET, observe_host, verify_host
from repotrial.environment._installation._contract_environment import InstallationSettings
from repotrial.isolation import ISOLATION_LEVEL, Capabilities, Missing, find_back_end, probe_machine
from repotrial.syscalls import verify_grants

_ORDER: Final = tuple(Level)
"""Strongest first."""
_DOCTOR: Final = "`repotrial doctor` says how to get a stronger level on this machine"


class UnmetNeed(msgspec.Struct, frozen=True, kw_only=True):
    """Something that a contract needs and that is not there."""

    field: str
    """Where the contract asks for it."""
    reason: str
    remedy: str


def check_requirements(
    capabilities: Capabilities, environment: Environment, policy: Policy, limits: Limits
) -> list[UnmetNeed]:
    """Everything that stands between a contract and this sandbox; empty if nothing does."""
    return [
        *_check_isolation(capabilities, environment),
        *_check_image(capabilities, environment),
        *_check_system_calls(environment),
        *_check_stages(capabilities, policy),
        *_check_limits(capabilities, limits),
    ]


def _check_isolation(capabilities: Capabilities, environment: Environment) -> list[UnmetNeed]:
    needed = environment.isolation
    if _ORDER.index(capabilities.level) <= _ORDER.index(needed):
        return []
    reason = f"needs isolation {needed} or stronger, found {capabilities.level}"
    return [UnmetNeed(field="environment.isolation", reason=reason, remedy=_DOCTOR)]


def _check_image(capabilities: Capabilities, environment: Environment) -> list[UnmetNeed]:
    if environment.image == "host" or capabilities.has_images:
        return []
    reason = f"needs an image, and level {capabilities.level} runs on the machine's own files only"
    return [UnmetNeed(field="environment.image", reason=reason, remedy=_DOCTOR)]


def _check_system_calls(environment: Environment) -> list[UnmetNeed]:
    try:
        verify_grants(environment.system_calls)
    except ContractError as error:  # `system-call-grant`
        return [UnmetNeed(field="environment.system_calls", reason=error.message, remedy=error.hint)]
    return []


def _check_stages(capabilities: Capabilities, policy: Policy) -> list[UnmetNeed]:
    if capabilities.has_stages:
        return []
    needs = []
    if policy.stages != "single":
        reason = f"level {capabilities.level} cannot change privileges while programs run"
        remedy = f'{_DOCTOR}; or set stages = "single"'
        needs.append(UnmetNeed(field="policy.stages", reason=reason, remedy=remedy))
    if policy.test_tools:
        reason = f"level {capabilities.level} cannot mask programs"
        needs.append(UnmetNeed(field="policy.test_tools", reason=reason, remedy=_DOCTOR))
    return needs


def _check_limits(capabilities: Capabilities, limits: Limits) -> list[UnmetNeed]:
    needs = []
    if capabilities.memory_limit == "none":
        reason = f"wants at most {limits.memory_mb.kill} MB, and nothing bounds memory here"
        needs.append(UnmetNeed(field="limits.memory_mb", reason=reason, remedy=_DOCTOR))
    if capabilities.disk_limit == "none":
        reason = f"wants at most {limits.disk_mb.kill} MB on disk, and nothing bounds it here"
        needs.append(UnmetNeed(field="limits.disk_mb", reason=reason, remedy=_DOCTOR))
    if limits.cpu_seconds is not None and capabilities.cpu_meter == "none":
        reason = f"wants at most {limits.cpu_seconds} s of processor time, and nothing measures it here"
        needs.append(UnmetNeed(field="limits.cpu_seconds", reason=reason, remedy=_DOCTOR))
    return needs


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
