"""The recipe: what bubblewrap is told, as a pure function of what is wanted.

Everything is shown one entry at a time on an empty root, so that nothing is inside that was not asked for,
and so that a mount point can be made wherever one is needed although all that is shown is read-only.
"""

from __future__ import annotations

import functools
import itertools
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Final, Literal

import msgspec

from repotrial.isolation._label import build_label
from repotrial.isolation._launch_server._messages import (
    ScratchBound,
    StagedOverlay,
    StagedTree,
    StartOrder,
)
from repotrial.isolation._launch_server._serve import STAGING, data_slot
from repotrial.isolation._model import (
    SYSTEM_ROOTS,
    WORKSPACE,
    Bind,
    Capabilities,
    DirectoryRoot,
    HostRoot,
    OverlayMount,
    SandboxSpec,
    Scratch,
)
from repotrial.isolation._resources._cgroups import CgroupSite
from repotrial.syscalls import SyscallPolicy, build_filter, find_machine

MINIMUM_BUBBLEWRAP: Final = (0, 7)
"""The first version that can bound the size of a tmpfs."""
_DISABLES_USER_NAMESPACES: Final = (0, 8)

_MEGABYTE: Final = 1024**2
_SMALL_BYTES: Final = 16 * _MEGABYTE
_FILE_BYTES: Final = 16 * 1024
"""A file system in memory may hold one file for each so many bytes."""
_FEWEST_FILES: Final = 4096
_OWN: Final = frozenset({"dev", "proc", "run", "sys", "tmp", PurePosixPath(WORKSPACE).name})
"""Top-level entries that a sandbox has of its own."""
_SETTINGS: Final = (
    *("/etc/alternatives", "/etc/fonts", "/etc/ld.so.cache", "/etc/localtime", "/etc/mime.types"),
    *("/etc/pki", "/etc/ssl"),
)
"""What programs need of the host's; the rest describes the machine and its people."""
_INNER_UID, _INNER_GID = 1000, 1000
"""The user and group of programs inside, the same on every machine."""
_FILES: Final = {
    "/etc/passwd": (
        "root:x:0:0:root:/:/bin/sh\n"
        f"sandbox:x:{_INNER_UID}:{_INNER_GID}:sandbox:/tmp:/bin/sh\n"
        "nobody:x:65534:65534:nobody:/:/bin/false\n"
    ),
    "/etc/group": f"root:x:0:\nsandbox:x:{_INNER_GID}:\nnogroup:x:65534:\n",
    "/etc/hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}
"""Files that each sandbox has of its own."""
_IMAGE_FILES: Final = ("/etc/passwd", "/etc/group")
"""What is ours even where the rest of /etc is an image's."""


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """What this machine gives to a sandbox of one level; found out by trying."""

    capabilities: Capabilities
    bubblewrap: str
    """The program."""
    version: tuple[int, ...]
    is_staged: bool
    """Whether sources are attached in a mount namespace of our own around bubblewrap's. It is what makes
    overlays possible, and sources whose paths the sandbox's user cannot walk."""
    site: CgroupSite

    @property
    def has_own_accounts(self) -> bool:
        return self.is_staged and self.capabilities.account == "own"

    @property
    def has_group(self) -> bool:
        return bool(self.site.homes)


def build_order(spec: SandboxSpec, engine: Engine) -> StartOrder:
    """What to tell the launch server so that this sandbox comes into being."""
    audit = engine.capabilities.syscall_audit
    is_shared_apart = engine.is_staged and engine.capabilities.shared_tree == "overlay"
    builder = _Builder(spec, is_staged=engine.is_staged, is_shared_apart=is_shared_apart)
    return StartOrder(
        bubblewrap=engine.bubblewrap,
        label=build_label(),
        arguments=builder.build(engine.version),
        files=builder.files,
        is_staged=engine.is_staged,
        trees=builder.trees,
        opened_trees=0,
        overlays=builder.overlays,
        account=[],
        scratch_bounds=builder.list_scratch_bounds(),
        filter=""
        if audit == "none"
        else _build_program(
            audit, spec.allowed_system_calls, has_memory_files=engine.capabilities.memory_limit != "polled"
        ),
        with_listener=audit == "notify",
    )


@functools.cache
def _build_program(
    audit: Literal["notify", "static"], granted: tuple[str, ...], *, has_memory_files: bool
) -> str:
    policy = SyscallPolicy(audit=audit, granted=granted, has_memory_files=has_memory_files)
    return build_filter(policy, machine=find_machine()).hex()


class _Builder:
    def __init__(self, spec: SandboxSpec, *, is_staged: bool, is_shared_apart: bool) -> None:
        self._spec = spec
        self._is_staged = is_staged
        self._is_shared_apart = is_shared_apart
        self.trees: list[StagedTree] = []
        self.overlays: list[StagedOverlay] = []
        self.files: list[str] = []

    def build(self, version: tuple[int, ...]) -> list[str]:
        """Bubblewrap's options; collects trees, overlays and files on the way."""
        return [
            *_isolate(version),
            *self._show_root(),
            *self._show_own(),
            *self._show_mounts(in_workspace=False),
            *self._show_files(),
            *self._show_workspace(),
            *self._show_mounts(in_workspace=True),
            *("--remount-ro", "/", "--chdir", "/", "--hostname", "sandbox", "--clearenv"),
        ]

    def _stage(self, path: Path) -> str:
        """Where bubblewrap finds a source."""
        if not self._is_staged:
            return str(path)
        name = str(len(self.trees))
        self.trees.append(StagedTree(name=name, path=str(path), is_directory=path.is_dir()))
        return f"{STAGING}/{name}"

    def _stage_shared(self, path: Path) -> str:
        """Where bubblewrap finds a tree that other sandboxes are shown too.

        Through an overlay of its own, a sandbox can lock, lease and watch files of its own alone. What is
        mounted below the tree would not appear in it.
        """
        if not self._is_shared_apart or not path.is_dir() or _has_mounts_below(path):
            return self._stage(path)
        lower = PurePosixPath(self._stage(path)).name
        self.overlays.append(StagedOverlay(name=f"own-{lower}", lower=lower, upper="", work=""))
        return f"{STAGING}/own-{lower}"

    def _show_root(self) -> list[str]:
        match self._spec.root:
            case HostRoot():
                paths = (*SYSTEM_ROOTS, *_SETTINGS)
                return [*itertools.chain.from_iterable(map(self._show_system_path, paths))]
            case DirectoryRoot(path=path):
                targets = self._find_targets()
                root = _ImageRoot(path=path, source=self._stage_shared(path), targets=targets)
                return [*root.show()]

    def _show_system_path(self, name: str) -> Iterator[str]:
        path = Path(name)
        is_tree = self._is_shared_apart and name in SYSTEM_ROOTS and path.is_dir() and not path.is_symlink()
        return _show_path(path, source=self._stage_shared(path) if is_tree else name, target=name)

    def _find_targets(self) -> frozenset[PurePosixPath]:
        """Everything that will be mounted on top of the root."""
        targets = [target for target in self._list_targets() if not _is_in_workspace(target)]
        return frozenset(map(PurePosixPath, (*targets, *self._choose_files(), "/var/tmp")))  # noqa: S108

    def _list_targets(self) -> list[str]:
        mounts: tuple[Bind | Scratch, ...] = (*self._spec.binds, *self._spec.scratch)
        return [mount.target for mount in mounts]

    def _show_own(self) -> Iterator[str]:
        scratch = str(self._spec.limits.tmp_mb * _MEGABYTE)
        yield from ("--proc", "/proc", "--dev", "/dev")
        yield from ("--perms", "1777", "--size", str(_SMALL_BYTES), "--tmpfs", "/dev/shm")  # noqa: S108
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
                stage = self._stage if mount.is_writable or mount.is_live else self._stage_shared
                yield from (option, stage(mount.source), mount.target)

    def list_scratch_bounds(self) -> list[ScratchBound]:
        """Every file system in memory that bubblewrap makes, with a bound on its files too."""
        small = dict.fromkeys(("/dev/shm", "/var/tmp", "/run"), _SMALL_BYTES)  # noqa: S108 - inside
        own = {"/tmp": self._spec.limits.tmp_mb * _MEGABYTE} | small  # noqa: S108 - inside
        sizes = own | {mount.target: mount.size_mb * _MEGABYTE for mount in self._spec.scratch}
        files = {path: max(_FEWEST_FILES, size // _FILE_BYTES) for path, size in sizes.items()}
        return [
            ScratchBound(path=path, options=f"size={size},nr_inodes={files[path]}")
            for path, size in sizes.items()
        ]

    def _choose_files(self) -> dict[str, str]:
        if isinstance(self._spec.root, HostRoot):
            return _FILES
        return {path: _FILES[path] for path in _IMAGE_FILES}

    def _show_files(self) -> Iterator[str]:
        # On an image's own directory it has to be a mount; on our empty root a file is cheaper.
        option = "--file" if isinstance(self._spec.root, HostRoot) else "--ro-bind-data"
        for target, content in self._choose_files().items():
            yield from ("--perms", "0444", option, str(data_slot(len(self.files))), target)
            self.files.append(content)

    def _show_workspace(self) -> Iterator[str]:
        option = "--ro-bind" if self._spec.stage == "read" else "--bind"
        overlay = self._spec.overlay
        source = self._stage(self._spec.workspace) if overlay is None else self._stage_overlay(overlay)
        yield from (option, source, WORKSPACE)

    def _stage_overlay(self, overlay: OverlayMount) -> str:
        lower = PurePosixPath(self._stage(overlay.lower)).name
        # The kernel wants both directories under one mount.
        changes = PurePosixPath(self._stage(overlay.upper.parent)).name
        upper, work = f"{changes}/{overlay.upper.name}", f"{changes}/{overlay.work.name}"
        self.overlays.append(StagedOverlay(name="workspace", lower=lower, upper=upper, work=work))
        return f"{STAGING}/workspace"


def _is_in_workspace(target: str) -> bool:
    return PurePosixPath(WORKSPACE) in PurePosixPath(target).parents


def _isolate(version: tuple[int, ...]) -> Iterator[str]:
    # `--unshare-all` alone only tries for a user namespace, and would go on without.
    yield from ("--unshare-all", "--unshare-user", "--uid", str(_INNER_UID), "--gid", str(_INNER_GID))
    if version >= _DISABLES_USER_NAMESPACES:
        yield "--disable-userns"
    yield from ("--die-with-parent", "--new-session", "--as-pid-1", "--cap-drop", "ALL")


def _show_path(path: Path, *, source: str, target: str) -> Iterator[str]:
    """A link as a link, files and directories read-only; sockets, pipes and devices are left out."""
    try:
        mode = path.lstat().st_mode
    except OSError:
        return
    if stat.S_ISLNK(mode):
        yield from ("--symlink", str(path.readlink()), target)
    elif stat.S_ISDIR(mode) or stat.S_ISREG(mode):
        yield from ("--ro-bind", source, target)


class _ImageRoot:
    """An unpacked image, shown in the largest pieces that leave room for every mount point."""

    def __init__(self, *, path: Path, source: str, targets: frozenset[PurePosixPath]) -> None:
        self._path = path
        self._source = source
        self._missing = [target for target in targets if not _is_mount_point(self._locate(target))]

    def show(self) -> Iterator[str]:
        return self._show_below(PurePosixPath("/"), skipped=_OWN)

    def _locate(self, inside: PurePosixPath) -> Path:
        return self._path / inside.relative_to("/")

    def _show_below(self, directory: PurePosixPath, *, skipped: frozenset[str]) -> Iterator[str]:
        for path in sorted(self._locate(directory).iterdir()):
            inside = directory / path.name
            if path.name in skipped:
                continue
            is_parent = any(inside in target.parents for target in self._missing)
            if is_parent and path.is_dir() and not path.is_symlink():
                yield from ("--dir", str(inside))
                yield from self._show_below(inside, skipped=frozenset())
            else:
                yield from _show_path(path, source=f"{self._source}{inside}", target=str(inside))


@functools.cache
def _has_mounts_below(path: Path) -> bool:
    """Whether something is mounted in a tree, on the host."""
    start = f"{path.resolve()}/"
    lines = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape").splitlines()
    return any(line.split(" ")[4].startswith(start) for line in lines)


def _is_mount_point(path: Path) -> bool:
    """Whether something is there that can be mounted upon."""
    return not path.is_symlink() and (path.is_dir() or path.is_file())
