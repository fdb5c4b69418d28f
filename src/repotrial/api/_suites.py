"""Verbs on suites, and the complexity that feeds their strata."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from pathlib import Path

import msgspec

from repotrial._core.words import Level
from repotrial.api._certification import Certification, CertificationRequest, certify_contract
from repotrial.api._contracts import load_contract, verify_usable
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.authoring import (
    CertificateUntrusted,
    CertificateValid,
    ComplexitySettings,
    SuiteResult,
    check_certificate,
    measure_complexity,
)
from repotrial.authoring import lock_suite as _lock_suite
from repotrial.contract import (
    Complexity,
    LoadedContract,
    Problem,
    SuiteLock,
    build_invalid_error,
    check_lock,
    check_suite,
)
from repotrial.mining import MinedOrigin
from repotrial.signing import PublicKey, SigningKey


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
        path, reason=reason, trusted_keys=trusted_keys, verify=_verify_ready, is_check=is_check
    )


def _verify_ready(loaded: LoadedContract) -> None:
    """Refuse what is not usable, and what was mined and has no person's yes to its statement (C9)."""
    verify_usable(loaded)
    doubt = MinedOrigin.find_doubt(loaded.directory)
    if doubt is not None:
        problem = Problem(
            code="statement-not-approved",
            severity="error",
            file=loaded.contract.statement,
            message=f"expected a statement that a person has approved, found: {doubt}",
            hint="read it and say yes with `repotrial contract review`",
        )
        raise build_invalid_error([problem], where=loaded.directory)


def certify_suite(
    path: Path, request: CertificationRequest, on_result: Callable[[str, str, str, int], None]
) -> list[Certification]:
    """Make the full certificates that the contracts of a suite lack; those that hold are left alone.

    Args:
        path: The suite's file.
        request: How to certify; its grade is full whatever it says.
        on_result: Told of every run: the contract, what it was for, what came of it, and how many are left.

    Raises:
        SUITE_INVALID: the suite's file cannot be read.
    """
    suite, directories, problems = check_suite(path)
    if suite is None:
        raise SuiteLock.build_error(problems, where=path)
    full = msgspec.structs.replace(request, grade="full")
    made = []
    for directory in directories:
        loaded = load_contract(directory)
        if loaded.lock is None or check_lock(loaded) or _has_full_certificate(loaded):
            continue  # an unlocked one is the suite's own problem to name
        name = loaded.contract.id
        made.append(certify_contract(directory, full, functools.partial(on_result, name)))
    return made


def _has_full_certificate(loaded: LoadedContract) -> bool:
    state = check_certificate(loaded, None)
    return (
        isinstance(state, CertificateValid | CertificateUntrusted)
        and state.certificate.grade == "full"
        and state.certificate.is_certified
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
