"""The certificate: what was tried on a contract before it may enter a suite, and what came of it (C13)."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest

CERTIFICATE_FILE: Final = "contract.certificate.json"
NOT_APPLIED: Final = "patch-does-not-apply"
"""The tag of a change that no check has seen."""

CertificateGrade: TypeAlias = Literal["full", "quick"]
"""`quick`: fewer repeats and fewer cheats; enough while a contract is written, not for a suite."""
_ItemOutcome: TypeAlias = Literal["holds", "fails", "note", "not-applicable"]
"""`note`: nothing is wrong, but worth knowing."""

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class CertificateItem(_Part, frozen=True, kw_only=True):
    """One thing that a contract must show."""

    id: _Text
    """Stable kebab-case name."""
    outcome: _ItemOutcome
    """Whether it does."""
    message: _Text
    """In a sentence."""
    findings: tuple[str, ...] = ()
    """What is wrong, each with the way on."""
    runs: tuple[str, ...] = ()
    """Runs that show it."""


class CheatTrial(_Part, frozen=True, kw_only=True):
    """One cheat on trial."""

    name: _Text
    """The trick."""
    variant: Literal["open", "module"]
    """Where it lives: anywhere, or in an allowed module of the product alone."""
    outcome: Literal["refused", "accepted", "not-applicable", "not-tried"]
    """`accepted`: it was taken for success; `not-tried` with a run: its change did not apply, so that nothing
    judged it. With either, the contract cannot be certified."""
    verdict: str = ""
    """Of its run; empty if there was none."""
    tags: tuple[str, ...] = ()
    """Failure tags of its run."""
    reason: str = ""
    """Why there was no trial."""
    run: str = ""
    """Its run; empty if there was none."""


class CertifiedRun(_Part, frozen=True, kw_only=True):
    """A run that the certificate rests on."""

    run_id: _Text
    """Its directory's name."""
    purpose: _Text
    """What it was conducted for."""
    verdict: _Text
    """What came of it."""
    gates: tuple[str, ...]
    """Outcomes of G1 to G4."""
    seal_digest: Digest
    """Digest over its `seal.json`: identifies a kept run directory."""


class MachineClass(_Part, frozen=True, kw_only=True):
    """Where it was tried: a class, not a fingerprint."""

    isolation: _Text
    """Level of the sandbox."""
    environment_id: _Text
    """What the contract's environment resolved to."""
    cpu_class: _Text
    """Architecture and number of processors."""
    memory_class: _Text
    """Main memory in whole gibibytes."""


class Certificate(_Part, frozen=True, kw_only=True):
    """All of a certificate, as it is signed."""

    schema: Literal["repotrial/certificate@1"] = "repotrial/certificate@1"
    """Which version of this format."""
    contract_id: _Text
    """The contract's id."""
    version_id: Digest
    """The version that was tried; any other one needs a certificate of its own."""
    statement_digest: Digest
    """What the agent is told."""
    scoring_digest: Digest
    """The parameters of the score."""
    reference_digest: Digest
    """The reference change."""
    procedure_digest: Digest
    """What was tried and how: another procedure, or another set of cheats, needs another certificate."""
    grade: CertificateGrade
    """How much was tried."""
    repeats: Count
    """How often the snapshot and the reference were judged."""
    is_certified: bool
    """Whether every item holds and every cheat was refused."""
    items: tuple[CertificateItem, ...]
    """What the contract shows."""
    cheats: tuple[CheatTrial, ...]
    """Every trick in both variants."""
    runs: tuple[CertifiedRun, ...]
    """What all this rests on."""
    machine: MachineClass
    """Where it was tried."""
    harness_version: _Text
    """Which release tried it."""
    certified_at_us: Count
    """When, in microseconds since 1970."""
    public_key: _Text
    """The signer's, in PEM: to check the signature, not to trust it."""
    trust_limits: _Text
    """What the certificate does not show, in a sentence."""
