"""The workspace again, from the trace alone (P28): every mutation in order, checked against its digests."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from repotrial._core.escaping import unescape_text
from repotrial.environment import Installation
from repotrial.isolation import Account
from repotrial.run._accept._candidate import apply_patch_inside, is_applied
from repotrial.trace import (
    BinaryContent,
    BlobStore,
    DirectoryEntry,
    FileAdded,
    FileChange,
    FileDeleted,
    FileEntry,
    FileModified,
    ModeChanged,
    PatchContent,
)
from repotrial.workspace import CopyWorkspace


def rebuild_changes(
    installation: Installation, workspace: CopyWorkspace, changes: Iterable[FileChange], blobs: BlobStore
) -> None:
    """Do to a workspace what one mutation event says was done to another.

    What the trace did not keep is left undone; `check_rebuilt` names it.

    Raises:
        EvidenceError: a body that the trace refers to is not there.
    """
    listed = list(changes)
    patches = [
        change.content.patch.load(blobs)
        for change in listed
        if not isinstance(change, ModeChanged) and isinstance(change.content, PatchContent)
    ]
    result = apply_patch_inside(installation, workspace, b"".join(patches))
    if not is_applied(result):
        return
    root = workspace.path
    for change in listed:
        path = root / os.fsdecode(unescape_text(change.path))
        if _is_reached_plainly(root, path):
            _rebuild_rest(change, path, blobs)
            _give(path, workspace.base.owner)
    # Children come after their directories in byte order, so what is to go is emptied from the end.
    for change in reversed(listed):
        path = root / os.fsdecode(unescape_text(change.path))
        if isinstance(change, FileDeleted) and _is_reached_plainly(root, path):
            _remove(change, path)


def _rebuild_rest(change: FileChange, path: Path, blobs: BlobStore) -> None:
    """What no patch can do: directories, binary contents, permission bits."""
    match change:
        case ModeChanged(after_mode=mode) if path.exists() and not path.is_symlink():
            path.chmod(mode)
        case FileAdded(after=DirectoryEntry(mode=mode)):
            path.mkdir(parents=True, exist_ok=True)
            path.chmod(mode)
        case (
            FileAdded(after=FileEntry(mode=mode), content=content)
            | FileModified(after=FileEntry(mode=mode), content=content)
        ):
            if isinstance(content, BinaryContent):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(blobs.read(content.blob))
            if path.is_file() and not path.is_symlink():
                path.chmod(mode)
        case _:
            pass


def _give(path: Path, owner: Account | None) -> None:
    """What the harness made must be as changeable as what the agent made."""
    if owner is not None and os.path.lexists(path):
        os.chown(path, owner.uid, owner.gid, follow_symlinks=False)


def _remove(change: FileDeleted, path: Path) -> None:
    if isinstance(change.before, DirectoryEntry):
        if path.is_dir() and not path.is_symlink() and not any(path.iterdir()):
            path.rmdir()
    elif os.path.lexists(path) and not path.is_dir():
        path.unlink()


def _is_reached_plainly(root: Path, path: Path) -> bool:
    """Whether no directory on the way is a link: the trace records what an agent made."""
    inside = path.relative_to(root).parts[:-1]
    return ".." not in inside and not any(
        root.joinpath(*inside[:count]).is_symlink() for count in range(1, len(inside) + 1)
    )


def check_rebuilt(workspace: CopyWorkspace, changes: Iterable[FileChange]) -> list[str]:
    """Paths that are not what the trace says they became."""
    expected = {
        change.path: None if isinstance(change, FileDeleted) else change.after
        for change in changes
        if not isinstance(change, ModeChanged)
    }
    entries = workspace.snapshot().entries
    wrong = []
    for name, after in expected.items():
        found = entries.get(unescape_text(name))
        if (
            isinstance(after, FileEntry)
            and (not isinstance(found, FileEntry) or found.digest != after.digest)
        ) or (after is None and found is not None):
            wrong.append(name)
    return sorted(wrong)
