"""The recipe: what bubblewrap is told, as a pure function of what is wanted.

Everything is shown one entry at a time on an empty root, so that nothing is inside that nobody asked for,
and so that a mount point can be made wherever one is needed although all that is shown is read-only.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath
from typing import Final, Literal, Protocol

import msgspec

from repotrial.sandbox._lean._furniture import (
    DEVICES,
    INNER_GID,
    INNER_UID,
    SETTINGS,
    SHOWN_SETTINGS,
    STAGING,
    WRITTEN_SETTINGS,
)
from repotrial.sandbox._lean._start import data_slot
from repotrial.sandbox._levels._orders import Overlay, Tree
from repotrial.sandbox._model import (
    WORKSPACE,
    Bind,
    DirectoryRoot,
    HostRoot,
    OverlayMount,
    SandboxSpec,
    Scratch,
)

__all__ = ["MINIMUM_BUBBLEWRAP", "BubblewrapPlan", "Entry", "FileView", "build_plan"]

MINIMUM_BUBBLEWRAP: Final = (0, 7)
"""The first version that can bound the size of a tmpfs."""
_DISABLES_USER_NAMESPACES: Final = (0, 8)

_MEGABYTE: Final = 1024**2
_SMALL_BYTES: Final = 16 * _MEGABYTE
_OWN: Final = frozenset({"dev", "proc", "run", "sys", "tmp", PurePosixPath(WORKSPACE).name})
"""Top-level entries that a sandbox has of its own."""
_HOST_PATHS: Final = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr")
_IMAGE_FILES: Final = ("/etc/passwd", "/etc/group")
"""What is ours even where the rest of /etc is an image's."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One name in a directory of the host."""

    name: str
    kind: Literal["directory", "file", "link"]
    target: str = ""
    """Where a link points."""


class FileView(Protocol):
    """What has to be known of the host's files to show them. Equal ones show the same of the host."""

    def __hash__(self) -> int: ...

    def describe(self, path: Path) -> Entry | None:
        """What is at a path; null for nothing, and for what is never shown."""
        ...

    def list_directory(self, path: Path) -> Sequence[Entry]: ...
    def is_directory(self, path: Path) -> bool: ...
    def exists(self, path: Path) -> bool:
        """Whether something is there that can be mounted upon; links do not count."""
        ...


class BubblewrapPlan(msgspec.Struct, frozen=True, kw_only=True):
    """All that has to be made ready to start one sandbox."""

    arguments: tuple[str, ...]
    is_staged: bool
    trees: tuple[Tree, ...]
    """What is attached under the staging directory first; none where nothing is staged."""
    overlays: tuple[Overlay, ...]
    files: tuple[str, ...]
    """Contents of small files, in the order of their descriptors."""


def build_plan(
    spec: SandboxSpec,
    view: FileView,
    *,
    version: tuple[int, ...],
    is_staged: bool,
    furnished: FileView | None = None,
) -> BubblewrapPlan:
    """What to tell bubblewrap so that this sandbox comes into being.

    Args:
        spec: The sandbox.
        view: The host's files.
        version: Of bubblewrap.
        is_staged: Whether sources are attached in a mount namespace of our own first. It is what makes
            overlays possible, and sources whose paths the sandbox's user cannot walk.
        furnished: What the host was like when the launch server made its furniture. Settings are taken from
            there as long as the host has not changed.
    """
    return _Builder(spec, view, is_staged=is_staged, has_settings=view == furnished).build(version)


