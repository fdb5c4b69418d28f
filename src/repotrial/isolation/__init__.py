"""Isolation back ends: a sandbox with limits, meters and a system call supervisor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.isolation._calls._records import (
        ExecRecord,
        FloodRecord,
        NetworkRecord,
        ProhibitedRecord,
        SyscallRecord,
    )
    from repotrial.isolation._calls._seccomp import verify_grants
    from repotrial.isolation._calls._supervisor import RecordSink
    from repotrial.isolation._identity import Account, find_identity
    from repotrial.isolation._label import build_label
    from repotrial.isolation._launch_server._syscalls import (
        PROBED,
        build_numbers,
        find_machine,
        machine_platform,
    )
    from repotrial.isolation._levels._back_end import ISOLATION_LEVEL, BackEnd, Layer, LevelFinding, Missing
    from repotrial.isolation._levels._back_ends.bubblewrap import find_bubblewrap
    from repotrial.isolation._levels._session import SANDBOX_LOST, BubblewrapSandbox
    from repotrial.isolation._levels._stages import SANDBOX_ENTRY, open_listener
    from repotrial.isolation._model import (
        SYSTEM_ROOTS,
        WORKSPACE,
        Bind,
        Capabilities,
        CommandResult,
        CommandSpec,
        DirectoryRoot,
        HostRoot,
        OverlayMount,
        ResourceLimits,
        ResourceUsage,
        Root,
        Sandbox,
        SandboxSpec,
        Scratch,
        StreamCapture,
    )
    from repotrial.isolation._open import find_back_end, open_sandbox, probe_machine
    from repotrial.isolation._resources._cgroups import CgroupSite
    from repotrial.isolation._resources._meters import ResourceSample, Sampler, SamplingPlan
    from repotrial.isolation._resources._reaper import load_site
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "ISOLATION_LEVEL",
    "PROBED",
    "SANDBOX_ENTRY",
    "SANDBOX_LOST",
    "SYSTEM_ROOTS",
    "WORKSPACE",
    "Account",
    "BackEnd",
    "Bind",
    "BubblewrapSandbox",
    "Capabilities",
    "CgroupSite",
    "CommandResult",
    "CommandSpec",
    "DirectoryRoot",
    "ExecRecord",
    "FloodRecord",
    "HostRoot",
    "Layer",
    "LevelFinding",
    "Missing",
    "NetworkRecord",
    "OverlayMount",
    "ProhibitedRecord",
    "RecordSink",
    "ResourceLimits",
    "ResourceSample",
    "ResourceUsage",
    "Root",
    "Sampler",
    "SamplingPlan",
    "Sandbox",
    "SandboxSpec",
    "Scratch",
    "StreamCapture",
    "SyscallRecord",
    "build_label",
    "build_numbers",
    "find_back_end",
    "find_bubblewrap",
    "find_identity",
    "find_machine",
    "load_site",
    "machine_platform",
    "open_listener",
    "open_sandbox",
    "probe_machine",
    "verify_grants",
]
