"""Digests: always sha256, always written with the algorithm in front; and the names that git gives."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import msgspec

DIGEST_PATTERN = r"^sha256:[0-9a-f]{64}$(?!\n)"  # `$` alone would let a final newline pass

Digest = Annotated[str, msgspec.Meta(pattern=DIGEST_PATTERN, description="sha256:<64 hex digits>")]
"""A content digest as it is written in every document: `sha256:` and 64 hex digits."""


def digest_bytes(data: bytes | bytearray | memoryview) -> Digest:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def digest_file(path: Path) -> Digest:
    """Digest of a file's bytes, streamed."""
    with path.open("rb") as stream:
        return "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()


def name_blob(data: bytes) -> str:
    """The name of a file's content in git."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
