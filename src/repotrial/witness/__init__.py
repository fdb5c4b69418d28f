"""The witness: what ran in a sandbox becomes events, and one command that runs for too long is ended."""

from __future__ import annotations

from repotrial.witness._desk import MonitorDesk
from repotrial.witness._executions import ExecutionRecord, build_output
from repotrial.witness._findings import FindingLog, Said
from repotrial.witness._log import build_unwitnessed
from repotrial.witness._monitor import SyscallMonitor

__all__ = [
    "ExecutionRecord",
    "FindingLog",
    "MonitorDesk",
    "Said",
    "SyscallMonitor",
    "build_output",
    "build_unwitnessed",
]
