"""What is known of one place in a tree before anything is opened, and the bounds of looking."""

from __future__ import annotations

import os
import stat
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.escaping import escape_bytes

HISTORY = b".git"
"""Never read, wherever it stands in a tree that an agent could write."""

_MIB = 1024**2


class ReadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How much of a tree is looked at, whatever an agent put there. Reaching a bound is reported."""

    entries: int = 200_000
    """Files, links and directories of one walk: what more there is would take hours to record and seal."""
    depth: int = 255
    """Components of one path."""
    path_bytes: int = 4000
    """One path; the kernel refuses longer ones at 4096."""
    file_bytes: int = 1024 * _MIB
    """The largest file whose content is read."""
    total_bytes: int = 4096 * _MIB
    """All contents that one operation reads."""
    kept_bytes: int = 16 * _MIB
    """The largest content of which a copy is kept between two marks."""


class Node(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What `lstat` says. Two equal nodes of one path mean: the same content, once the clock has moved on."""

    mode: int
    size_bytes: int
    inode: int
    device: int
    """Device number of a device file."""
    modified_ns: int
    changed_ns: int
    """The change time: no program can set it."""

    @classmethod
    def from_status(cls, status: os.stat_result) -> Node:
        return cls(
            mode=status.st_mode,
            size_bytes=status.st_size,
            inode=status.st_ino,
            device=status.st_rdev,
            modified_ns=status.st_mtime_ns,
            changed_ns=status.st_ctime_ns,
        )

    @property
    def permissions(self) -> int:
        return stat.S_IMODE(self.mode)

    @property
    def is_file(self) -> bool:
        return stat.S_ISREG(self.mode)

    @property
    def is_link(self) -> bool:
        return stat.S_ISLNK(self.mode)

    @property
    def is_directory(self) -> bool:
        return stat.S_ISDIR(self.mode)


Touched: TypeAlias = dict[bytes, Node | None]
"""Every path that may differ from the base, with what stands there now; None: nothing."""

OmissionReason: TypeAlias = Literal[
    "nested-repository", "special-file", "too-deep", "too-large", "too-many-entries", "unsafe-path"
]


class Omission(msgspec.Struct, frozen=True, kw_only=True, order=True):
    """Something in a workspace that could not be taken along."""

    path: str
    """Relative to the workspace, as the trace writes names."""
    reason: OmissionReason


def build_omission(path: bytes, reason: OmissionReason) -> Omission:
    return Omission(path=escape_bytes(path), reason=reason)


def join_path(directory: bytes, name: bytes) -> bytes:
    return directory + b"/" + name if directory else name
