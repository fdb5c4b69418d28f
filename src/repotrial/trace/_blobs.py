"""Content-addressed blobs: `blobs/ab/<rest of the digest>`, written aside and renamed, verified when read."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import DIGEST_PATTERN, Digest, digest_bytes
from repotrial._core.errors import ErrorCode, EvidenceError
from repotrial._core.files import sync_directory
from repotrial.trace._files import open_regular

_DIGEST = re.compile(DIGEST_PATTERN)


BLOB_MISSING = ErrorCode(
    "blob-missing",
    EvidenceError,
    "The trace refers to a blob that is not in the run directory.",
    hint="copy the run directory with its blobs/ folder",
)
BLOB_CORRUPT = ErrorCode(
    "blob-corrupt",
    EvidenceError,
    "A blob's bytes do not have the digest or the size that the trace recorded.",
    hint="restore the blob from the original run directory; its content is not what was recorded",
)


class BlobRef(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Where bytes are kept that do not stand in the line itself."""

    digest: Digest
    """Digest of the bytes as stored (after redaction): the blob's address."""
    size_bytes: Count
    """How many bytes are stored."""


class BlobStore:
    """The blobs of one run directory."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known: set[Digest] = set()
        self._unsynced: list[Path] = []

    def path_of(self, digest: Digest) -> Path:
        """Where content with that digest lies.

        Raises:
            BLOB_CORRUPT: it is no digest, and could name a place outside of the store.
        """
        if not _DIGEST.fullmatch(digest):
            raise BLOB_CORRUPT.error(f"expected a digest as the address of a blob, found {digest[:80]!r}")
        name = digest.removeprefix("sha256:")
        return self._root / name[:2] / name[2:]

    def holds(self, ref: BlobRef) -> bool:
        """Whether this store has written (or found intact) that content already."""
        return ref.digest in self._known

    def put(self, data: bytes) -> BlobRef:
        """Store `data` once. It survives the death of the process at once, a power cut after `sync`."""
        ref = BlobRef(digest=digest_bytes(data), size_bytes=len(data))
        if not self.holds(ref):
            path = self.path_of(ref.digest)
            if not self._is_intact(path, ref.digest):
                self._write(path, data)
            self._known.add(ref.digest)
        return ref

    def read(self, ref: BlobRef) -> bytes:
        """The stored bytes.

        Raises:
            BLOB_MISSING: there is no such blob.
            BLOB_CORRUPT: the file's bytes are not the recorded ones.
        """
        path = self.path_of(ref.digest)
        try:
            stream = open_regular(path)
        except EvidenceError as error:  # `trace-unreadable`
            raise BLOB_MISSING.error(
                f"{path}: expected a blob of {ref.size_bytes} bytes; {error.message}"
            ) from error
        with stream:
            data = stream.read(ref.size_bytes + 1)
        if len(data) != ref.size_bytes:
            found = "more" if len(data) > ref.size_bytes else str(len(data))
            raise BLOB_CORRUPT.error(f"{path}: expected {ref.size_bytes} bytes, found {found}")
        found_digest = digest_bytes(data)
        if found_digest != ref.digest:
            raise BLOB_CORRUPT.error(f"{path}: expected content with {ref.digest}, found {found_digest}")
        return data

    def sync(self) -> None:
        """Make every blob stored so far survive a power cut."""
        folders = set()
        while self._unsynced:
            path = self._unsynced[-1]
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)
            folders.add(path.parent)
            self._unsynced.pop()
        for folder in folders:
            sync_directory(folder)
        if folders:
            sync_directory(self._root)

    def _is_intact(self, path: Path, digest: Digest) -> bool:
        # A file of that name may be left from before; only its content says whether it may stay.
        try:
            with open_regular(path) as stream:
                return digest_bytes(stream.read()) == digest
        except EvidenceError:  # `trace-unreadable`
            return False

    def _write(self, path: Path, data: bytes) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=".aside.")
        try:
            with os.fdopen(handle, "wb") as stream:
                os.fchmod(stream.fileno(), 0o644)
                stream.write(data)
            Path(name).replace(path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                Path(name).unlink()
            raise
        self._unsynced.append(path)
