"""Contracts in the making: written, then certified by trials with a signed result."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from repotrial.api._contracts import load_contract
from repotrial.api._machine import MachineSettings, build_installation_settings
from repotrial.authoring import (
    Certificate,
    CertificateGrade,
    CertificationSettings,
    CommitContract,
    CreatedContract,
    NewContract,
    SwebenchContract,
    create_contract_from_commit,
    create_contract_from_swebench,
    write_certificate,
)
from repotrial.authoring import certify_contract as _certify_contract
from repotrial.authoring import create_contract as create_new_contract
from repotrial.trace import SigningKey


def create_contract(options: NewContract | CommitContract | SwebenchContract) -> CreatedContract:
    """Write a contract: from scratch, from a merged change, or from an instance of a data set."""
    match options:
        case NewContract():
            return create_new_contract(options)
        case CommitContract():
            return create_contract_from_commit(options)
        case SwebenchContract():
            return create_contract_from_swebench(options)


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
