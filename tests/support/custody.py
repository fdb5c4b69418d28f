"""Identities of those who may open originals."""

from __future__ import annotations

from pathlib import Path

from pyrage import x25519


def write_identity(path: Path) -> str:
    """Write a new one as `age-keygen` does; the recipient that belongs to it."""
    identity = x25519.Identity.generate()
    path.write_text(f"# public key: {identity.to_public()}\n{identity}\n")
    path.chmod(0o600)
    return str(identity.to_public())
