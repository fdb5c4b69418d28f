"""The words of the machine side: levels, capabilities, what to start, what came of it.

One protocol for every back end (P16): what runs an agent or a check sees only these types.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Annotated, Literal, Protocol, Self, TypeAlias

import msgspec

from repotrial._core.pressure import ProcessorPressure
from repotrial._core.words import Level, Stage
from repotrial.syscalls import WitnessFacts
from repotrial.trace import ExitStatus

WORKSPACE = "/workspace"
"""Where the workspace appears inside every sandbox."""
SYSTEM_ROOTS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
"""Where a machine has its own programs."""


SyscallAudit: TypeAlias = Literal["notify", "static", "none"]
"""`notify`: prohibited calls are refused and recorded; `static`: refused, not seen."""

MemoryLimit: TypeAlias = Literal["cgroup-v2", "cgroup-v1", "polled", "none"]
"""By what memory is bounded; a polled bound can be overshot and is weaker evidence."""

CpuShare: TypeAlias = Literal["cgroup-v2", "cgroup-v1", "none"]
"""By what processor time is divided among sandboxes that want more than there is."""

SharedTree: TypeAlias = Literal["overlay", "bind"]
"""How trees that sandboxes share are shown: `overlay` gives each its own files to lock, lease and watch."""

AccountUse: TypeAlias = Literal["own", "shared"]
"""Whether each sandbox has a user of its own on the host: the kernel counts some things by user."""

CpuMeter: TypeAlias = Literal["cgroup-v2", "cgroup-v1", "sampled", "none"]
"""By what processor time is measured."""


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a back end can do on this machine; found out by doing it."""

    level: Level
    """The level that it reaches."""
    network: Literal["namespace", "container"]
    """How the network is kept away."""
    has_overlay: bool
    """Whether a workspace can be an overlay over a shared base."""
    has_stages: bool
    """Whether privileges can change while programs run."""
    syscall_audit: SyscallAudit
    memory_limit: MemoryLimit
    cpu_meter: CpuMeter
    disk_limit: Literal["tmpfs", "polled", "none"]
    shared_tree: SharedTree = "bind"
    cpu_share: CpuShare = "none"
    account: AccountUse = "shared"
    freezer: Literal["cgroup-v2", "cgroup-v1", "signals", "none"]
    """How a whole sandbox can be paused; by signals is weaker."""
    has_images: bool
    """Whether it can run on a root file system of its own."""

    def list_shared(self) -> tuple[str, ...]:
        """By what runs side by side could still disturb each other here; none where each has its own."""
        found = {
            "processor time": self.cpu_share == "none",
            "files of shared trees": self.shared_tree == "bind",
            "what the kernel counts by user (descriptors on their way, pages of pipes)": self.account
            == "shared",
            "memory between two looks": self.memory_limit in {"polled", "none"},
            "the disk between two looks": self.disk_limit in {"polled", "none"},
        }
        return tuple(name for name, is_shared in found.items() if is_shared)


class HostRoot(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="host"):
    """The machine's own programs, read-only."""

    tool_roots: tuple[Path, ...] = ()
    """Directories of tools outside the system's own, shown at their own paths."""


class DirectoryRoot(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="directory"):
    """An unpacked image, read-only."""

    path: Path


Root: TypeAlias = HostRoot | DirectoryRoot


class Bind(msgspec.Struct, frozen=True, kw_only=True):
    """A directory or file of the host, shown inside."""

    source: Path
    target: str
    """Absolute path inside."""
    is_writable: bool = False
    is_live: bool = False
    """Whether it shows what the host writes later: an overlay of the sandbox's own would not."""


class Scratch(msgspec.Struct, frozen=True, kw_only=True):
    """An empty directory in memory, gone with the sandbox."""

    target: str
    """Absolute path inside."""
    size_mb: Annotated[int, msgspec.Meta(ge=1)]


class OverlayMount(msgspec.Struct, frozen=True, kw_only=True):
    """What to mount where: options are `lowerdir`, `upperdir`, `workdir`, `userxattr` and `volatile`.

    To be mounted by the account that owns all four, inside a user namespace where it is mapped. The paths are
    best given to mount(2) under names of our own, after the namespaces were entered: neither commas nor
    colons nor length matter then.
    """

    lower: Path
    """The base: shared by many, changed by none."""
    upper: Path
    """Where changes go."""
    work: Path
    """The kernel's own, beside `upper`, in a directory that the sandbox's user can enter."""
    target: Path
    """Where it appears for a command of ours on the host; a sandbox has a place of its own for it."""


class ResourceLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Ceilings for everything in one sandbox together, unless said otherwise."""

    memory_mb: Annotated[int, msgspec.Meta(ge=16)] = 2048
    processes: Annotated[int, msgspec.Meta(ge=8)] = 512
    open_files: Annotated[int, msgspec.Meta(ge=32)] = 4096
    """Per process."""
    file_mb: Annotated[int, msgspec.Meta(ge=1)] = 4096
    """Largest single file."""
    tmp_mb: Annotated[int, msgspec.Meta(ge=1)] = 512
    """Scratch space in /tmp."""
    disk_mb: Annotated[int, msgspec.Meta(ge=1)] | None = None
    """Space that changes of the workspace may take."""
    cpu_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None
    wall_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None


class SandboxSpec(msgspec.Struct, frozen=True, kw_only=True):
    """A sandbox to be opened."""

    workspace: Path
    """The tree that appears as the workspace; a copy or an overlay is the caller's choice."""
    overlay: OverlayMount | None = None
    """What to mount as the workspace instead, where the back end can."""
    root: Root = HostRoot()
    stage: Stage = "write"
    """The stage to begin in."""
    binds: tuple[Bind, ...] = ()
    scratch: tuple[Scratch, ...] = ()
    """Beside those in /tmp, /run and the like."""
    variables: dict[str, str] = {}
    """The whole environment of every program inside."""
    limits: ResourceLimits = ResourceLimits()
    test_tools: tuple[str, ...] = ()
    """Programs that are masked until the test stage."""
    allowed_system_calls: tuple[str, ...] = ()
    """Beyond the default profile (C3)."""
    listener_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] | None = None
    """A port on 127.0.0.1 inside that the harness itself serves."""


class CommandSpec(msgspec.Struct, frozen=True, kw_only=True):
    """One program to run inside."""

    argv: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    cwd: str = WORKSPACE
    variables: dict[str, str] = {}
    """On top of the sandbox's."""
    timeout_seconds: Annotated[int, msgspec.Meta(ge=1)] | None = None
    prefix_bytes: Annotated[int, msgspec.Meta(ge=0)] = 64 * 1024
    """How much of each stream is kept."""
    output_bytes: Annotated[int, msgspec.Meta(ge=1)] = 64 * 1024**2
    """How much it may print before it is ended."""


class StreamCapture(msgspec.Struct, frozen=True, kw_only=True):
    """What one stream carried: all of it by digest, the beginning in full."""

    prefix: bytes
    digest: str
    length_bytes: int


class ResourceUsage(msgspec.Struct, frozen=True, kw_only=True):
    """What was used; None if nothing measured it."""

    wall_us: int
    cpu_us: int | None = None
    peak_memory_bytes: int | None = None
    cpu_meter: CpuMeter = "none"
    memory_meter: MemoryLimit = "none"
    pressure: ProcessorPressure | None = None
    """What the sandbox got of the processors meanwhile."""


class CommandResult(msgspec.Struct, frozen=True, kw_only=True):
    """How one program ended. Nothing in it is a value that the program could have written itself."""

    exit: ExitStatus
    """From the kernel, by way of the parent outside."""
    cause: Literal["ended", "timeout", "cpu", "memory", "output", "disk", "processes", "sandbox-lost"]
    """What ended it, where it did not end by itself."""
    stdout: StreamCapture
    stderr: StreamCapture
    usage: ResourceUsage


class Sandbox(Protocol):
    """An open sandbox. Closing it ends everything inside for certain."""

    @property
    def capabilities(self) -> Capabilities: ...
    def run(self, command: CommandSpec) -> CommandResult:
        """Run one program to its end."""
        ...

    def enter_stage(self, stage: Stage) -> None:
        """Change privileges; returns only after the change is in force."""
        ...

    @property
    def witness(self) -> WitnessFacts | None:
        """What the witness of programs sees and counted; None where there is none."""
        ...

    def end_command(self, command: int) -> int | None:
        """Kill every process of a command, by its number; how many, None where that cannot be told."""
        ...

    def freeze(self) -> None:
        """Pause everything inside."""
        ...

    def resume(self) -> None: ...
    def close(self) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
