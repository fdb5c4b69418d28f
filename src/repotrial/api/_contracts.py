"""Verbs on contracts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Collection
from pathlib import Path

import msgspec

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.files import find_obstacle
from repotrial.authoring import (
    Certificate,
    CertificateMissing,
    CertificateRefused,
    CertificateStale,
    CertificateState,
    CertificateUntrusted,
    CertificateValid,
    LockResult,
    check_certificate,
    check_python_lock,
    check_told_solution,
)
from repotrial.authoring import lock_contract as _lock_contract
from repotrial.authoring import verify_lock as _verify_lock
from repotrial.contract import (
    CONTRACT_FILE,
    Contract,
    ContractLock,
    LoadedContract,
    Problem,
    build_invalid_error,
    check_directory,
    check_lock,
    lint_contract,
)
from repotrial.contract import load_contract as _load_contract
from repotrial.mining import check_unknowable
from repotrial.signing import PublicKey

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
        return 0  # loading it says more


class ContractCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What `contract check` found in one directory."""

    directory: str
    id: str | None
    """The contract's id; None if it does not load."""
    version_id: str | None
    """From the lock; None if there is none."""
    problems: tuple[Problem, ...]

    def holds(self, *, strict: bool) -> bool:
        """Whether the contract is usable; strict: whether nothing at all was found."""
        return not any(strict or problem.severity == "error" for problem in self.problems)


class ContractDescription(msgspec.Struct, frozen=True, kw_only=True):
    """A loaded contract for machines."""

    directory: str
    contract: Contract
    statement: str
    lock: ContractLock | None
    certificate: CertificateState
    """What the certificate beside it is worth."""


def check_contract(directory: Path) -> ContractCheck:
    """Load, hold against the lock, and lint: every problem at once."""
    verify_contract_directory(directory)
    loaded, problems = check_directory(directory)
    if loaded is None:
        return ContractCheck(directory=str(directory), id=None, version_id=None, problems=tuple(problems))
    found = [*problems, *check_lock(loaded), *_lint(loaded), *check_told_solution(loaded)]
    found += check_unknowable(loaded)
    return _build_check(loaded, found)


def load_contract(directory: Path) -> LoadedContract:
    """Read a contract directory.

    Raises:
        CONTRACT_DIRECTORY_MISSING: there is none.
        CONTRACT_INVALID: something in it is wrong; the error carries every problem.
    """
    verify_contract_directory(directory)
    return _load_contract(directory)


def lock_contract(directory: Path) -> LockResult:
    """Pin the repository and every file that counts; write `contract.lock.json`, and nothing else.

    Raises:
        CONTRACT_INVALID: it does not load, or lint calls it unusable.
    """
    verify_contract_directory(directory)
    return _lock_contract(directory, verify_usable)


def verify_usable(loaded: LoadedContract) -> None:
    """Refuse what `check_contract` calls invalid, before anything is built on it.

    Raises:
        CONTRACT_INVALID: lint finds errors; they are in it.
    """
    problems = [problem for problem in _lint(loaded) if problem.severity == "error"]
    if problems:
        raise build_invalid_error(problems, where=loaded.directory)


def verify_lock(directory: Path) -> ContractCheck:
    """Recompute every pin, the repository's tree digest too, and hold the lock against them."""
    loaded = load_contract(directory)
    return _build_check(loaded, _verify_lock(loaded))


def describe_contract(loaded: LoadedContract, certificate: CertificateState) -> ContractDescription:
    return ContractDescription(
        directory=str(loaded.directory),
        contract=loaded.contract,
        statement=loaded.statement,
        lock=loaded.lock,
        certificate=certificate,
    )


def _lint(loaded: LoadedContract) -> list[Problem]:
    return [*lint_contract(loaded), *check_python_lock(loaded)]


def _build_check(loaded: LoadedContract, problems: list[Problem]) -> ContractCheck:
    return ContractCheck(
        directory=str(loaded.directory),
        id=loaded.contract.id,
        version_id=None if loaded.lock is None else loaded.lock.version_id,
        problems=tuple(problems),
    )


def find_certificate(loaded: LoadedContract, trusted_keys: Collection[PublicKey] | None) -> CertificateState:
    """What the certificate beside a contract is worth for the contract as it is now."""
    return check_certificate(loaded, trusted_keys)


def describe_certificate(state: CertificateState) -> list[str]:
    """What a certificate says and who signed it, or why it is worth nothing; in lines for people."""
    match state:
        case CertificateMissing():
            return ["none (repotrial contract certify)"]
        case CertificateRefused(reason=reason):
            return [f"worthless: {reason}"]
        case CertificateStale(changed=changed):
            return [f"stale: certify it anew ({', '.join(changed)})"]
        case CertificateUntrusted(key_id=key_id, certificate=certificate):
            return [*_certified(certificate), f"not signed by a trusted key: {key_id}"]
        case CertificateValid(key_id=key_id, certificate=certificate):
            return [*_certified(certificate), f"signed by {key_id}"]


def _certified(certificate: Certificate) -> list[str]:
    word = "certified" if certificate.is_certified else "not certified"
    tried = sum(cheat.outcome in ("refused", "accepted") for cheat in certificate.cheats)
    failing = [item.id for item in certificate.items if item.outcome == "fails"]
    first = f"{word} ({certificate.grade}): {len(certificate.items)} items, {tried} cheats"
    return [first, *([f"fails: {', '.join(failing)}"] if failing else [])]


def is_certified(loaded: LoadedContract) -> bool:
    """Whether the contract as it is now is certified, by any key."""
    state = check_certificate(loaded, None)
    return isinstance(state, CertificateValid | CertificateUntrusted) and state.certificate.is_certified
