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
    from repotrial.isolation._calls._supervisor import Sink
    from repotrial.isolation._identity import Account, find_identity
    from repotrial.isolation._label import build_label
    from repotrial.isolation._launch_server._syscalls import (
        PROBED,
        build_numbers,
        find_machine,
        machine_platform,
    )
    from repotrial.isolation._levels._back_end import ISOLATION_LEVEL, BackEnd, Finding, Layer, Missing
    from repotrial.isolation._levels._back_ends.bubblewrap import find_bubblewrap
    from repotrial.isolation._levels._listener import open_listener
    from repotrial.isolation._levels._session import SANDBOX_LOST, BubblewrapSandbox
    from repotrial.isolation._levels._stages import SANDBOX_ENTRY
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
        Root,
        Sandbox,
        SandboxSpec,
        Scratch,
        StreamCapture,
        Usage,
    )
    from repotrial.isolation._open import find_back_end, open_sandbox, probe_machine
    from repotrial.isolation._resources._cgroups import CgroupSite
    from repotrial.isolation._resources._reaper import load_site
    from repotrial.isolation._resources._remove_tree import clear_tree, remove_tree
    from repotrial.isolation._resources._sampler import ResourceSample, Sampler, SamplingPlan
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
    "Finding",
    "FloodRecord",
    "HostRoot",
    "Layer",
    "Missing",
    "NetworkRecord",
    "OverlayMount",
    "ProhibitedRecord",
    "ResourceLimits",
    "ResourceSample",
    "Root",
    "Sampler",
    "SamplingPlan",
    "Sandbox",
    "SandboxSpec",
    "Scratch",
    "Sink",
    "StreamCapture",
    "SyscallRecord",
    "Usage",
    "build_label",
    "build_numbers",
    "clear_tree",
    "find_back_end",
    "find_bubblewrap",
    "find_identity",
    "find_machine",
    "load_site",
    "machine_platform",
    "open_listener",
    "open_sandbox",
    "probe_machine",
    "remove_tree",
    "verify_grants",
]
