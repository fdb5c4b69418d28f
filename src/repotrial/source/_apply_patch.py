"""Applying a patch to a tree of ours: all of it or nothing, never beyond the tree, bytes as they are."""

from __future__ import annotations

from pathlib import Path

from repotrial._core.errors import ContractError, ErrorCode
from repotrial.source._git import GitCommandError
from repotrial.source._options import DEFAULT_OPTIONS, SourceOptions
from repotrial.source._seal_history import execute_plain_git

PATCH_REFUSED = ErrorCode(
    "patch-refused",
    ContractError,
    "A patch does not apply to the tree, is malformed, or reaches outside of it.",
    hint="make the patch against the very snapshot that it is applied to",
)


def apply_patch(patch: bytes, *, tree: Path, options: SourceOptions = DEFAULT_OPTIONS) -> None:
    """Apply a patch as `git apply` reads it; only for a tree that no agent could write to.

    Args:
        patch: As `git diff --binary` writes it; an empty one changes nothing.
        tree: The files; a `.git` among them is not looked at.
        options: Limits and places.

    Raises:
        PATCH_REFUSED: git refused it; the tree is unchanged.
    """
    if not patch:
        return
    try:
        execute_plain_git(["apply", "--whitespace=nowarn", "-"], tree=tree, stdin=patch, options=options)
    except GitCommandError as error:
        raise PATCH_REFUSED.error(f"expected a patch that applies: {error.message}") from error
