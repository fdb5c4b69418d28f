"""Δ: what a run changed in the repository, as a patch that git applies to the base.

Made without running git on anything that an agent could write. Part of it are files and links that the
snapshot tracks, and others that the base's ignore rules do not cover; never `.git`, and never what the
contract calls generated. What git cannot hold is not in the patch but is named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import ContractError
from repotrial._core.escaping import escape_bytes
from repotrial.change import Blob, BlobMode, FilePatch, IgnoreFile, build_file_patch, compile_globs
from repotrial.source import SnapshotLimits, verify_path
from repotrial.trace import MAX_CHANGE_BYTES
from repotrial.workspace._base import UNBOUNDED, Base
from repotrial.workspace._node import Node, Omission, build_omission
from repotrial.workspace._reader import Contents, NotRead, TreeReader
from repotrial.workspace._workspace import Look, Workspace

TOOL_LEFTOVERS = (
    "__pycache__/",
    "*.py[co]",
    ".pytest_cache/",
    ".mypy_cache/",
    ".ruff_cache/",
    "node_modules/",
)
"""Directories that are no source; beside a tracked `Cargo.toml`, `target/` is one more."""

_IGNORE_BYTES = 16 * 1024**2
_ESCAPED = re.compile(rb"[*?\[\]!#\\ ]")


class IgnoreRules:
    """The rules of one base and one contract."""

    def __init__(self, base: Base, *, generated: Sequence[str] = ()) -> None:
        self._tracked = base.tracked
        self._generated = compile_globs(generated)
        leftovers = [*(line.encode() for line in TOOL_LEFTOVERS), *_list_target_directories(base.tracked)]
        self._leftovers = IgnoreFile(b"\n".join(leftovers))
        self._files = _load_files(base)
        self._directories: dict[bytes, bool] = {}

    def is_left_out(self, path: bytes) -> bool:
        """Whether a file or link is no part of a change."""
        if self._generated.match_file(path.decode("utf-8", "surrogateescape")):
            return True
        return path not in self._tracked and self._is_ignored(path)

    def _is_ignored(self, path: bytes) -> bool:
        # Once a directory is ignored, nothing below it can be taken back (gitignore(5)).
        parent = path.rpartition(b"/")[0]
        return self._is_ignored_directory(parent) or self._decide(path, is_directory=False)

    def _is_ignored_directory(self, directory: bytes) -> bool:
        if not directory:
            return False
        found = self._directories.get(directory)
        if found is None:
            parent = directory.rpartition(b"/")[0]
            found = self._is_ignored_directory(parent) or self._decide(directory, is_directory=True)
            self._directories[directory] = found
        return found

    def _decide(self, path: bytes, *, is_directory: bool) -> bool:
        """The deepest `.gitignore` that has an opinion decides."""
        directory = path
        while directory:
            directory = directory.rpartition(b"/")[0]
            if (file := self._files.get(directory)) is not None:
                below = path[len(directory) + 1 :] if directory else path
                verdict = file.decide(below, is_directory=is_directory)
                if verdict is not None:
                    return verdict
        return bool(self._leftovers.decide(path, is_directory=is_directory))


def _load_files(base: Base) -> dict[bytes, IgnoreFile]:
    files = {}
    with TreeReader(base.path, limits=UNBOUNDED) as reader:
        for path in base.ignore_files:
            reading = reader.read_file(path, kept_bytes=_IGNORE_BYTES)
            if isinstance(reading, Contents) and reading.data is not None:
                files[path.rpartition(b"/")[0]] = IgnoreFile(reading.data)
    return files


def _list_target_directories(tracked: frozenset[bytes]) -> list[bytes]:
    manifests = (path.rpartition(b"/") for path in sorted(tracked))
    return [
        b"/" + _ESCAPED.sub(rb"\\\g<0>", directory + slash) + b"target/"
        for directory, slash, name in manifests
        if name == b"Cargo.toml"
    ]


_MIB = 1024**2
_SPECIAL_BITS = 0o7000
# Git refuses these as links, under every name that some file system gives them.
_MODULES = re.compile(rb"(\.gitmodules|gitmod~[0-9]+|gi7eba~[0-9]+)[ .]*(:.*)?", re.IGNORECASE | re.DOTALL)


class ChangeLimits(msgspec.Struct, frozen=True, kw_only=True):
    """How large a change may be; what does not fit is named as left out."""

    files: int = 20_000
    """All files and links; those that the snapshot tracks come first."""
    file_bytes: int = 64 * _MIB
    """One file."""
    total_bytes: int = 256 * _MIB
    """All files of the change, before and after."""
    patch_bytes: int = MAX_CHANGE_BYTES
    """The patch: signs, names and the form of binary files make it longer than what it holds."""
    levels: int = 128
    """Of directories: patterns of a policy take time by a power of them."""


PathStatus: TypeAlias = Literal["added", "deleted", "modified"]


class ChangedPath(msgspec.Struct, frozen=True, kw_only=True):
    """One path of a change, and what happened to it."""

    path: str
    """Relative to the workspace, as the trace writes names."""
    status: PathStatus
    old_mode: str | None
    """Git's six digits; None where there was nothing."""
    new_mode: str | None
    old_digest: Digest | None
    """Of the content, or of a link's target."""
    new_digest: Digest | None
    lines_added: int
    lines_removed: int
    binary_bytes: int
    """New content that is no text (or too much of it)."""
    has_conflict_markers: bool
    has_special_bits: bool
    """Set-uid, set-gid or sticky: not in the patch, since git knows no such bits."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """Δ and the facts about it."""

    patch: bytes
    """For `git apply`; empty where nothing changed."""
    paths: tuple[ChangedPath, ...]
    """In byte order of the paths."""
    omissions: tuple[Omission, ...]
    """What the workspace holds and the patch cannot."""

    @property
    def patch_digest(self) -> Digest:
        return digest_bytes(self.patch)

    @property
    def lines_added(self) -> int:
        return sum(path.lines_added for path in self.paths)

    @property
    def lines_removed(self) -> int:
        return sum(path.lines_removed for path in self.paths)

    @property
    def binary_bytes(self) -> int:
        return sum(path.binary_bytes for path in self.paths)

    @property
    def has_conflict_markers(self) -> bool:
        return any(path.has_conflict_markers for path in self.paths)


def build_change(
    workspace: Workspace, *, generated: Sequence[str] = (), limits: ChangeLimits | None = None
) -> Change:
    """Read a workspace and write down its difference to the base.

    Best called when nothing runs in it any more: each file is read as it is at some moment.

    Args:
        workspace: Of the run; its base is what the patch applies to.
        generated: Globs of the contract (`policy.generated`).
        limits: Bounds for what is taken along.
    """
    rules = IgnoreRules(workspace.base, generated=generated)
    with workspace.look() as look, TreeReader(workspace.base.path, limits=UNBOUNDED) as lower:
        harvest = _Harvest(look, lower, limits or ChangeLimits())
        counted = [path for path in sorted(look.touched) if not rules.is_left_out(path)]
        found = [harvest.take(path) for path in harvest.choose(counted, workspace.base.tracked)]
        omissions = {
            omission for omission in (*harvest.omissions, *look.omissions) if not _is_covered(omission, rules)
        }
    changes = [change for change in found if change is not None]
    return Change(
        patch=b"".join(patch.patch for _, patch in changes),
        paths=tuple(path for path, _ in changes),
        omissions=tuple(sorted(omissions)),
    )


class _Harvest:
    def __init__(self, look: Look, lower: TreeReader, limits: ChangeLimits) -> None:
        self._look = look
        self._lower = lower
        self._limits = limits
        self._left_bytes = limits.total_bytes
        self._left_patch_bytes = limits.patch_bytes
        self.omissions: set[Omission] = set()

    def choose(self, paths: list[bytes], tracked: frozenset[bytes]) -> list[bytes]:
        """As many as a change may have, in their order: an agent can make more than anyone could judge."""
        counted = [path for path in paths if not _is_directory(self._look.touched[path])]
        if len(counted) <= self._limits.files:
            return paths
        first, *others = sorted(counted, key=lambda path: path not in tracked)[self._limits.files :]
        self.omissions.add(build_omission(first, "too-many-entries"))
        return sorted(set(paths) - {first, *others})

    def take(self, path: bytes) -> tuple[ChangedPath, FilePatch] | None:
        """The change of one path; None where nothing that git sees is different."""
        node = self._look.touched[path]
        if node is not None and not self._is_holdable(path, node):
            node = None  # to git there is nothing
        old = self._read(self._lower, path, self._lower.look(path))
        new = self._read(self._look.reader, path, node)
        if isinstance(old, Omission) or isinstance(new, Omission):
            self.omissions |= {found for found in (old, new) if isinstance(found, Omission)}
            return None
        if old == new:
            return None
        patch = build_file_patch(path, old, new)
        if len(patch.patch) > self._left_patch_bytes:
            self.omissions.add(build_omission(path, "too-large"))
            return None
        self._left_patch_bytes -= len(patch.patch)
        has_special_bits = node is not None and node.is_file and bool(node.permissions & _SPECIAL_BITS)
        return _describe(path, old, new, patch=patch, has_special_bits=has_special_bits), patch

    def _is_holdable(self, path: bytes, node: Node) -> bool:
        if node.is_directory:
            return True
        if path.count(b"/") >= self._limits.levels:
            self.omissions.add(build_omission(path, "too-deep"))
            return False
        try:
            verify_path(path, SnapshotLimits())
        except ContractError:  # `unsafe-path`
            self.omissions.add(build_omission(path, "unsafe-path"))
            return False
        if node.is_link and _MODULES.fullmatch(path.rpartition(b"/")[2]):
            self.omissions.add(build_omission(path, "unsafe-path"))
            return False
        if not (node.is_link or node.is_file):
            self.omissions.add(build_omission(path, "special-file"))
            return False
        return True

    def _read(self, reader: TreeReader, path: bytes, node: Node | None) -> Blob | Omission | None:
        if node is None or node.is_directory:
            return None
        if node.is_link:
            target = reader.read_link(path)
            return None if target is None else Blob(mode=BlobMode.SYMLINK, data=target)
        bound = min(self._limits.file_bytes, self._left_bytes)
        if node.size_bytes > bound:
            return build_omission(path, "too-large")
        match reader.read_file(path, kept_bytes=bound):
            case Contents(node=found, data=bytes(data)):
                self._left_bytes -= len(data)
                mode = BlobMode.EXECUTABLE if found.mode & 0o100 else BlobMode.REGULAR
                return Blob(mode=mode, data=data)
            case Contents() | NotRead():
                return build_omission(path, "too-large")
            case None:
                return None


def _is_directory(node: Node | None) -> bool:
    return node is not None and node.is_directory


def _describe(
    path: bytes, old: Blob | None, new: Blob | None, *, patch: FilePatch, has_special_bits: bool
) -> ChangedPath:
    status: PathStatus = "added" if old is None else "deleted" if new is None else "modified"
    return ChangedPath(
        path=escape_bytes(path),
        status=status,
        old_mode=None if old is None else old.mode.value,
        new_mode=None if new is None else new.mode.value,
        old_digest=None if old is None else digest_bytes(old.data),
        new_digest=None if new is None else digest_bytes(new.data),
        lines_added=patch.lines_added,
        lines_removed=patch.lines_removed,
        binary_bytes=patch.binary_bytes,
        has_conflict_markers=patch.has_conflict_markers,
        has_special_bits=has_special_bits,
    )


def _is_covered(omission: Omission, rules: IgnoreRules) -> bool:
    from repotrial._core.escaping import unescape_text

    return rules.is_left_out(unescape_text(omission.path))
