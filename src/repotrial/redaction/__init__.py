"""Secrets out of texts: a deterministic transformation to placeholders that keeps structure (P27)."""

from __future__ import annotations

from repotrial.redaction._redaction import (
    NO_REDACTION,
    RedactedSpan,
    Redactor,
    SecretRedactor,
    verify_canary,
)

__all__ = ["NO_REDACTION", "RedactedSpan", "Redactor", "SecretRedactor", "verify_canary"]
