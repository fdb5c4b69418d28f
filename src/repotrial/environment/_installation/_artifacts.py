"""Artifacts: files pinned by digest, kept in the store as they are or unpacked.

One that has an address is downloaded when it is first needed, before any sandbox is opened; from then on it
comes from the store, and no network is needed.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO, Final
from urllib.parse import urlsplit

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode, MachineError
from repotrial.contract import ArchiveRepository, Artifact
from repotrial.environment._installation._download import download
from repotrial.environment._store import Facts, Kind, Store, StoreEntry
from repotrial.isolation import Bind
from repotrial.source import materialize_snapshot

_LAYOUT: Final = "repotrial/artifact@1"
_CONTENT: Final = "content"
_DOWNLOAD: Final = "download-"
_NAME_CHARACTERS: Final = 50
_CHUNK_BYTES: Final = 1 << 20


ARTIFACT_MISMATCH = ErrorCode(
    "artifact-mismatch",
    ContractError,
    "A file beside the contract, or what its address serves, is another one than its artifact states.",
    hint="restore the file, or state the digest of the one that is wanted",
)
ARTIFACT_OUTSIDE = ErrorCode(
    "artifact-outside",
    ContractError,
    "An artifact's path leads out of the contract's directory.",
    hint="put the file beside the contract",
)
ARTIFACT_MISSING = ErrorCode(
    "artifact-missing",
    MachineError,
    "An artifact is neither beside the contract nor in the store.",
    hint="put it there, or name the address that serves it as its source",
)


def open_artifact(
    artifact: Artifact, *, directory: Path, store: Store, variables: Mapping[str, str]
) -> StoreEntry:
    """Find an artifact in the store, or put it there: from the contract's directory, or from its address.

    Args:
        artifact: As the contract names it.
        directory: The contract's.
        store: Where artifacts are kept.
        variables: The operator's proxies and certificates.

    Raises:
        ARTIFACT_MISSING: the file is not there.
        ARTIFACT_ADDRESS: its address is none that is asked.
        ARTIFACT_UNREACHABLE: it could not be downloaded.
        ARTIFACT_MISMATCH: the file is another one.
        ARTIFACT_OUTSIDE: its path leaves the contract's directory.
        ARCHIVE_UNREADABLE: it cannot be unpacked.
        UNSAFE_PATH: a member leads out of it.
    """
    key = _build_key(artifact)
    if (found := store.find(Kind.ARTIFACT, key)) is not None:
        return found
    is_far = "://" in artifact.source
    path = None if is_far else _locate(artifact, directory)

    def build(tree: Path, _lock: int) -> Facts:
        # Beside the tree: it goes with it if anything fails.
        source = path or tree.parent / _name_download(artifact)
        if is_far:
            _verify(artifact, download(artifact.source, source, variables=variables))
        if artifact.unpack == "none":
            _copy(artifact, source, tree / _CONTENT)
        else:
            _unpack(artifact, source, tree)
        if is_far:
            source.unlink()
        return {"digest": artifact.digest, "unpack": artifact.unpack}

    return store.make(Kind.ARTIFACT, key, build)


def build_artifact_bind(artifact: Artifact, entry: StoreEntry) -> Bind:
    """How a sandbox shows it."""
    source = entry.path / _CONTENT if artifact.unpack == "none" else entry.path
    return Bind(source=source, target=artifact.target)


def _build_key(artifact: Artifact) -> Digest:
    return canonical_digest(
        {
            "layout": _LAYOUT,
            "digest": artifact.digest,
            "unpack": artifact.unpack,
            "strip_components": artifact.strip_components,
        }
    )


def _name_download(artifact: Artifact) -> str:
    """A name of our own that ends like the address, since an archive's kind is told by its name."""
    name = urlsplit(artifact.source).path.rpartition("/")[2]
    return _DOWNLOAD + re.sub(r"[^A-Za-z0-9.]", "_", name)[-_NAME_CHARACTERS:]


def _locate(artifact: Artifact, directory: Path) -> Path:
    root = directory.resolve()
    path = (root / artifact.source).resolve()
    if not path.is_relative_to(root):
        raise ARTIFACT_OUTSIDE.error(
            f"environment.artifacts: {artifact.id}: expected a path inside {directory}, found {path}"
        )
    if not path.is_file():
        raise ARTIFACT_MISSING.error(
            f"environment.artifacts: {artifact.id}: expected a file, found no {path}"
        )
    return path


def _copy(artifact: Artifact, path: Path, target: Path) -> None:
    total = hashlib.sha256()
    with path.open("rb") as stream, target.open("wb") as copy:
        for chunk in _iter_chunks(stream):
            total.update(chunk)
            copy.write(chunk)
    _verify(artifact, "sha256:" + total.hexdigest())
    # It may be a tool, and whoever unpacked it must not decide whether it runs.
    target.chmod(0o755)


def _unpack(artifact: Artifact, path: Path, tree: Path) -> None:
    with path.open("rb") as stream:
        _verify(artifact, "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest())
    source = ArchiveRepository(
        source=path.name, digest=artifact.digest, strip_components=artifact.strip_components
    )
    materialize_snapshot(source, base=path.parent, into=tree)


def _verify(artifact: Artifact, found: Digest) -> None:
    if found != artifact.digest:
        raise ARTIFACT_MISMATCH.error(
            f"environment.artifacts: {artifact.id}: expected {artifact.digest}, found {found}"
        )


def _iter_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk
