"""The certificate beside its contract: signed like a seal, and stale as soon as the contract is another."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec

from repotrial._core.canonical import JsonValue, canonical_digest
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial._core.files import write_atomic
from repotrial._core.schema import build_document_schema
from repotrial.authoring._certify._cheats import build_cheats
from repotrial.authoring._certify._cheats._common import Cheat
from repotrial.authoring._certify._cheats._scene import SUFFIXES, CheatScene
from repotrial.authoring._certify._model import CERTIFICATE_FILE, NOT_APPLIED, Certificate, CheatTrial
from repotrial.contract import LOCK_FILE, ContractLock, LoadedContract, check_lock
from repotrial.signing import (
    NoSigner,
    PublicKey,
    SignedStatement,
    SigningKey,
    StatementKind,
    TrustedSigner,
    UncheckedSigner,
)

PROCEDURE: Final = 3
"""Raise it with each change of what is tried or how it is judged; cheats are digested by themselves."""

_MODULES: Final = dict.fromkeys(("javascript", "typescript"), "export function answer() {}\n")
"""Where a trick needs something to take hold of."""


def build_procedure_digest(ecosystem: str | None) -> Digest:
    """The procedure for contracts of an ecosystem: its number, and every cheat as made for one known scene.

    Cheats are made from a contract and its snapshot, which have digests of their own; here only what makes
    them may differ.
    """
    cheats: dict[str, JsonValue] = {
        f"{cheat.name} ({cheat.variant})": (
            digest_bytes(cheat.patch + (cheat.script or b"")) if isinstance(cheat, Cheat) else cheat.reason
        )
        for cheat in build_cheats(_build_scene(ecosystem or ""))
    }
    return canonical_digest({"procedure": PROCEDURE, "cheats": cheats})


def _build_scene(ecosystem: str) -> CheatScene:
    suffix = SUFFIXES.get(ecosystem, ("",))[0]
    module, test = f"product/module{suffix}", f"tests/test_product{suffix}"
    texts = {module: _MODULES.get(ecosystem, "text\n"), test: "test\n", "package.json": "{}\n"}
    return CheatScene(
        ecosystem=ecosystem,
        module=module,
        files=texts,
        tests=(test,),
        oracle_folders=("acceptance",),
        results=("junit.xml", "all.tap"),
    )


_MOST_BYTES: Final = 16 * 2**20


CERTIFICATE_INVALID = ErrorCode(
    "certificate-invalid",
    EvidenceError,
    "A certificate does not have the form of one.",
    hint="the file was edited or is no certificate; certify the contract anew",
)
CERTIFICATE_VERSION = ErrorCode(
    "certificate-version",
    EvidenceError,
    "A certificate is of a version that this release does not know.",
    hint="look at it with the release that wrote it, or certify the contract anew",
)


_KIND: Final = StatementKind(
    predicate=Certificate,
    predicate_type="urn:repotrial:certificate:1",
    invalid=CERTIFICATE_INVALID,
    unknown=CERTIFICATE_VERSION,
)


class _State(msgspec.Struct, frozen=True, kw_only=True, tag_field="state"):
    pass


class CertificateMissing(_State, frozen=True, kw_only=True, tag="missing"):
    """There is none."""


class CertificateRefused(_State, frozen=True, kw_only=True, tag="refused"):
    """There is a file, and it proves nothing: it was edited, or has no valid signature."""

    reason: str
    """What is wrong with it."""


class CertificateStale(_State, frozen=True, kw_only=True, tag="stale"):
    """It was made for another version of the contract, or by another procedure, or cheats were not tried."""

    changed: tuple[str, ...]
    """What is another one now."""
    certificate: Certificate
    """What it says."""


class CertificateUntrusted(_State, frozen=True, kw_only=True, tag="untrusted"):
    """Everything fits, but the signer is not among the trusted keys."""

    key_id: str
    """Who signed."""
    certificate: Certificate
    """What it says."""


class CertificateValid(_State, frozen=True, kw_only=True, tag="valid"):
    """It is for this version, and a trusted key signed it; whether it certifies is what it says itself."""

    key_id: str
    """Who signed."""
    certificate: Certificate
    """What it says."""


CertificateState: TypeAlias = (
    CertificateMissing | CertificateRefused | CertificateStale | CertificateUntrusted | CertificateValid
)


def write_certificate(loaded: LoadedContract, certificate: Certificate, key: SigningKey) -> Path:
    """Sign and write it beside the contract, in the place of an earlier one."""
    path = loaded.directory / CERTIFICATE_FILE
    subjects = {LOCK_FILE: _digest_lock(loaded.lock)}
    write_atomic(path, _KIND.sign(certificate, subjects=subjects, key=key))
    return path


def load_certificate(path: Path) -> SignedStatement[Certificate]:
    """Read a certificate without believing it.

    Raises:
        CERTIFICATE_INVALID: it is none.
        CERTIFICATE_VERSION: it is of another version.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise CERTIFICATE_INVALID.error(
            f"{path}: expected a readable file, found: {error.strerror}"
        ) from error
    if len(data) > _MOST_BYTES:
        raise CERTIFICATE_INVALID.error(f"{path}: expected at most {_MOST_BYTES} bytes, found more")
    return _KIND.parse(data, name=path.name)


def check_certificate(loaded: LoadedContract, trusted_keys: Collection[PublicKey] | None) -> CertificateState:
    """What the certificate beside a contract is worth for the contract as it is now."""
    path = loaded.directory / CERTIFICATE_FILE
    if not path.exists():
        return CertificateMissing()
    try:
        signed = load_certificate(path)
    except EvidenceError as error:
        return CertificateRefused(reason=error.message)
    certificate = signed.predicate
    signer = signed.find_signer(certificate.public_key, trusted_keys)
    if isinstance(signer, NoSigner):
        return CertificateRefused(
            reason="the signature is not one over this content by the key that it names"
        )
    changed = _find_changes(loaded, certificate)
    if changed:
        return CertificateStale(changed=changed, certificate=certificate)
    if isinstance(signer, TrustedSigner | UncheckedSigner) and trusted_keys is not None:
        return CertificateValid(key_id=signer.key_id, certificate=certificate)
    return CertificateUntrusted(key_id=signer.key_id, certificate=certificate)


def build_certificate_schema() -> dict[str, Any]:
    """The schema of what is signed."""
    return build_document_schema(Certificate, "certificate@1", title=CERTIFICATE_FILE)


def _find_changes(loaded: LoadedContract, certificate: Certificate) -> tuple[str, ...]:
    if loaded.lock is None:
        return ("the contract is not locked",)
    fields = ("version_id", "statement_digest", "scoring_digest", "reference_digest")
    changed = [name for name in fields if getattr(loaded.lock, name) != getattr(certificate, name)]
    if build_procedure_digest(loaded.contract.ecosystem) != certificate.procedure_digest:
        changed.append("procedure_digest")
    has_patch_check = any(check.gate == "patch" for check in loaded.contract.checks)
    if not has_patch_check and any(_is_hollow(cheat) for cheat in certificate.cheats):
        changed.append("cheats")
    changed += [problem.field or problem.code for problem in check_lock(loaded)]
    return tuple(dict.fromkeys(changed))


def _is_hollow(cheat: CheatTrial) -> bool:
    """Called refused by an earlier release, though nothing but git had seen its change."""
    return cheat.outcome == "refused" and cheat.tags == (NOT_APPLIED,)


def _digest_lock(lock: ContractLock | None) -> Digest:
    return canonical_digest(msgspec.to_builtins(lock))
