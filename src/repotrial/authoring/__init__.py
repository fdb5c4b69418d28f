"""Making contracts: lock them, scaffold them, draft them from merged changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.authoring._certify import (
        CERTIFICATE_FILE,
        Certificate,
        CertificateGrade,
        CertificateInvalidError,
        CertificateItem,
        CertificateMissing,
        CertificateRefused,
        CertificateStale,
        CertificateState,
        CertificateUntrusted,
        CertificateValid,
        CertificateVersionError,
        CertificationBrokenError,
        CertificationSettings,
        CertifiedRun,
        CheatTrial,
        MachineClass,
        NotCertifiableError,
        build_certificate_schema,
        certify_contract,
        check_certificate,
        load_certificate,
        write_certificate,
    )
    from repotrial.authoring._codes import DRAFT_CODES
    from repotrial.authoring._ecosystem import EcosystemName
    from repotrial.authoring._from_commit import create_contract_from_commit
    from repotrial.authoring._leaks import check_told_solution
    from repotrial.authoring._locking import (
        LockChange,
        LockResult,
        LockUnwritableError,
        lock_contract,
        verify_lock,
    )
    from repotrial.authoring._new import create_contract
    from repotrial.authoring._options import CommitContract, CreatedContract, NewContract, OptionInvalidError
    from repotrial.authoring._project import EcosystemUnknownError
    from repotrial.authoring._python_lock import check_python_lock
    from repotrial.authoring._split import (
        ChangeWithoutTestsError,
        EmptyChangeError,
        OnlyTestsChangedError,
        RootCommitError,
        SubmoduleChangedError,
        UnsupportedTestFileError,
    )
    from repotrial.authoring._staging import ContractDirectoryTakenError, ContractDirectoryUnwritableError
    from repotrial.authoring._swebench import SwebenchContract, create_contract_from_swebench
    from repotrial.authoring._swebench_instance import (
        InstanceInvalidError,
        InstanceUnknownError,
        SwebenchInstance,
        load_swebench_instances,
    )
    from repotrial.authoring._template import Guess
    from repotrial.authoring._test_files import TEST_GLOBS, GlobInvalidError
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "CERTIFICATE_FILE",
    "DRAFT_CODES",
    "TEST_GLOBS",
    "Certificate",
    "CertificateGrade",
    "CertificateInvalidError",
    "CertificateItem",
    "CertificateMissing",
    "CertificateRefused",
    "CertificateStale",
    "CertificateState",
    "CertificateUntrusted",
    "CertificateValid",
    "CertificateVersionError",
    "CertificationBrokenError",
    "CertificationSettings",
    "CertifiedRun",
    "ChangeWithoutTestsError",
    "CheatTrial",
    "CommitContract",
    "ContractDirectoryTakenError",
    "ContractDirectoryUnwritableError",
    "CreatedContract",
    "EcosystemName",
    "EcosystemUnknownError",
    "EmptyChangeError",
    "GlobInvalidError",
    "Guess",
    "InstanceInvalidError",
    "InstanceUnknownError",
    "LockChange",
    "LockResult",
    "LockUnwritableError",
    "MachineClass",
    "NewContract",
    "NotCertifiableError",
    "OnlyTestsChangedError",
    "OptionInvalidError",
    "RootCommitError",
    "SubmoduleChangedError",
    "SwebenchContract",
    "SwebenchInstance",
    "UnsupportedTestFileError",
    "build_certificate_schema",
    "certify_contract",
    "check_certificate",
    "check_python_lock",
    "check_told_solution",
    "create_contract",
    "create_contract_from_commit",
    "create_contract_from_swebench",
    "load_certificate",
    "load_swebench_instances",
    "lock_contract",
    "verify_lock",
    "write_certificate",
]
