"""Verbs on suites, and the complexity that feeds their strata."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

import msgspec

from repotrial._core.words import Level
from repotrial.api._contracts import load_contract, verify_usable
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.authoring import ComplexitySettings, SuiteResult, measure_complexity
from repotrial.authoring import lock_suite as _lock_suite
from repotrial.contract import Complexity
from repotrial.trace import PublicKey, SigningKey


class MeasuredContract(msgspec.Struct, frozen=True, kw_only=True):
    """What `contract complexity` found in one directory."""

    directory: str
    complexity: Complexity


def lock_suite(
    path: Path, *, reason: str | None, trusted_keys: Collection[PublicKey] | None, is_check: bool
) -> SuiteResult:
    """Check every contract of a suite, its certificate and its lineage; write `suite.lock.json`.

    Raises:
        SUITE_INVALID: something is wrong; the error lists every problem with its fix.
    """
    return _lock_suite(
        path, reason=reason, trusted_keys=trusted_keys, verify=verify_usable, is_check=is_check
    )


def measure_contract(
    directory: Path, machine: MachineSettings, *, key_file: Path, level: Level, is_timed: bool
) -> MeasuredContract:
    """Measure the proxies of a contract's complexity, and write them beside it."""
    settings = ComplexitySettings(
        installation=build_installation_settings(machine),
        key=SigningKey.load(key_file),
        level=level,
        is_timed=is_timed,
    )
    found = measure_complexity(load_contract(directory), settings)
    return MeasuredContract(directory=str(directory), complexity=found)
