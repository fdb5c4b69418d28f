"""Repository snapshots: what a repository is, exactly, and its files on disk. The only code that runs git."""

from __future__ import annotations

from repotrial.source._directory import compute_tree_digest
from repotrial.source._history import (
    ChangeStatus,
    CommitChange,
    CommitInfo,
    CommitSummary,
    FileCount,
    open_history,
    resolve_commit,
)
from repotrial.source._seal_history import (
    PATCH_REFUSED,
    SEALED_AT_SECONDS,
    HistoryProblem,
    apply_patch,
    check_sealed_history,
    seal_history,
)
from repotrial.source._snapshot import ARCHIVE_DIGEST_MISMATCH, materialize_snapshot, resolve_snapshot
from repotrial.source._store import COMMIT_NOT_FOUND
from repotrial.source._tree import DEFAULT_OPTIONS, SnapshotLimits, SourceOptions, verify_path

__all__ = [
    "ARCHIVE_DIGEST_MISMATCH",
    "COMMIT_NOT_FOUND",
    "DEFAULT_OPTIONS",
    "PATCH_REFUSED",
    "SEALED_AT_SECONDS",
    "ChangeStatus",
    "CommitChange",
    "CommitInfo",
    "CommitSummary",
    "FileCount",
    "HistoryProblem",
    "SnapshotLimits",
    "SourceOptions",
    "apply_patch",
    "check_sealed_history",
    "compute_tree_digest",
    "materialize_snapshot",
    "open_history",
    "resolve_commit",
    "resolve_snapshot",
    "seal_history",
    "verify_path",
]
