"""Snapshots: exactly the files of a commit, an archive or a directory, and what identifies them (C2)."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Generator, Iterator
from pathlib import Path

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import ContractError, ErrorCode
from repotrial.contract import (
    ArchiveRepository,
    DirectoryRepository,
    GitRepository,
    Repository,
    RepositoryPin,
    SubmodulePin,
)
from repotrial.source._address import locate_beside, parse_address
from repotrial.source._archive import ARCHIVE_UNREADABLE, iter_archive
from repotrial.source._directory import DiscardingSink, iter_directory, open_target
from repotrial.source._gittree import CommitWalk
from repotrial.source._store import verify_full_hash
from repotrial.source._tree import (
    DEFAULT_OPTIONS,
    TREE_LIMIT,
    Member,
    SnapshotSummary,
    SourceOptions,
    TreeSink,
    collect_tree,
)

ARCHIVE_DIGEST_MISMATCH = ErrorCode(
    "archive-digest-mismatch",
    ContractError,
    "An archive is not the one that the contract pins.",
    hint="fetch the archive anew, or run `repotrial contract lock` if the new one is what you want",
)
SOURCE_MISSING = ErrorCode(
    "source-missing",
    ContractError,
    "The directory or archive that a contract names is not there.",
    hint="check `repository.source`: it starts at the contract directory",
)


class Snapshot(SnapshotSummary, frozen=True, kw_only=True):
    """The files of a commit, an archive or a directory."""

    commit: str | None = None
    """Of a git source."""
    submodules: tuple[SubmodulePin, ...] = ()
    """All that the commit has, those of submodules included, by path."""
    archive_digest: Digest | None = None
    """Of an archive."""

    @property
    def pin(self) -> RepositoryPin:
        """What a lock keeps of it; for a directory, the tree digest alone."""
        return RepositoryPin(
            tree_digest=self.tree_digest,
            commit=self.commit,
            submodules=self.submodules,
            archive_digest=self.archive_digest,
        )


def resolve_snapshot(
    repository: Repository, *, base: Path, options: SourceOptions = DEFAULT_OPTIONS
) -> Snapshot:
    """Read all of a repository and say what it is, without writing its files anywhere.

    Args:
        repository: As the contract names it.
        base: The contract directory.
        options: Limits and places.
    """
    return _take(repository, base=base, sink=DiscardingSink(), options=options)


def materialize_snapshot(
    repository: Repository, *, base: Path, into: Path, options: SourceOptions = DEFAULT_OPTIONS
) -> Snapshot:
    """Write exactly the files of a repository, with their modes and without history.

    Symbolic links are written as they are, even if they lead out of the tree: they belong to
    the content. Nothing is ever written or read through one.

    Args:
        repository: As the contract names it.
        base: The contract directory.
        into: A directory that does not exist or is empty; left as it was if anything goes wrong.
        options: Limits and places.
    """
    with open_target(into) as sink:
        return _take(repository, base=base, sink=sink, options=options)


def _take(repository: Repository, *, base: Path, sink: TreeSink, options: SourceOptions) -> Snapshot:
    match repository:
        case GitRepository():
            return _take_commit(repository, base=base, sink=sink, options=options)
        case ArchiveRepository():
            return _take_archive(repository, base=base, sink=sink, options=options)
        case DirectoryRepository():
            root = locate_beside(repository.source, base=base)
            if not os.path.isdir(root):  # noqa: PTH112 - `Path.is_dir` raises for names that are too long
                raise SOURCE_MISSING.error(f"expected a directory of files, found none at {root}")
            summary = _collect(iter_directory(root, limits=options.limits), sink, options)
            return Snapshot(**msgspec.structs.asdict(summary))


def _take_commit(
    repository: GitRepository, *, base: Path, sink: TreeSink, options: SourceOptions
) -> Snapshot:
    verify_full_hash(repository.commit)
    address = parse_address(repository.source, base=base, protocols=repository.protocols)
    walk = CommitWalk(repository.submodules, base=base, protocols=repository.protocols, options=options)
    summary = _collect(walk.iter_members(address, repository.commit), sink, options)
    walk.verify_pins_met()
    return Snapshot(**msgspec.structs.asdict(summary), commit=repository.commit, submodules=walk.submodules)


def _take_archive(
    repository: ArchiveRepository, *, base: Path, sink: TreeSink, options: SourceOptions
) -> Snapshot:
    path = locate_beside(repository.source, base=base)
    with _open_archive(path, options) as stream:
        # The same open file is digested and read, so a file put in its place meanwhile is neither.
        digest = "sha256:" + hashlib.file_digest(stream, "sha256").hexdigest()
        if repository.digest not in {None, digest}:
            raise ARCHIVE_DIGEST_MISMATCH.error(
                f"expected {repository.digest} for {repository.source}, found {digest}"
            )
        stream.seek(0)
        members = iter_archive(
            stream, name=path.name, strip_components=repository.strip_components, limits=options.limits
        )
        summary = _collect(members, sink, options)
    return Snapshot(**msgspec.structs.asdict(summary), archive_digest=digest)


@contextlib.contextmanager
def _open_archive(path: Path, options: SourceOptions) -> Iterator[io.BufferedReader]:
    try:
        if not path.is_file():
            raise SOURCE_MISSING.error(f"expected an archive file, found none at {path}")
        stream = path.open("rb")
    except OSError as error:
        raise ARCHIVE_UNREADABLE.error(f"expected a readable archive, found: {error}") from error
    with stream:
        size = stream.seek(0, io.SEEK_END)
        if size > options.limits.package_bytes:
            raise TREE_LIMIT.error(
                f"expected an archive of at most {options.limits.package_bytes} bytes, found {size}"
            )
        stream.seek(0)
        yield stream


def _collect(members: Generator[Member], sink: TreeSink, options: SourceOptions) -> SnapshotSummary:
    # Closing the generator ends git and removes the temporary clone now, not when memory is next tidied.
    with contextlib.closing(members):
        return collect_tree(members, sink=sink, limits=options.limits)
