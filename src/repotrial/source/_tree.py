"""The tree digest: one number for paths, modes and contents, the same from git, an archive or a directory.

`docs/reference/tree-digest.md` holds the definition for second implementations.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import Protocol

import msgspec

from repotrial._core.digest import Digest
from repotrial._core.display import escape_unprintable
from repotrial._core.errors import ContractError, ErrorCode
from repotrial._core.paths import find_path_fault

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


UNSAFE_PATH = ErrorCode(
    "unsafe-path",
    ContractError,
    "A repository holds a path that could leave its directory or pass for git's own data (`..`, `.git`).",
    hint="remove the path from the commit or archive, or trial another one",
)


def verify_path(path: bytes, limits: SnapshotLimits) -> None:
    """Refuse what is not a plain relative path.

    Raises:
        UNSAFE_PATH: the path is absolute, has empty, `.`, `..` or `.git`-like components, or is too long.
    """
    components = path.split(b"/")
    if len(path) > limits.path_bytes or len(components) > limits.depth:
        raise UNSAFE_PATH.error(
            f"expected at most {limits.path_bytes} bytes and {limits.depth} components in a path, "
            f"found {len(path)} and {len(components)}: {render_path(path[:100])}…"
        )
    if reason := find_path_fault(path):
        raise UNSAFE_PATH.error(f"expected a plain relative path, found {reason} in {render_path(path)}")


def render_path(path: bytes) -> str:
    """A path as it is shown: one line, printable, and different for different bytes."""
    return escape_unprintable(path.decode("utf-8", errors="backslashreplace"))


TREE_DOMAIN = b"repotrial/tree@1\0"
"""What the digest begins with, so that no other digest of ours can be taken for it."""

_LINK_BYTES = 4095


class FileMode(Enum):
    """The three modes that count, in git's spelling."""

    REGULAR = b"100644"
    EXECUTABLE = b"100755"
    SYMLINK = b"120000"


TREE_CONFLICT = ErrorCode(
    "tree-conflict",
    ContractError,
    "A repository holds the same path twice, or one path both as a file and as a directory.",
    hint="make the archive or commit anew; no usual tool writes such a tree",
)
TREE_LIMIT = ErrorCode(
    "tree-limit",
    ContractError,
    "A repository exceeds the limits on entries, bytes of one file, bytes of all files, or packed bytes.",
    hint="check that the archive is not a decompression bomb; raise the limit if it is what you want",
)


class TreeEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What the digest sees of one file or link."""

    path: bytes
    mode: FileMode
    content_digest: bytes
    """The raw sha256 of the file's bytes, or of the link's target."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """One file or link on its way into a snapshot; its content is read once, in order."""

    path: bytes
    mode: FileMode
    chunks: Iterable[bytes]


class TreeSink(Protocol):
    """Where contents go while they are counted."""

    def write_file(self, path: bytes, chunks: Iterable[bytes], *, is_executable: bool) -> None: ...

    def write_link(self, path: bytes, target: bytes) -> None: ...


class SnapshotSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A whole tree in a few figures."""

    tree_digest: Digest
    file_count: int
    """Files and symbolic links."""
    total_bytes: int
    """Contents of files and targets of links."""


def build_tree_digest(entries: Iterable[TreeEntry]) -> Digest:
    """The digest over entries in any order; paths must be different."""
    state = hashlib.sha256(TREE_DOMAIN)
    for entry in sorted(entries, key=lambda entry: entry.path):
        state.update(entry.mode.value)
        state.update(len(entry.path).to_bytes(8, "big"))
        state.update(entry.path)
        state.update(entry.content_digest)
    return "sha256:" + state.hexdigest()


def collect_tree(members: Iterable[Member], *, sink: TreeSink, limits: SnapshotLimits) -> SnapshotSummary:
    """Take in all members, checking each before its content is read, and pass the contents to `sink`.

    Raises:
        UNSAFE_PATH: a path or a link target is not acceptable.
        TREE_CONFLICT: two members claim the same place.
        TREE_LIMIT: too many entries or bytes.
    """
    collection = _Collection(sink, limits)
    for member in members:
        collection.add(member)
    return collection.build_summary()


class _Collection:
    def __init__(self, sink: TreeSink, limits: SnapshotLimits) -> None:
        self._sink = sink
        self._limits = limits
        self._entries: dict[bytes, TreeEntry] = {}
        self._directories: set[bytes] = set()
        self._total_bytes = 0

    def add(self, member: Member) -> None:
        self._claim(member.path)
        state = hashlib.sha256()
        chunks = self._measure(member, state)
        match member.mode:
            case FileMode.SYMLINK:
                self._add_link(member.path, chunks)
            case FileMode.REGULAR | FileMode.EXECUTABLE as mode:
                self._sink.write_file(member.path, chunks, is_executable=mode is FileMode.EXECUTABLE)
        self._entries[member.path] = TreeEntry(
            path=member.path, mode=member.mode, content_digest=state.digest()
        )

    def build_summary(self) -> SnapshotSummary:
        return SnapshotSummary(
            tree_digest=build_tree_digest(self._entries.values()),
            file_count=len(self._entries),
            total_bytes=self._total_bytes,
        )

    def _claim(self, path: bytes) -> None:
        verify_path(path, self._limits)
        parents = _list_parents(path)
        if path in self._entries or path in self._directories or any(p in self._entries for p in parents):
            raise TREE_CONFLICT.error(f"expected each path once, found another claim on {render_path(path)}")
        self._directories.update(parents)
        if len(self._entries) + len(self._directories) >= self._limits.entries:
            raise TREE_LIMIT.error(f"expected at most {self._limits.entries} entries, found more")

    def _add_link(self, path: bytes, chunks: Iterable[bytes]) -> None:
        target = b"".join(chunks)
        if not target or b"\0" in target:
            raise UNSAFE_PATH.error(
                f"expected a link target, found an empty one or a NUL byte at {render_path(path)}"
            )
        self._sink.write_link(path, target)

    def _measure(self, member: Member, state: hashlib._Hash) -> Iterator[bytes]:
        limit = _LINK_BYTES if member.mode is FileMode.SYMLINK else self._limits.file_bytes
        size = 0
        for chunk in member.chunks:
            size += len(chunk)
            self._total_bytes += len(chunk)
            if size > limit or self._total_bytes > self._limits.total_bytes:
                raise TREE_LIMIT.error(
                    f"expected at most {limit} bytes in {render_path(member.path)} and "
                    f"{self._limits.total_bytes} in all, found more"
                )
            state.update(chunk)
            yield chunk


def _list_parents(path: bytes) -> list[bytes]:
    components = path.split(b"/")
    return [b"/".join(components[:end]) for end in range(1, len(components))]
