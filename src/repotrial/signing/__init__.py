"""Who vouches for something: keys, signed statements, and whose signatures are trusted."""

from __future__ import annotations

from repotrial.signing._keys import PublicKey, SigningKey, parse_public_key
from repotrial.signing._statement import (
    NoSigner,
    SignedStatement,
    Signer,
    StatementKind,
    TrustedSigner,
    UncheckedSigner,
    UnknownSigner,
)
from repotrial.signing._trust import Trust, TrustedKeys, TrustList

__all__ = [
    "NoSigner",
    "PublicKey",
    "SignedStatement",
    "Signer",
    "SigningKey",
    "StatementKind",
    "Trust",
    "TrustList",
    "TrustedKeys",
    "TrustedSigner",
    "UncheckedSigner",
    "UnknownSigner",
    "parse_public_key",
]
