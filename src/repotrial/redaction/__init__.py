"""Secrets out of texts: a deterministic transformation to placeholders that keeps structure (P27)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.redaction._redaction import (
        NO_REDACTION,
        RedactedSpan,
        Redactor,
        SecretRedactor,
        verify_canary,
    )
    from repotrial.redaction._vault import (
        AgeIdentity,
        CustodyPolicy,
        Identity,
        Vault,
    )
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "NO_REDACTION",
    "AgeIdentity",
    "CustodyPolicy",
    "Identity",
    "RedactedSpan",
    "Redactor",
    "SecretRedactor",
    "Vault",
    "verify_canary",
]
