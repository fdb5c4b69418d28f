"""Contracts in the making: written, then certified by trials with a signed result."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from repotrial.api._contracts import load_contract, verify_contract_directory
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.authoring import (
    Certificate,
    CertificateGrade,
    CertificationSettings,
    CommitContract,
    CreatedContract,
    LockResult,
    NewContract,
    ProofSettings,
    SwebenchContract,
    UvLocker,
    create_contract_from_commit,
    create_contract_from_swebench,
    write_certificate,
)
from repotrial.authoring import certify_contract as _certify_contract
from repotrial.authoring import create_contract as create_new_contract
from repotrial.mining import ProvedContract, prove_draft
from repotrial.mining import refresh_contract as _refresh_contract
from repotrial.signing import SigningKey


def create_contract(
    options: NewContract | CommitContract | SwebenchContract,
    machine: MachineSettings | None = None,
    on_step: Callable[[str], None] = lambda step: None,  # noqa: ARG005
) -> CreatedContract:
    """Write a contract: from scratch, from a merged change, or from an instance of a data set.

    Args:
        options: Which one.
        machine: For a merged change: run its tests here, and take the inventory from what happens; None to
            run nothing.
        on_step: Told what is done next.
    """
    match options:
        case NewContract():
            return create_new_contract(options)
        case CommitContract():
            proving = None if machine is None else build_proof_settings(machine, on_step)
            return create_contract_from_commit(options, proving)
        case SwebenchContract():
            return create_contract_from_swebench(options)


def build_proof_settings(
    machine: MachineSettings, on_step: Callable[[str], None], *, timeout_seconds: int = 300
) -> ProofSettings:
    """How the tests of a merged change are run here; locks of packages are kept in the cache."""
    return ProofSettings(
        installation=build_installation_settings(machine),
        locker=UvLocker(machine.variables, home=machine.home, kept=machine.cache / "locks"),
        timeout_seconds=timeout_seconds,
        on_step=on_step,
    )


def prove_contract(
    directory: Path, machine: MachineSettings, on_step: Callable[[str], None]
) -> ProvedContract:
    """Run the tests of a contract's first check, and make its inventory what happened.

    Raises:
        PROOF_IMPOSSIBLE: there is no reference, or the check reports no tests.
    """
    verify_contract_directory(directory)
    return prove_draft(directory, build_proof_settings(machine, on_step))


def refresh_contract(
    directory: Path, machine: MachineSettings, on_step: Callable[[str], None], *, reason: str
) -> LockResult:
    """Renew the packages of a contract as of today; its checks must say the same with them.

    Raises:
        REFRESH_REFUSED: they do not, or there are none to renew.
    """
    verify_contract_directory(directory)
    today = dt.datetime.now(dt.UTC).date()
    proving = build_proof_settings(machine, on_step)
    return _refresh_contract(directory, proving, reason=reason, today=today)


class CertificationRequest(msgspec.Struct, frozen=True, kw_only=True):
    """How contracts are to be certified."""

    machine: MachineSettings
    key_file: Path
    """The private key that seals the runs and signs the certificate; made on first use."""
    grade: CertificateGrade = "full"
    repeats: int = 3
    """How often the snapshot and the reference are judged."""
    jobs: int = 1
    """Runs at a time."""
    runs: Path | None = None
    """Where run directories are kept; left out, they are thrown away."""


class Certification(msgspec.Struct, frozen=True, kw_only=True):
    """What `contract certify` found in one directory."""

    directory: str
    path: str
    """The certificate, written whatever it says."""
    certificate: Certificate


def certify_contract(
    directory: Path, request: CertificationRequest, on_result: Callable[[str, str, int], None]
) -> Certification:
    """Try a contract and write its signed certificate beside it.

    Args:
        directory: The contract directory.
        request: How.
        on_result: Told of every run: what it was for, what came of it, and how many are left.

    Raises:
        ContractError: the contract cannot be certified as it is.
        MachineError: this machine cannot carry it through.
    """
    loaded = load_contract(directory)
    machine, key = request.machine, SigningKey.load(request.key_file)
    with _open_runs(request.runs) as runs:
        settings = CertificationSettings(
            installation=build_installation_settings(machine),
            runs=runs,
            key=key,
            grade=request.grade,
            repeats=request.repeats,
            jobs=request.jobs,
            on_result=on_result,
        )
        certificate = _certify_contract(loaded, settings)
    path = write_certificate(loaded, certificate, key)
    return Certification(directory=str(directory), path=str(path), certificate=certificate)


@contextmanager
def _open_runs(kept: Path | None) -> Iterator[Path]:
    if kept is not None:
        yield kept
        return
    place = Path(tempfile.mkdtemp(prefix="repotrial-certify-"))
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
