"""`suite lock`: contracts held against their locks and full certificates, then one id over all (C13)."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Final

import msgspec

from repotrial._core.digest import digest_bytes
from repotrial._core.errors import RepoTrialError
from repotrial._core.files import write_atomic
from repotrial.authoring._certify._file import (
    CertificateMissing,
    CertificateRefused,
    CertificateStale,
    CertificateState,
    CertificateUntrusted,
    CertificateValid,
    check_certificate,
)
from repotrial.authoring._certify._model import CERTIFICATE_FILE
from repotrial.contract import (
    Complexity,
    LoadedContract,
    Problem,
    SuiteEntry,
    SuiteLock,
    check_directory,
    check_lock,
    check_suite,
)
from repotrial.signing import PublicKey

_CERTIFY: Final = "run `repotrial contract certify {}` (without --quick)"


class SuiteResult(msgspec.Struct, frozen=True, kw_only=True):
    """What `suite lock` found and did."""

    path: str
    """The lock."""
    lock: SuiteLock
    is_written: bool
    """False if the file held this already, or nothing was to be written."""
    changes: tuple[str, ...]
    """What is different from the lock before; empty for the first one."""


def lock_suite(
    path: Path,
    *,
    reason: str | None,
    trusted_keys: Collection[PublicKey] | None,
    verify: Callable[[LoadedContract], None],
    is_check: bool = False,
) -> SuiteResult:
    """Check everything that a suite names, and write its lock.

    Args:
        path: The suite's file.
        reason: Why it is another suite than before; needed if there is a lock that says otherwise.
        trusted_keys: Whose certificates count; None for any key.
        verify: Raises if a contract is not usable.
        is_check: Write nothing; a lock that is not the present one is a problem.

    Raises:
        SUITE_INVALID: something in it is wrong; the error lists every problem with its fix.
    """
    suite, directories, problems = check_suite(path)
    if suite is None:
        raise SuiteLock.build_error(problems, where=path)
    entries: dict[str, SuiteEntry] = {}
    for directory in directories:
        entry = _check_contract(directory, path, trusted_keys, verify, problems)
        if entry is not None and entries.setdefault(entry.id, entry) is not entry:
            other = entries[entry.id].path
            problems.append(
                _problem(entry.path, f"expected one contract {entry.id}, found another in {other}", "rename")
            )
    old = SuiteLock.load(path)
    ordered = sorted(entries.values(), key=lambda entry: entry.id)
    changes = () if old is None else old.list_changes(ordered)
    problems += _check_revision(old, changes, reason, is_check=is_check)
    if problems:
        raise SuiteLock.build_error(problems, where=path)
    lock = (
        SuiteLock.build(suite.id, ordered, ()) if old is None else old.revise(suite.id, ordered, reason or "")
    )
    return _write(path, lock, changes, is_check=is_check)


def _write(path: Path, lock: SuiteLock, changes: tuple[str, ...], *, is_check: bool) -> SuiteResult:
    file = path.parent / SuiteLock.FILE
    data = lock.to_bytes()
    is_written = not is_check and (not file.is_file() or file.read_bytes() != data)
    if is_written:
        write_atomic(file, data)
    return SuiteResult(path=str(file), lock=lock, is_written=is_written, changes=changes)


def _check_revision(
    old: SuiteLock | None, changes: tuple[str, ...], reason: str | None, *, is_check: bool
) -> list[Problem]:
    if is_check and old is None:
        return [_problem(SuiteLock.FILE, "expected a lock, found none", "run `repotrial suite lock`")]
    if not changes or (reason and not is_check):
        return []
    message = f"expected the suite as it was locked, found: {'; '.join(changes)}"
    return [_problem(SuiteLock.FILE, message, "lock it anew, with --reason and the reason for the change")]


def _check_contract(
    directory: Path,
    path: Path,
    trusted_keys: Collection[PublicKey] | None,
    verify: Callable[[LoadedContract], None],
    problems: list[Problem],
) -> SuiteEntry | None:
    shown = os.path.relpath(directory, path.parent)
    loaded, found = check_directory(directory)
    if loaded is not None:
        found = [*found, *check_lock(loaded)]
        found += _try_verify(loaded, verify)
        state = check_certificate(loaded, trusted_keys)
        found += _check_certificate(state, shown)
        if trusted_keys is not None and isinstance(state, CertificateUntrusted):
            message = f"expected a certificate by a trusted key, found one by {state.key_id}"
            found.append(_problem(CERTIFICATE_FILE, message, "name a key that you trust with --key"))
    problems += [
        msgspec.structs.replace(problem, file=f"{shown}/{problem.file}", severity="error")
        for problem in found
        if problem.severity == "error" or problem.code == "lock-missing"
    ]
    if loaded is None or loaded.lock is None:
        return None
    return _build_entry(loaded, shown, trusted_keys)


def _try_verify(loaded: LoadedContract, verify: Callable[[LoadedContract], None]) -> list[Problem]:
    try:
        verify(loaded)
    except RepoTrialError as error:
        return [each for each in error.details if isinstance(each, Problem) and each.severity == "error"]
    return []


def _build_entry(
    loaded: LoadedContract, shown: str, trusted_keys: Collection[PublicKey] | None
) -> SuiteEntry | None:
    state = check_certificate(loaded, trusted_keys)
    if loaded.lock is None or not isinstance(state, CertificateValid | CertificateUntrusted):
        return None
    lock = loaded.lock
    complexity = Complexity.load(loaded.directory)
    return SuiteEntry(
        id=loaded.contract.id,
        path=shown,
        version_id=lock.version_id,
        checks=lock.parts.oracle,
        statement_digest=lock.statement_digest,
        scoring_digest=lock.scoring_digest,
        certificate_digest=digest_bytes((loaded.directory / CERTIFICATE_FILE).read_bytes()),
        certificate_key=state.key_id,
        complexity_digest=None if complexity is None else complexity.digest,
    )


def _check_certificate(state: CertificateState, shown: str) -> list[Problem]:
    message = ""
    match state:
        case CertificateMissing():
            message = "expected a full certificate, found none"
        case CertificateRefused(reason=reason):
            message = f"expected a certificate that holds, found: {reason}"
        case CertificateStale(changed=changed):
            message = f"expected a certificate of this version, found one of another: {', '.join(changed)}"
        case CertificateUntrusted(certificate=certificate) | CertificateValid(certificate=certificate):
            if certificate.grade != "full":
                message = f"expected a full certificate, found a {certificate.grade} one"
            elif not certificate.is_certified:
                failing = [item.id for item in certificate.items if item.outcome == "fails"]
                message = f"expected a contract that is certified, found that it fails: {', '.join(failing)}"
    if not message:
        return []
    return [_problem(CERTIFICATE_FILE, message, _CERTIFY.format(shown))]


def _problem(file: str, message: str, hint: str) -> Problem:
    return Problem(code="suite-contract", severity="error", file=file, message=message, hint=hint)
