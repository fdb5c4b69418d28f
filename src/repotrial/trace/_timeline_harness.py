"""One line for each thing that the harness did around the agent."""

from __future__ import annotations

from repotrial.trace._payloads.common import Exited, ExitStatus
from repotrial.trace._payloads.harness import (
    ChangeTaken,
    DrawRevealed,
    HarnessExecution,
    HarnessPayload,
    ManifestBound,
    MonitorReport,
)


def describe_harness(payload: HarnessPayload) -> str:
    """What it did, in words; they may quote untrusted text."""
    match payload:
        case HarnessExecution():
            before = ", before this run" if payload.reused else ""
            seconds = (payload.ended_at_us - payload.started_at_us) / 1_000_000
            return f"{payload.purpose} {payload.name} {_end(payload.exit)} ({seconds:.1f} s{before})"
        case MonitorReport():
            what = payload.phase if payload.check_id is None else f"check {payload.check_id}"
            watching = ", ".join(each.monitor for each in payload.monitors if each.watches) or "none"
            alerts = sum(each.alerts or 0 for each in payload.monitors)
            counted = f"; {alerts} alert(s)" if payload.moment == "end" else ""
            return f"{payload.moment} of {what}: {watching} watching{counted}"
        case ChangeTaken():
            return f"{payload.entry_count} path(s), {payload.patch_bytes} bytes of patch"
        case DrawRevealed():
            return f"what was drawn for check {payload.check_id}"
        case ManifestBound():
            return payload.manifest_digest
        case _:
            return payload.event_type


def _end(status: ExitStatus) -> str:
    return f"exit {status.code}" if isinstance(status, Exited) else str(status.__struct_config__.tag)
