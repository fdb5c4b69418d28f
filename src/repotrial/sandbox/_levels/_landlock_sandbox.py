"""Level L1: programs on the host itself under Landlock, a static syscall filter and limits. No namespaces.

Weaker than a sandbox, and flagged: the workspace keeps its own path, names and modes of other files of the
same user can be seen and modes changed, and what runs keeps the rights that it was started with. Every
command is started under the rules of the stage of that moment.
"""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path, PurePosixPath
from types import TracebackType
from typing import Final, Self

import msgspec

from repotrial.sandbox._environment._tools import SYSTEM_ROOTS
from repotrial.sandbox._identity import Account, find_identity
from repotrial.sandbox._label import build_label
from repotrial.sandbox._launch_server._landlock import LandlockRules
from repotrial.sandbox._levels._keeping import KeptPrograms
from repotrial.sandbox._levels._restricted import L1_SYSCALLS, Identity, Restriction, build_order
from repotrial.sandbox._levels._stages import WritersError
from repotrial.sandbox._model import (
    WORKSPACE,
    Capabilities,
    CommandResult,
    CommandSpec,
    HostRoot,
    Level,
    SandboxSpec,
    Stage,
)
from repotrial.sandbox._resources._cgroups import CgroupSite
from repotrial.sandbox._resources._freezer import freeze_or_resume
from repotrial.sandbox._resources._limits import DiskWatch, build_process_limits
from repotrial.sandbox._workspace import remove_tree

__all__ = ["LandlockSandbox", "build_landlock_capabilities", "build_rules", "find_landlock_obstacle"]

_MEGABYTE: Final = 1024**2
_SCRATCH: Final = "/tmp"  # noqa: S108 - what programs call it; there is a private one in its place
_SCRATCH_VARIABLES: Final = ("TMPDIR", "TMP", "TEMP")
_SILENCE_SECONDS: Final = 5.0
_SIGNAL_ABI: Final = 6
_TRUNCATE_ABI: Final = 3
_READABLE: Final = (
    *SYSTEM_ROOTS,
    *("/etc/alternatives", "/etc/fonts", "/etc/group", "/etc/hosts", "/etc/ld.so.cache", "/etc/localtime"),
    *("/etc/mime.types", "/etc/nsswitch.conf", "/etc/passwd", "/etc/pki", "/etc/ssl"),
    *("/dev/random", "/dev/urandom", "/sys/devices/system/cpu"),
    *("/proc/self", "/proc/cpuinfo", "/proc/filesystems", "/proc/loadavg", "/proc/meminfo", "/proc/stat"),
    *("/proc/sys/kernel", "/proc/sys/vm", "/proc/uptime", "/proc/version"),
)
"""What programs need of the host. Of processes, each command sees its first one only."""
_WRITABLE: Final = ("/dev/full", "/dev/null", "/dev/zero")


def find_landlock_obstacle(abi: int, *, is_root: bool) -> str | None:
    """Why this Landlock is not enough, if it is not."""
    needed = _TRUNCATE_ABI if is_root else _SIGNAL_ABI
    if abi >= needed:
        return None
    found = f"Landlock ABI {abi}" if abi else "no Landlock"
    # Another user's processes are out of reach anyway.
    why = "files outside could be truncated" if is_root else "programs could signal the harness"
    return f"expected Landlock ABI {needed} or later, found {found}: {why}"


def build_landlock_capabilities(site: CgroupSite) -> Capabilities:
    """What this level can do, where it works at all."""
    return Capabilities(
        level=Level.L1,
        network="filtered",
        has_overlay=False,
        has_stages=False,
        syscall_audit="static",
        memory_limit=site.version("memory") or "polled",
        cpu_meter=site.version("cpu") or "sampled",
        disk_limit="polled",
        freezer=site.version("freezer") or "signals",
        has_images=False,
    )


def build_rules(spec: SandboxSpec, stage: Stage, scratch: Path) -> LandlockRules:
    """What a command that starts in a stage may read and change."""
    tools = spec.root.tool_roots if isinstance(spec.root, HostRoot) else ()
    is_read_only = stage == "read"
    shown = [str(bind.source) for bind in spec.binds if not bind.is_writable]
    changed = [str(bind.source) for bind in spec.binds if bind.is_writable]
    workspace = str(spec.workspace)
    return LandlockRules(
        readable=(*_READABLE, *map(str, tools), *shown, *([workspace] if is_read_only else [])),
        writable=(*_WRITABLE, str(scratch), *changed, *([] if is_read_only else [workspace])),
    )


