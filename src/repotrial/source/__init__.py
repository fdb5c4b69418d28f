"""Repository snapshots: what a repository is, exactly, and its files on disk. The only code that runs git."""

from __future__ import annotations

from repotrial.source._address import (
    CredentialsInSourceError,
    ProtocolRefusedError,
    SourceOutsideError,
    SourceRefusedError,
)
from repotrial.source._apply_patch import PatchRefusedError, apply_patch
from repotrial.source._archive import ARCHIVE_SUFFIXES, ArchiveUnreadableError
from repotrial.source._directory import (
    SnapshotWriteError,
    TargetNotEmptyError,
    TreeUnreadableError,
    UnsupportedEntryError,
    compute_tree_digest,
    summarize_directory,
)
from repotrial.source._git import (
    MINIMUM_GIT,
    GitCommandError,
    GitMissingError,
    GitOutputError,
    GitTimeoutError,
    GitTooOldError,
    execute_git,
    find_git,
)
from repotrial.source._gittree import SubmoduleError
from repotrial.source._history import (
    ChangedFile,
    ChangeStatus,
    CommitInfo,
    History,
    RevisionRefusedError,
    build_patch,
    open_history,
    read_commit,
    resolve_commit,
)
from repotrial.source._local import NotARepositoryError, ObjectFormatError, RepositoryRefusedError
from repotrial.source._objects import CorruptObjectError, MissingObjectError
from repotrial.source._options import DEFAULT_OPTIONS, SnapshotLimits, SourceOptions
from repotrial.source._paths import UnsafePathError, render_path, verify_path
from repotrial.source._seal_history import (
    SEALED_AT_SECONDS,
    DescribeRefusedError,
    SealedHistory,
    SealProblem,
    check_sealed_history,
    seal_history,
)
from repotrial.source._snapshot import (
    ArchiveDigestError,
    ArchiveSnapshot,
    DirectorySnapshot,
    GitSnapshot,
    Snapshot,
    SourceMissingError,
    materialize_snapshot,
    resolve_snapshot,
)
from repotrial.source._store import (
    BundleUnreadableError,
    CommitNotFoundError,
    CommitNotPinnedError,
    FetchFailedError,
    ScratchUnavailableError,
)
from repotrial.source._tree import (
    TREE_DOMAIN,
    FileMode,
    TreeConflictError,
    TreeEntry,
    TreeLimitError,
    TreeSummary,
    build_tree_digest,
)

__all__ = [
    "ARCHIVE_SUFFIXES",
    "DEFAULT_OPTIONS",
    "MINIMUM_GIT",
    "SEALED_AT_SECONDS",
    "TREE_DOMAIN",
    "ArchiveDigestError",
    "ArchiveSnapshot",
    "ArchiveUnreadableError",
    "BundleUnreadableError",
    "ChangeStatus",
    "ChangedFile",
    "CommitInfo",
    "CommitNotFoundError",
    "CommitNotPinnedError",
    "CorruptObjectError",
    "CredentialsInSourceError",
    "DescribeRefusedError",
    "DirectorySnapshot",
    "FetchFailedError",
    "FileMode",
    "GitCommandError",
    "GitMissingError",
    "GitOutputError",
    "GitSnapshot",
    "GitTimeoutError",
    "GitTooOldError",
    "History",
    "MissingObjectError",
    "NotARepositoryError",
    "ObjectFormatError",
    "PatchRefusedError",
    "ProtocolRefusedError",
    "RepositoryRefusedError",
    "RevisionRefusedError",
    "ScratchUnavailableError",
    "SealProblem",
    "SealedHistory",
    "Snapshot",
    "SnapshotLimits",
    "SnapshotWriteError",
    "SourceMissingError",
    "SourceOptions",
    "SourceOutsideError",
    "SourceRefusedError",
    "SubmoduleError",
    "TargetNotEmptyError",
    "TreeConflictError",
    "TreeEntry",
    "TreeLimitError",
    "TreeSummary",
    "TreeUnreadableError",
    "UnsafePathError",
    "UnsupportedEntryError",
    "apply_patch",
    "build_patch",
    "build_tree_digest",
    "check_sealed_history",
    "compute_tree_digest",
    "execute_git",
    "find_git",
    "materialize_snapshot",
    "open_history",
    "read_commit",
    "render_path",
    "resolve_commit",
    "resolve_snapshot",
    "seal_history",
    "summarize_directory",
    "verify_path",
]
