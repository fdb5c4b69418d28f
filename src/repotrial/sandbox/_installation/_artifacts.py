"""Artifacts: downloads pinned by digest, kept in the store as files or unpacked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Final

from repotrial._core.canonical import canonical_digest
from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, MachineError
from repotrial.contract import ArchiveRepository, Artifact
from repotrial.sandbox._model import Bind
from repotrial.sandbox._store import Facts, Kind, Store, StoreEntry
from repotrial.source import materialize_snapshot

__all__ = [
    "ArtifactDigestError",
    "ArtifactMissingError",
    "ArtifactOutsideError",
    "build_artifact_bind",
    "open_artifact",
]

_LAYOUT: Final = "repotrial/artifact@1"
_CONTENT: Final = "content"
_CHUNK_BYTES: Final = 1 << 20


class ArtifactDigestError(ContractError):
    """A file beside the contract does not have the digest that its artifact states."""

    code = "artifact-mismatch"
    default_hint = "restore the file, or state the digest of the one that is wanted"


class ArtifactOutsideError(ContractError):
    """An artifact's path leads out of the contract's directory."""

    code = "artifact-outside"
    default_hint = "put the file beside the contract"


class ArtifactMissingError(MachineError):
    """An artifact is neither beside the contract nor in the store; nothing is downloaded for a run."""

    code = "artifact-missing"
    default_hint = "download it, put it beside the contract and name that path as its source"


def open_artifact(artifact: Artifact, *, directory: Path, store: Store) -> StoreEntry:
    """Find an artifact in the store, or put it there from the contract's directory.

    Raises:
        ArtifactMissingError: it is nowhere on this machine.
        ArtifactDigestError: the file is another one.
        ArtifactOutsideError: its path leaves the contract's directory.
        ArchiveUnreadableError: it cannot be unpacked.
        UnsafePathError: a member leads out of it.
    """
    key = _build_key(artifact)
    if (found := store.find(Kind.ARTIFACT, key)) is not None:
        return found
    path = _locate(artifact, directory)

    def build(tree: Path, _lock: int) -> Facts:
        if artifact.unpack == "none":
            _copy(artifact, path, tree / _CONTENT)
        else:
            _unpack(artifact, path, tree)
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


def _locate(artifact: Artifact, directory: Path) -> Path:
    if "://" in artifact.source:
        raise ArtifactMissingError(
            f"environment.artifacts: {artifact.id}: expected {artifact.digest} in the store, since this "
            f"machine downloads nothing for a run, found none"
        )
    root = directory.resolve()
    path = (root / artifact.source).resolve()
    if not path.is_relative_to(root):
        raise ArtifactOutsideError(
            f"environment.artifacts: {artifact.id}: expected a path inside {directory}, found {path}"
        )
    if not path.is_file():
        raise ArtifactMissingError(f"environment.artifacts: {artifact.id}: expected a file, found no {path}")
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
        raise ArtifactDigestError(
            f"environment.artifacts: {artifact.id}: expected {artifact.digest}, found {found}"
        )


def _iter_chunks(stream: IO[bytes]) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK_BYTES):
        yield chunk
