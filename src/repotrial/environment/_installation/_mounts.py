"""What a sandbox adds to the tree: scratch, directories of the host, and what Setup keeps."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from repotrial._core.errors import ContractError, ErrorCode, MachineError
from repotrial.contract import Contract, Mount
from repotrial.isolation import WORKSPACE, Bind, HostRoot, Root, Scratch

_SCRATCH_MB: Final = 512
_TMP: Final = "/tmp"  # noqa: S108 - the sandbox's own
_KERNEL_ROOTS: Final = ("/dev", "/proc", "/run", "/sys", "/var/run")
"""Sockets, devices and the state of the machine."""
_SHOWN_ROOTS: Final = ("/bin", "/lib", "/lib32", "/lib64", "/libx32", "/sbin", "/usr")
"""Directories of the host that are shown whole: nothing can be added in them."""


MOUNT_REFUSED = ErrorCode(
    "mount-refused",
    ContractError,
    "A contract wants to show a directory of the host that no sandbox may see.",
    hint="name a directory that holds nothing but what the contract needs",
)
MOUNT_MISSING = ErrorCode(
    "mount-missing",
    MachineError,
    "A contract shows a directory of the host that this machine does not have.",
    hint="make the directory on this machine, or take it out of the contract",
)
TARGET_TAKEN = ErrorCode(
    "target-taken",
    ContractError,
    "Something is to appear in a directory of the system, which is shown as it is.",
    hint="choose a path below /opt",
)


class SetupOutputs(msgspec.Struct, frozen=True, kw_only=True):
    """What Setup leaves behind."""

    in_tree: tuple[str, ...]
    """Paths in the workspace: they stay in the tree."""
    targets: tuple[str, ...]
    """Directories elsewhere, in the order of their places below `outputs`."""

    def build_binds(self, outputs: Path, *, is_writable: bool) -> tuple[Bind, ...]:
        """How a sandbox shows them."""
        return tuple(
            # Numbered: a name of Setup's choice could lead through a link of Setup's making.
            Bind(source=outputs / str(number), target=target, is_writable=is_writable)
            for number, target in enumerate(self.targets)
        )


def build_outputs(contract: Contract) -> SetupOutputs:
    """Everything that steps declare, and the caches that they fill."""
    declared = [path for step in contract.setup for path in step.outputs]
    declared += [mount.target for mount in contract.environment.mounts if mount.kind == "cache"]
    in_tree, elsewhere = [], []
    for path in map(PurePosixPath, declared):
        if not path.is_absolute():
            in_tree.append(str(path))
        elif path.is_relative_to(WORKSPACE):
            in_tree.append(str(path.relative_to(WORKSPACE)))
        else:
            elsewhere.append(str(path))
    return SetupOutputs(in_tree=tuple(dict.fromkeys(in_tree)), targets=tuple(dict.fromkeys(elsewhere)))


def build_scratch(mounts: Iterable[Mount]) -> tuple[tuple[Scratch, ...], int | None]:
    """Scratch spaces, and the size of /tmp where the contract states one."""
    wanted = [mount for mount in mounts if mount.kind == "tmpfs"]
    sizes = [mount.size_mb or _SCRATCH_MB for mount in wanted if mount.target.rstrip("/") == _TMP]
    scratch = tuple(
        Scratch(target=mount.target, size_mb=mount.size_mb or _SCRATCH_MB)
        for mount in wanted
        if mount.target.rstrip("/") != _TMP
    )
    return scratch, sizes[-1] if sizes else None


def build_host_bind(mount: Mount, *, private: Iterable[Path]) -> Bind:
    """A directory of the host, read-only.

    Args:
        mount: As the contract names it.
        private: Directories that no sandbox may see, nor what contains them.

    Raises:
        MOUNT_REFUSED: it would show what no sandbox may see.
        MOUNT_MISSING: it is not there.
    """
    field = f"environment.mounts: {mount.target}"
    if mount.source is None or not mount.source.startswith("/"):
        raise MOUNT_REFUSED.error(f"{field}: expected an absolute path as source, found {mount.source!r}")
    source = Path(mount.source).resolve()
    if any(source.is_relative_to(root) for root in _KERNEL_ROOTS):
        raise MOUNT_REFUSED.error(f"{field}: expected a directory of files, found {source}")
    if any(place.resolve().is_relative_to(source) for place in private):
        raise MOUNT_REFUSED.error(f"{field}: expected a directory of its own, found {source}")
    if not source.is_dir():
        raise MOUNT_MISSING.error(f"{field}: expected the directory {source}, found none")
    return Bind(source=source, target=mount.target)


def verify_targets(root: Root, targets: Iterable[str]) -> None:
    """See that everything has a place where it can appear.

    Raises:
        TARGET_TAKEN: something has not.
    """
    for target in targets:
        path = PurePosixPath(target)
        if path in {PurePosixPath(WORKSPACE), PurePosixPath("/")}:
            raise TARGET_TAKEN.error(f"{target}: expected another path than the workspace's own or the root")
        is_shown = isinstance(root, HostRoot) and any(path.is_relative_to(shown) for shown in _SHOWN_ROOTS)
        if is_shown and not Path(target).exists():
            raise TARGET_TAKEN.error(f"{target}: expected a path outside the system's directories")
