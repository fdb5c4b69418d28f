"""The two patches of a SWE-bench instance, held against the tree that they are for."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from repotrial._core.digest import name_blob
from repotrial._core.errors import AgentError, ContractError
from repotrial.authoring._base import Tree, open_tree
from repotrial.authoring._split import CHANGE_WITHOUT_TESTS, verify_hidden
from repotrial.authoring._swebench_instance import SWEBENCH_INSTANCE_INVALID, SwebenchInstance
from repotrial.authoring._text import clean_line
from repotrial.change import PATCH_UNREADABLE, read_change, read_sections
from repotrial.source import PATCH_REFUSED, ChangedFile, ChangeStatus, apply_patch

_ABSENT = "000000"
_PLAIN = ("100644", "100755")


class InstanceTrees(msgspec.Struct, frozen=True, kw_only=True):
    """An instance's base, with its tests and with its gold patch; and what the two patches change."""

    base: Tree
    tested: Tree
    """With the tests of the instance."""
    fixed: Tree
    """With its gold patch."""
    hidden: tuple[ChangedFile, ...]
    """What the tests change; a rename is a deletion and an addition."""
    reference: tuple[ChangedFile, ...]
    """What the gold patch changes."""
    patch: bytes
    """The gold patch, with a mode for every file."""

    @property
    def laid(self) -> tuple[str, ...]:
        """Files that the tests bring."""
        return tuple(change.path for change in self.hidden if change.status is not ChangeStatus.DELETED)

    @property
    def removed(self) -> tuple[str, ...]:
        """Files that must be gone before those are laid."""
        replaced = (ChangeStatus.DELETED, ChangeStatus.TYPE_CHANGED)
        return tuple(change.path for change in self.hidden if change.status in replaced)


@contextlib.contextmanager
def open_instance_trees(instance: SwebenchInstance, source: str, commit: str) -> Iterator[InstanceTrees]:
    """The trees of an instance, in temporary directories.

    Raises:
        SWEBENCH_INSTANCE_INVALID: a patch does not apply, is empty or cannot be read, or both touch one file.
        CHANGE_WITHOUT_TESTS: the tests bring no file.
        TEST_FILE_UNSUPPORTED: a test file cannot lie beside a contract.
    """
    with (
        open_tree(source, commit) as base,
        open_tree(source, commit) as tested,
        open_tree(source, commit) as fixed,
    ):
        _, hidden = _apply(instance, "test_patch", instance.test_patch_bytes, base=base, tree=tested)
        patch, reference = _apply(instance, "patch", instance.patch_bytes, base=base, tree=fixed)
        _verify_apart(instance, hidden, reference)
        verify_hidden(hidden, reference)
        trees = InstanceTrees(
            base=base, tested=tested, fixed=fixed, hidden=hidden, reference=reference, patch=patch
        )
        if not trees.laid:
            raise CHANGE_WITHOUT_TESTS.error(
                f"{instance.instance_id}: test_patch: expected an added or modified file, found none"
            )
        yield trees


def _apply(
    instance: SwebenchInstance, field: str, patch: bytes, *, base: Tree, tree: Tree
) -> tuple[bytes, tuple[ChangedFile, ...]]:
    """The patch as judges read it, and what it changes."""
    place = f"{instance.instance_id}: {field}"
    if not patch.strip():
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{place}: expected a patch, found nothing",
            hint="give the patch as the data set has it, or leave the instance out",
        )
    try:
        _verify_plain(patch, base)
        apply_patch(patch, tree=tree.root)
        patch = _state_modes(patch, base, tree)
        view = read_change(patch)
    except (AgentError, ContractError) as error:
        if error.code not in {PATCH_UNREADABLE, PATCH_REFUSED}:
            raise
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{place}: expected a patch that applies to {base.commit}, found: {error.message}",
            hint=f"give {field} as the data set has it, for base_commit of {clean_line(instance.repo)}",
        ) from error
    paths = sorted({path for file in view.files for path in file.touched_paths})
    changes = (_compare(path, base, tree) for path in paths)
    return patch, tuple(change for change in changes if change is not None)


def _verify_plain(patch: bytes, base: Tree) -> None:
    """Git applies a change without a mode to whatever is there, be it a link."""
    for section in read_sections(patch, needs_modes=False):
        old = section.file.old_path or section.file.path
        if section.file.is_mode_missing and _find_mode(base.root / old) not in _PLAIN:
            raise PATCH_UNREADABLE.error(
                f"expected a plain file {old!r}, since its mode is not stated, found none"
            )


def _state_modes(patch: bytes, base: Tree, tree: Tree) -> bytes:
    """The same patch with the line that the data set leaves out: a changed file keeps its mode."""
    parts, end = [], 0
    for file, start in ((section.file, section.start) for section in read_sections(patch, needs_modes=False)):
        if file.is_mode_missing and not file.is_binary:
            old, new = base.root / (file.old_path or file.path), tree.root / file.path
            body = patch.index(b"\n--- ", start) + 1
            names = f"{name_blob(old.read_bytes())}..{name_blob(new.read_bytes())}"
            parts += [patch[end:body], f"index {names} {_find_mode(old)}\n".encode()]
            end = body
    return b"".join([*parts, patch[end:]])


def _compare(path: str, base: Tree, tree: Tree) -> ChangedFile | None:
    """What happened to a path, by what lies there before and after; none where it never was."""
    old, new = _find_mode(base.root / path), _find_mode(tree.root / path)
    if old == new == _ABSENT:
        return None
    if old == _ABSENT:
        status = ChangeStatus.ADDED
    elif new == _ABSENT:
        status = ChangeStatus.DELETED
    else:
        status = ChangeStatus.MODIFIED if old[:3] == new[:3] else ChangeStatus.TYPE_CHANGED
    return ChangedFile(path=path, status=status, old_mode=old, new_mode=new)


def _find_mode(path: Path) -> str:
    try:
        mode = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return _ABSENT
    if stat.S_ISLNK(mode):
        return "120000"
    if not stat.S_ISREG(mode):
        return _ABSENT  # a directory in place of a file: the file is gone
    return "100755" if mode & stat.S_IXUSR else "100644"


def _verify_apart(
    instance: SwebenchInstance, hidden: Sequence[ChangedFile], reference: Sequence[ChangedFile]
) -> None:
    """Files of the tests are laid over the candidate's: a change of them would never be judged."""
    both = sorted({change.path for change in hidden} & {change.path for change in reference})
    if both:
        raise SWEBENCH_INSTANCE_INVALID.error(
            f"{instance.instance_id}: expected patch and test_patch to touch different files, "
            f"found {both[0]!r} in both",
            hint="keep each file in one of them: those of test_patch are laid over a candidate's change",
        )
