"""System calls of sandboxed programs: the filter, the supervisor that answers for it, and what it sees."""

from __future__ import annotations

from typing import TYPE_CHECKING

from repotrial._core.lazy import build_hooks

if TYPE_CHECKING:
    from repotrial.syscalls._classes import PROBED, Machine, build_numbers, find_machine, machine_platform
    from repotrial.syscalls._records import (
        EndRecord,
        FloodRecord,
        NetworkRecord,
        ProhibitedRecord,
        StartRecord,
        SyscallRecord,
    )
    from repotrial.syscalls._seccomp import SyscallPolicy, build_filter, verify_grants
    from repotrial.syscalls._supervisor import RecordSink, SupervisorPolicy, SyscallSupervisor
    from repotrial.syscalls._witness import WitnessFacts
else:
    __getattr__, __dir__ = build_hooks(__name__)

__all__ = [
    "PROBED",
    "EndRecord",
    "FloodRecord",
    "Machine",
    "NetworkRecord",
    "ProhibitedRecord",
    "RecordSink",
    "StartRecord",
    "SupervisorPolicy",
    "SyscallPolicy",
    "SyscallRecord",
    "SyscallSupervisor",
    "WitnessFacts",
    "build_filter",
    "build_numbers",
    "find_machine",
    "machine_platform",
    "verify_grants",
]
