"""Δ as rules see it: one record for each file that a patch touches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.errors import AgentError, ErrorCode

SYMLINK = "120000"
GITLINK = "160000"

ChangeKind: TypeAlias = Literal["added", "modified", "deleted", "mode-changed", "renamed"]


PATCH_UNREADABLE = ErrorCode(
    "patch-unreadable",
    AgentError,
    "A change is no patch as git writes it, contradicts itself, names unsafe paths, or is too large.",
    hint="make the patch with `git diff --binary --no-renames`; nothing of an unreadable patch counts",
)


class Location(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """A line of a changed file."""

    path: str
    """As the trace writes names."""
    line: int
    """From 1, in the file after the change."""


class AddedLine(msgspec.Struct, frozen=True):
    """One line that the change brings."""

    number: int
    """From 1, in the file after the change."""
    text: str
    """Without the newline; bytes that are no UTF-8 are replaced."""


class ChangedFile(msgspec.Struct, frozen=True, kw_only=True):
    """What a patch does to one file."""

    path: str
    """Relative to the workspace, as the trace writes names; where a rename leads."""
    old_path: str | None = None
    """Where a renamed file was."""
    kind: ChangeKind
    """What happened; a file that becomes a link is a deletion and an addition."""
    is_binary: bool = False
    """Whether the content is in git's binary form."""
    is_symlink: bool = False
    """Whether it is a symbolic link, before or after."""
    added_lines: tuple[AddedLine, ...] = ()
    """In order; the whole file where `kind` is `added` and the content is text."""
    removed_lines: tuple[str, ...] = ()
    """In order."""
    binary_bytes: int | None = None
    """Size of the new content, where it is in the binary form."""
    mode: str | None = None
    """Git's six digits; None if nothing is left, or for a plain rename, which does not say."""
    old_mode: str | None = None
    """The same before the change."""

    @property
    def added_count(self) -> int:
        return len(self.added_lines)

    @property
    def removed_count(self) -> int:
        return len(self.removed_lines)

    @property
    def is_mode_missing(self) -> bool:
        """Whether a file changes in place and the patch does not say of which kind it is."""
        is_kept = self.kind in {"modified", "renamed"}
        return (
            is_kept and self.mode is None and bool(self.added_lines or self.removed_lines or self.is_binary)
        )

    @property
    def touched_paths(self) -> tuple[str, ...]:
        """Every name whose content, mode or existence differs after the change."""
        return (self.path,) if self.old_path is None else (self.old_path, self.path)

    @property
    def link_target(self) -> str | None:
        """Where the new link leads."""
        if self.mode != SYMLINK or not self.added_lines:
            return None
        return "\n".join(line.text for line in self.added_lines)


class ChangeView(msgspec.Struct, frozen=True, kw_only=True):
    """All of Δ."""

    files: tuple[ChangedFile, ...]
    """In the order of the patch."""
    digest: Digest
    """Of the patch's bytes."""

    @property
    def file_count(self) -> int:
        """Paths touched: a rename is two, however the patch writes it (C15)."""
        return len({path for file in self.files for path in file.touched_paths})

    @property
    def line_count(self) -> int:
        """Lines added and removed."""
        return sum(file.added_count + file.removed_count for file in self.files)

    @property
    def binary_bytes(self) -> int:
        """New content in the binary form."""
        return sum(file.binary_bytes or 0 for file in self.files)

    def iter_present(self) -> Iterator[ChangedFile]:
        """What is there after the change."""
        return (file for file in self.files if file.kind != "deleted")
