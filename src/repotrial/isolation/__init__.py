"""Isolation back ends: a sandbox with limits, meters and stages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.isolation._identity import Account, find_identity
    from repotrial.isolation._label import build_label
    from repotrial.isolation._levels._back_end import ISOLATION_LEVEL, BackEnd, Layer, LevelFinding, Missing
    from repotrial.isolation._levels._back_ends.bubblewrap import find_bubblewrap
    from repotrial.isolation._levels._launcher import watch_servers
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
    "HostRoot",
    "Layer",
    "LevelFinding",
    "Missing",
    "OverlayMount",
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
    "build_label",
    "find_back_end",
    "find_bubblewrap",
    "find_identity",
    "load_site",
    "open_listener",
    "open_sandbox",
    "probe_machine",
    "watch_servers",
]
