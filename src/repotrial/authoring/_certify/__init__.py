"""Certification: a contract is tried before it may try anybody (C13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.authoring._certify._certify import (
        CertificationSettings,
        NotCertifiableError,
        certify_contract,
    )
    from repotrial.authoring._certify._file import (
        CertificateInvalidError,
        CertificateMissing,
        CertificateRefused,
        CertificateStale,
        CertificateState,
        CertificateUntrusted,
        CertificateValid,
        CertificateVersionError,
        build_certificate_schema,
        check_certificate,
        load_certificate,
        write_certificate,
    )
    from repotrial.authoring._certify._model import (
        CERTIFICATE_FILE,
        Certificate,
        CertificateGrade,
        CertificateItem,
        CertifiedRun,
        CheatTrial,
        MachineClass,
    )
    from repotrial.authoring._certify._trials import CertificationBrokenError
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "CERTIFICATE_FILE",
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
    "CheatTrial",
    "MachineClass",
    "NotCertifiableError",
    "build_certificate_schema",
    "certify_contract",
    "check_certificate",
    "load_certificate",
    "write_certificate",
]
