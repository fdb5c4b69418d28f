"""R: the repository snapshot (C2)."""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from repotrial._core.digest import Digest
from repotrial.contract._types import (
    CommitId,
    Document,
    NonNegative,
    SnapshotArchivePath,
    SnapshotDirectoryPath,
    WorkspacePath,
)

TRANSPORTS = ("file", "git", "http", "https", "ssh")
"""All that a contract may allow git to use; `ext` would run a program."""


class SubmodulePin(Document, frozen=True, kw_only=True):
    """One submodule, resolved."""

    path: WorkspacePath
    """Where the submodule lies in the tree."""
    commit: CommitId
    """The commit that the superproject records for it."""
    source: str | None = None
    """Where to fetch it from, if not from the URL in `.gitmodules`."""


class GitRepository(Document, frozen=True, kw_only=True, tag_field="kind", tag="git"):
    """A commit of a git repository."""

    source: Annotated[str, msgspec.Meta(min_length=1, max_length=2000)]
    """A URL, a path relative to the contract directory, or a bundle file there."""
    commit: CommitId
    """The full hash of the base commit."""
    submodules: tuple[SubmodulePin, ...] = ()
    """Overrides and pins; `contract lock` records all that the commit has."""
    protocols: tuple[str, ...] = ("https", "ssh")
    """Transports that git may use for the repository and its submodules; paths need none."""
    describe: str | None = None
    """What `git describe` has to print in the workspace, for builds that ask it for the version."""
    mtime_order: tuple[WorkspacePath, ...] = ()
    """Files whose modification times must ascend in this order (autotools rebuilds what looks stale)."""


class ArchiveRepository(Document, frozen=True, kw_only=True, tag_field="kind", tag="archive"):
    """A tar or zip archive."""

    source: SnapshotArchivePath
    """The archive file, beside the contract."""
    digest: Digest | None = None
    """Digest over the archive's bytes; `contract lock` pins it where it is left out."""
    strip_components: NonNegative = 0
    """Leading path components to drop from each member."""
    describe: str | None = None
    """What `git describe` has to print in the workspace."""
    mtime_order: tuple[WorkspacePath, ...] = ()
    """Files whose modification times must ascend in this order."""


class DirectoryRepository(Document, frozen=True, kw_only=True, tag_field="kind", tag="directory"):
    """Plain files in a directory beside the contract; identified by their tree digest alone."""

    source: SnapshotDirectoryPath
    """The directory."""
    describe: str | None = None
    """What `git describe` has to print in the workspace."""
    mtime_order: tuple[WorkspacePath, ...] = ()
    """Files whose modification times must ascend in this order."""


Repository: TypeAlias = GitRepository | ArchiveRepository | DirectoryRepository
