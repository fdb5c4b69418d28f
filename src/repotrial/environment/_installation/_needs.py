"""Whether a contract can have here what it needs; if not, what is missing and how to get it."""

from __future__ import annotations

from typing import Final

import msgspec

from repotrial._core.errors import ContractError
from repotrial._core.words import Level
from repotrial.contract import Environment, Limits, Policy
from repotrial.isolation import Capabilities, verify_grants

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
        *_check_level(capabilities, environment),
        *_check_image(capabilities, environment),
        *_check_system_calls(environment),
        *_check_stages(capabilities, policy),
        *_check_limits(capabilities, limits),
    ]


def _check_level(capabilities: Capabilities, environment: Environment) -> list[UnmetNeed]:
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
