"""Changes of the harness's own to a fresh workspace, and outputs that cross from one check to the next."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

from repotrial._core.errors import ErrorCode, MachineError
from repotrial._core.escaping import escape_bytes
from repotrial.environment import Installation
from repotrial.isolation import Account, CommandSpec, find_identity
from repotrial.run._accept._candidate import open_plain_sandbox
from repotrial.trace import Exited
from repotrial.workspace import (
    Contents,
    OverlayWorkspace,
    ReadLimits,
    TreeReader,
    Workspace,
    copy_tree,
    hide_base,
    take_whiteout,
)

_LEFTOVER_LIMITS: Final = ReadLimits(entries=10_000, total_bytes=256 * 2**20, file_bytes=64 * 2**20, depth=20)


_SECONDS: Final = 300
_LIMITS: Final = ReadLimits(file_bytes=2**30, total_bytes=2**30)
TREE_NOT_PREPARED = ErrorCode(
    "tree-not-prepared",
    MachineError,
    "The tree that a check was to judge could not be made.",
    hint="the machine is too slow or unreliable: look at its load, disk and memory, then try again",
)


def read_leftovers(directory: Path) -> dict[str, bytes]:
    """Every regular file that lies there now, by its name; links, pipes and giants are passed over."""
    found = {}
    with TreeReader(directory, limits=_LEFTOVER_LIMITS) as reader:
        for path, node in sorted(reader.walk()):
            reading = reader.read_file(path, kept_bytes=_LEFTOVER_LIMITS.file_bytes) if node.is_file else None
            if isinstance(reading, Contents) and reading.data is not None:
                found[escape_bytes(path)] = reading.data
    return found


def remove_inside(installation: Installation, workspace: Workspace, paths: Sequence[str]) -> None:
    """Take paths away before oracle files are laid down.

    Raises:
        TREE_NOT_PREPARED: that did not come to its end; what a check said of the tree would mean nothing.
    """
    if not paths:
        return
    with open_plain_sandbox(installation, workspace) as sandbox:
        done = sandbox.run(CommandSpec(argv=("rm", "-rf", "--", *paths), timeout_seconds=_SECONDS))
    # Where it ended and some are left, the change is such that they cannot be removed: its own loss.
    if not isinstance(done.exit, Exited):
        raise TREE_NOT_PREPARED.error(f"expected to remove what the oracle deletes, found: {done.cause}")


def take_outputs(workspace: Workspace, paths: Sequence[str], into: Path) -> None:
    """Copy what a check was declared to leave; links are copied as links, nothing is followed."""
    root = _find_upper(workspace)
    for path in paths:
        if not _stays_below(root, path):
            continue
        target = into / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if (root / path).is_symlink():
            continue
        if (root / path).is_dir():
            copy_tree(root / path, target, owner=None)
        elif (root / path).is_file():
            _copy_file(root, path, target)


def carry_outputs(kept: Path, paths: Sequence[str], workspace: Workspace) -> None:
    """Put outputs of an earlier check into a fresh workspace; what the candidate has there stays.

    What it has deleted is not there: a build may well make again what a change takes away.
    """
    root = _find_upper(workspace)
    account = find_identity()
    owner = None if account.uid == os.geteuid() else account
    for path in paths:
        target = root / path
        if not os.path.lexists(kept / path) or not _stays_below(root, path):
            continue
        if not _make_parents(root, path, owner):
            continue
        was_deleted = take_whiteout(target)
        if os.path.lexists(target):
            continue
        if (kept / path).is_dir():
            copy_tree(kept / path, target, owner=owner)
            if was_deleted:
                hide_base(target)
        else:
            shutil.copy2(kept / path, target)
            _give(target, owner)


def _copy_file(root: Path, path: str, target: Path) -> None:
    with TreeReader(root, limits=_LIMITS) as reader:
        reading = reader.read_file(os.fsencode(path), kept_bytes=_LIMITS.file_bytes)
    if isinstance(reading, Contents) and reading.data is not None:
        target.write_bytes(reading.data)
        target.chmod(reading.node.permissions & 0o777)


def _make_parents(root: Path, path: str, owner: Account | None) -> bool:
    """Make the way to a path; false where something else is on it."""
    for parent in reversed(PurePosixPath(path).parents[:-1]):
        place = root / parent
        was_deleted = take_whiteout(place)
        if place.is_dir():
            continue
        if os.path.lexists(place):
            return False
        place.mkdir(mode=0o755)
        _give(place, owner)
        if was_deleted:
            hide_base(place)
    return True


def _give(path: Path, owner: Account | None) -> None:
    if owner is not None:
        os.chown(path, owner.uid, owner.gid)


def _find_upper(workspace: Workspace) -> Path:
    return workspace.upper if isinstance(workspace, OverlayWorkspace) else workspace.path


def _stays_below(root: Path, path: str) -> bool:
    """Whether no part of the way is a link: the tree is a candidate's."""
    parts = PurePosixPath(path).parts
    return not any((root / PurePosixPath(*parts[:count])).is_symlink() for count in range(1, len(parts)))