class LandlockSandbox:
    """A sandbox of level L1, open until it is closed.

    Paths in `/workspace`, and `/tmp` itself, are understood as a working directory or as a whole variable;
    programs themselves find the workspace at its own path, and `TMPDIR` names a private directory.

    Args:
        spec: What is wanted.
        site: Where control groups can be made.
    """

    def __init__(self, spec: SandboxSpec, *, site: CgroupSite) -> None:
        self._spec = spec
        self._stage: Stage = spec.stage
        self._capabilities = build_landlock_capabilities(site)
        self._has_process_group = site.version("pids") is not None
        self._identity = find_identity()
        self._scratch = _make_scratch(self._identity)
        try:
            limits = spec.limits
            writable = [bind.source for bind in spec.binds if bind.is_writable and bind.source.is_dir()]
            changes = [] if limits.disk_mb is None else [spec.workspace, *writable]
            space = limits.tmp_mb + (limits.disk_mb or 0)
            disk = DiskWatch(self._scratch, *changes, limit_bytes=space * _MEGABYTE)
            self._programs = KeptPrograms(limits, site=site, disk=disk)
        except OSError:
            remove_tree(self._scratch.parent)
            raise

    @property
    def capabilities(self) -> Capabilities:
        return self._capabilities

    def run(self, command: CommandSpec) -> CommandResult:
        """Run one program to its end, under the rules of the present stage.

        Raises:
            SandboxLostError: The sandbox is closed, or was lost.
        """
        variables = {**self._spec.variables, **command.variables}
        order = build_order(
            command.argv,
            self._build_restriction(),
            cwd=Path(self._locate(command.cwd)),
            variables={
                **{name: self._locate(value) for name, value in variables.items()},
                **dict.fromkeys(_SCRATCH_VARIABLES, str(self._scratch)),
            },
        )
        return self._programs.execute({**order, "limits": self._build_limits()}, command)

    def enter_stage(self, stage: Stage) -> None:
        """Let the next commands have the rights of another stage.

        Raises:
            WritersError: Programs that may write still run, and would go on writing.
        """
        if stage == "read" and self._stage != "read" and not self._programs.await_silence(_SILENCE_SECONDS):
            found = len(self._programs.list_pids())
            raise WritersError(
                f"expected no running programs before the read stage, found {found} that may write",
                writers=(),
                hint="Let the programs end: at this level rights cannot be taken from what runs.",
            )
        self._stage = stage

    def freeze(self) -> None:
        """Pause everything that runs."""
        freeze_or_resume(self._programs.build_freezer())

    def resume(self) -> None:
        self._programs.build_freezer().resume()

    def close(self) -> None:
        """End everything that runs; returns after the last process is gone. Twice is once.

        Raises:
            SandboxEndError: Nobody can confirm that they are gone.
        """
        try:
            self._programs.close()
        finally:
            remove_tree(self._scratch.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _build_restriction(self) -> Restriction:
        identity = Identity(uid=self._identity.uid, gid=self._identity.gid)
        granted = self._spec.allowed_system_calls
        return Restriction(
            landlock=build_rules(self._spec, self._stage, self._scratch),
            syscalls=msgspec.structs.replace(L1_SYSCALLS, granted=granted),
            identity=None if os.geteuid() else identity,
        )

    def _build_limits(self) -> list[list[int]]:
        pairs = build_process_limits(self._spec.limits, has_process_group=self._has_process_group)
        # Without a user namespace of its own the kernel counts everything that this user runs.
        others = _count_threads(self._identity.uid)
        return [
            [kind, ceiling + others if kind == resource.RLIMIT_NPROC else ceiling] for kind, ceiling in pairs
        ]

    def _locate(self, text: str) -> str:
        """A path of every sandbox, where it is here; anything else as it is."""
        inside = PurePosixPath(text)
        if inside.is_relative_to(WORKSPACE):
            return str(self._spec.workspace / inside.relative_to(WORKSPACE))
        return str(self._scratch) if text == _SCRATCH else text


def _make_scratch(owner: Account) -> Path:
    # Labelled and our own, so that the next start can remove it if this one is killed.
    place = Path(tempfile.gettempdir(), build_label()).resolve()
    place.mkdir(0o755)
    scratch = place / "tmp"
    scratch.mkdir(0o700)
    if not os.geteuid():
        os.chown(scratch, owner.uid, owner.gid)
    return scratch


def _count_threads(uid: int) -> int:
    count = 0
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                if entry.stat().st_uid == uid:
                    count += len(os.listdir(f"/proc/{entry.name}/task"))  # noqa: PTH208 - only how many
            except OSError:
                continue
    return count
