"""Making contracts: lock them, scaffold them, draft them from merged changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.authoring._certify._certify import CertificationSettings, certify_contract
    from repotrial.authoring._certify._file import (
        CertificateMissing,
        CertificateRefused,
        CertificateStale,
        CertificateState,
        CertificateUntrusted,
        CertificateValid,
        build_certificate_schema,
        check_certificate,
        write_certificate,
    )
    from repotrial.authoring._certify._model import Certificate, CertificateGrade
    from repotrial.authoring._complexity import ComplexitySettings, measure_complexity
    from repotrial.authoring._from_commit import create_contract_from_commit
    from repotrial.authoring._leaks import check_told_solution
    from repotrial.authoring._locking import LockResult, lock_contract, verify_lock
    from repotrial.authoring._new import create_contract
    from repotrial.authoring._project import CommitContract, CreatedContract, NewContract
    from repotrial.authoring._proof._locks import UvLocker
    from repotrial.authoring._proof._prove import Proof, ProofSettings, Unproved, prove_contract
    from repotrial.authoring._python_lock import check_python_lock
    from repotrial.authoring._split import KnownTestPaths
    from repotrial.authoring._statement import build_statement_draft, guess_kind
    from repotrial.authoring._suite import SuiteResult, lock_suite
    from repotrial.authoring._swebench import SwebenchContract, create_contract_from_swebench
    from repotrial.authoring._swebench_instance import load_swebench_instances
    from repotrial.authoring._task_rows import find_checkout
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "Certificate",
    "CertificateGrade",
    "CertificateMissing",
    "CertificateRefused",
    "CertificateStale",
    "CertificateState",
    "CertificateUntrusted",
    "CertificateValid",
    "CertificationSettings",
    "CommitContract",
    "ComplexitySettings",
    "CreatedContract",
    "KnownTestPaths",
    "LockResult",
    "NewContract",
    "Proof",
    "ProofSettings",
    "SuiteResult",
    "SwebenchContract",
    "Unproved",
    "UvLocker",
    "build_certificate_schema",
    "build_statement_draft",
    "certify_contract",
    "check_certificate",
    "check_python_lock",
    "check_told_solution",
    "create_contract",
    "create_contract_from_commit",
    "create_contract_from_swebench",
    "find_checkout",
    "guess_kind",
    "load_swebench_instances",
    "lock_contract",
    "lock_suite",
    "measure_complexity",
    "prove_contract",
    "verify_lock",
    "write_certificate",
]