class _Builder:
    def __init__(self, spec: SandboxSpec, view: FileView, *, is_staged: bool, has_settings: bool) -> None:
        self._spec = spec
        self._view = view
        self._is_staged = is_staged
        # Whatever is mounted below one of them needs a mount point there, and furniture is for all.
        self._has_devices = is_staged and not self._is_mounted_at("/dev")
        is_host = isinstance(spec.root, HostRoot)
        self._has_settings = is_staged and is_host and has_settings and not self._is_mounted_at("/etc")
        self._trees: list[Tree] = []
        self._overlays: list[Overlay] = []
        self._files: list[str] = []

    def build(self, version: tuple[int, ...]) -> BubblewrapPlan:
        arguments = [
            *_isolate(version),
            *self._show_root(),
            *self._show_own(),
            *self._show_mounts(in_workspace=False),
            *self._show_files(),
            *self._show_workspace(),
            *self._show_mounts(in_workspace=True),
            *("--remount-ro", "/", "--chdir", "/", "--hostname", "sandbox", "--clearenv"),
        ]
        return BubblewrapPlan(
            arguments=tuple(arguments),
            is_staged=self._is_staged,
            trees=tuple(self._trees),
            overlays=tuple(self._overlays),
            files=tuple(self._files),
        )

    def _stage(self, path: Path) -> str:
        """Where bubblewrap finds a source."""
        if not self._is_staged:
            return str(path)
        tree = Tree(str(len(self._trees)), str(path), self._view.is_directory(path))
        self._trees.append(tree)
        return f"{STAGING}/{tree.name}"

    def _show_root(self) -> list[str]:
        match self._spec.root:
            case HostRoot() if self._has_settings:
                return [*_show_host(self._view, _HOST_PATHS), "--ro-bind", SETTINGS, "/etc"]
            case HostRoot():
                return [*_show_host(self._view, (*_HOST_PATHS, *SHOWN_SETTINGS))]
            case DirectoryRoot(path=path):
                targets = self._find_targets()
                root = _ImageRoot(self._view, path=path, source=self._stage(path), targets=targets)
                return [*root.show()]

    def _find_targets(self) -> frozenset[PurePosixPath]:
        """Everything that will be mounted on top of the root."""
        targets = [target for target in self._list_targets() if not _is_in_workspace(target)]
        return frozenset(map(PurePosixPath, (*targets, *self._choose_files(), "/var/tmp")))  # noqa: S108

    def _list_targets(self) -> list[str]:
        mounts: tuple[Bind | Scratch, ...] = (*self._spec.binds, *self._spec.scratch)
        return [mount.target for mount in mounts]

    def _is_mounted_at(self, directory: str) -> bool:
        tools = self._spec.root.tool_roots if isinstance(self._spec.root, HostRoot) else ()
        targets = (*map(str, tools), *self._list_targets())
        return any(_is_within(target, directory) for target in targets)

    def _show_own(self) -> Iterator[str]:
        scratch = str(self._spec.limits.tmp_mb * _MEGABYTE)
        yield from ("--proc", "/proc")
        yield from ("--dev-bind", DEVICES, "/dev") if self._has_devices else ("--dev", "/dev")
        yield from ("--perms", "1777", "--size", str(_SMALL_BYTES), "--tmpfs", "/dev/shm")  # noqa: S108
        if not self._has_devices:
            # Otherwise /dev itself would be writable, and as large as half of the memory.
            yield from ("--remount-ro", "/dev")
        yield from ("--perms", "1777", "--size", scratch, "--tmpfs", "/tmp")  # noqa: S108
        yield from ("--perms", "1777", "--size", str(_SMALL_BYTES), "--tmpfs", "/var/tmp")  # noqa: S108
        yield from ("--perms", "0755", "--size", str(_SMALL_BYTES), "--tmpfs", "/run")

    def _show_mounts(self, *, in_workspace: bool) -> Iterator[str]:
        root = self._spec.root
        tools = root.tool_roots if isinstance(root, HostRoot) else ()
        every: list[Bind | Scratch] = [*(Bind(source=tool, target=str(tool)) for tool in tools)]
        every += [*self._spec.binds, *self._spec.scratch]
        shown = [mount for mount in every if _is_in_workspace(mount.target) == in_workspace]
        # A mount hides what was mounted below it before, so outer ones come first.
        for mount in sorted(shown, key=lambda mount: mount.target.count("/")):
            if isinstance(mount, Scratch):
                size = str(mount.size_mb * _MEGABYTE)
                yield from ("--perms", "0700", "--size", size, "--tmpfs", mount.target)
            else:
                option = "--bind" if mount.is_writable else "--ro-bind"
                yield from (option, self._stage(mount.source), mount.target)

    def _choose_files(self) -> dict[str, str]:
        if self._has_settings:
            return {}
        if isinstance(self._spec.root, HostRoot):
            return WRITTEN_SETTINGS
        return {path: WRITTEN_SETTINGS[path] for path in _IMAGE_FILES}

    def _show_files(self) -> Iterator[str]:
        # On an image's own directory it has to be a mount; on our empty root a file is cheaper.
        option = "--file" if isinstance(self._spec.root, HostRoot) else "--ro-bind-data"
        for target, content in self._choose_files().items():
            yield from ("--perms", "0444", option, str(data_slot(len(self._files))), target)
            self._files.append(content)

    def _show_workspace(self) -> Iterator[str]:
        option = "--ro-bind" if self._spec.stage == "read" else "--bind"
        overlay = self._spec.overlay
        source = self._stage(self._spec.workspace) if overlay is None else self._stage_overlay(overlay)
        yield from (option, source, WORKSPACE)

    def _stage_overlay(self, overlay: OverlayMount) -> str:
        lower = PurePosixPath(self._stage(overlay.lower)).name
        # The kernel wants both directories under one mount.
        changes = PurePosixPath(self._stage(overlay.upper.parent)).name
        self._overlays.append(
            Overlay("workspace", lower, f"{changes}/{overlay.upper.name}", f"{changes}/{overlay.work.name}")
        )
        return f"{STAGING}/workspace"


