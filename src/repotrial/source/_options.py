"""Limits and places: what a snapshot may cost on this machine. None of it enters a digest."""

from __future__ import annotations

from pathlib import Path

import msgspec

_MIB = 1024**2
_GIB = 1024**3


class SnapshotLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a snapshot may be; the defaults hold the largest public repositories and refuse bombs."""

    entries: int = 500_000
    """Files, links and directories, submodules included."""
    file_bytes: int = 2 * _GIB
    """One file's content, unpacked."""
    total_bytes: int = 8 * _GIB
    """All contents together, unpacked."""
    path_bytes: int = 4000
    """One path; below PATH_MAX, so that there is room for the directory it is placed in."""
    depth: int = 255
    """Components of one path."""
    package_bytes: int = 2 * _GIB
    """An archive or a bundle as it lies on disk."""
    submodules: int = 500
    """Submodules, those of submodules included."""


class SourceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How this machine resolves repositories."""

    limits: SnapshotLimits = SnapshotLimits()
    git_seconds: int = 1800
    """Time limit of each git command; a first fetch of a large repository is the longest of them."""
    output_bytes: int = 256 * _MIB
    """The most that one git command may print."""
    scratch: Path | None = None
    """Where temporary clones are made and removed; the system's temporary directory unless told."""
    search_path: str | None = None
    """Where programs are looked for, as in `PATH`; the process's own `PATH` unless told."""


DEFAULT_OPTIONS = SourceOptions()
