"""A contract's limits as ceilings of a sandbox."""

from __future__ import annotations

from repotrial.contract import Limits
from repotrial.isolation import ResourceLimits


def build_resource_limits(limits: Limits, *, is_judging: bool = False) -> ResourceLimits:
    """What the kernel and the meters enforce; the floor of each band is the machine's business.

    Args:
        limits: What the contract says.
        is_judging: For acceptance; processor time is counted against the agent only.
    """
    return ResourceLimits(
        memory_mb=max(16, limits.memory_mb.kill),
        processes=max(8, limits.processes),
        disk_mb=limits.disk_mb.kill,
        cpu_seconds=None if is_judging else limits.cpu_seconds,
    )