@functools.lru_cache(1024)
def _is_in_workspace(target: str) -> bool:
    return PurePosixPath(WORKSPACE) in PurePosixPath(target).parents


@functools.lru_cache(1024)
def _is_within(target: str, directory: str) -> bool:
    """Whether it is there or below, however it is spelled."""
    return PurePosixPath("/", target.lstrip("/")).is_relative_to(directory)


def _isolate(version: tuple[int, ...]) -> Iterator[str]:
    # `--unshare-all` alone only tries for a user namespace, and would go on without.
    yield from ("--unshare-all", "--unshare-user", "--uid", str(INNER_UID), "--gid", str(INNER_GID))
    if version >= _DISABLES_USER_NAMESPACES:
        yield "--disable-userns"
    yield from ("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL")


@functools.lru_cache(2)
def _show_host(view: FileView, paths: tuple[str, ...]) -> tuple[str, ...]:
    """The same in every sandbox, until the host changes."""
    shown: list[str] = []
    for path in paths:
        entry = view.describe(Path(path))
        if entry is not None:
            shown += _show_entry(entry, path, path)
    return tuple(shown)


def _show_entry(entry: Entry, source: str, target: str) -> tuple[str, str, str]:
    if entry.kind == "link":
        return ("--symlink", entry.target, target)
    return ("--ro-bind", source, target)


class _ImageRoot:
    """An unpacked image, shown in the largest pieces that leave room for every mount point."""

    def __init__(self, view: FileView, *, path: Path, source: str, targets: frozenset[PurePosixPath]) -> None:
        self._view = view
        self._path = path
        self._source = source
        self._missing = [target for target in targets if not view.exists(self._locate(target))]

    def show(self) -> Iterator[str]:
        return self._show_below(PurePosixPath("/"), skipped=_OWN)

    def _locate(self, inside: PurePosixPath) -> Path:
        return self._path / inside.relative_to("/")

    def _show_below(self, directory: PurePosixPath, *, skipped: frozenset[str]) -> Iterator[str]:
        for entry in self._view.list_directory(self._locate(directory)):
            inside = directory / entry.name
            if entry.name in skipped:
                continue
            if entry.kind == "directory" and any(inside in target.parents for target in self._missing):
                yield from ("--dir", str(inside))
                yield from self._show_below(inside, skipped=frozenset())
            else:
                yield from _show_entry(entry, f"{self._source}{inside}", str(inside))
