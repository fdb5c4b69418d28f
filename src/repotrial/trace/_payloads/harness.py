"""What the harness did around the agent: provisioned, set up, watched, took the change, drew (Q5, Q8)."""

from __future__ import annotations

from typing import ClassVar, Literal

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial._core.words import EndCause, JudgedTree, LifecyclePhase
from repotrial.trace._body import Body
from repotrial.trace._payloads.checks import TestIds
from repotrial.trace._payloads.common import (
    ChangedEntry,
    Command,
    EventPayload,
    EventSeq,
    ExitStatus,
    Instant,
    Name,
    Output,
)


class HarnessPayload(EventPayload, frozen=True, kw_only=True):
    """What only the harness does."""


class ManifestBound(HarnessPayload, frozen=True, kw_only=True):
    """The manifest was written: from here on the trace speaks of that run and no other (P2)."""

    event_type: ClassVar[str] = "manifest-bound"

    manifest_digest: Digest
    """Digest of `manifest.json`."""


class HarnessExecution(HarnessPayload, frozen=True, kw_only=True):
    """What the harness did for a run: a program, a step of Setup, a service, a file fetched (Q8)."""

    event_type: ClassVar[str] = "harness-execution"

    purpose: Literal["provision", "set-up", "service", "control", "obtain"]
    """What for; `control` is a look at whether the machine itself works, `obtain` a file that was fetched or
    unpacked: no program ran, `command` says what was done, and `stdout` has digest and size of what came."""
    name: Name
    """The tool, the step or the service."""
    step: Count | None = None
    """Which step of Setup, from 0; null for other purposes."""
    command: Command
    """What ran."""
    exit: ExitStatus
    """How it ended."""
    cause: EndCause = "ended"
    """What ended it, where it did not end by itself."""
    started_at_us: Instant
    """When it began."""
    ended_at_us: Instant
    """When it ended."""
    cpu_us: Count | None = None
    """Processor time of its process tree; null if it was not metered."""
    ceiling_us: Count | None = None
    """The time it was allowed; null if there was no ceiling."""
    reused: bool
    """Whether it ran before this run, and what it made was used again."""
    stdout: Output
    """What it printed."""
    stderr: Output
    """What it printed as errors."""


class MonitorState(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One monitor at the start or the end of what it watches."""

    monitor: Name
    """Its name, as in its alerts; or the type of other events that it counts."""
    watches: bool
    """Whether it watches."""
    reason: str = ""
    """Why it does not; empty if it does."""
    alerts: Count | None = None
    """How many of them it gave; null at the start."""


class WatchedCommand(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """A command that ran while monitors watched."""

    command: Command
    """What ran."""
    exit: ExitStatus
    """How it ended."""


class MonitorReport(HarnessPayload, frozen=True, kw_only=True):
    """The monitors of one sandbox reported in: that they watch, and that they did to the end (Q5, S12)."""

    event_type: ClassVar[str] = "monitor-report"

    moment: Literal["start", "end"]
    """Before the first program, or after the last."""
    phase: LifecyclePhase
    """What is watched: acting, or acceptance."""
    check_id: Name | None
    """The check whose sandbox it is; null for the agent's."""
    begun: EventSeq | None = None
    """The report with which they began; null in that report itself. Their alerts stand between the two."""
    started_at_us: Instant | None = None
    """When they began to watch; null at the start, and in earlier records."""
    ended_at_us: Instant | None = None
    """When they ended; null at the start, and in earlier records."""
    commands: tuple[WatchedCommand, ...] = ()
    """What the harness ran while they watched: the agent's program, the commands of the check."""
    monitors: tuple[MonitorState, ...]
    """Each of them."""


class ChangeTaken(HarnessPayload, frozen=True, kw_only=True):
    """The change was read from the workspace after the agent had ended: what is judged (P15)."""

    event_type: ClassVar[str] = "change-taken"

    patch_digest: Digest
    """Digest of `change.patch`."""
    patch_bytes: Count
    """Its size."""
    handed_in: EventSeq | None = None
    """The event with which it was handed in as it is; null if it was read from a workspace."""
    entries: tuple[ChangedEntry, ...] = ()
    """Its paths, the first of them; empty for a change that was handed in."""
    restated_from: Digest | None = None
    """Digest of what was handed in, where only git could read it and wrote it anew; else null."""
    entry_count: Count = 0
    """How many there are."""
    left_out: TestIds
    """Paths that differ in the workspace and are no part of it: ignored, generated, or nothing for git."""


class DrawRevealed(HarnessPayload, frozen=True, kw_only=True):
    """What only the judges knew of one check, told after judging: its inventory and its twins (ADR 0019)."""

    event_type: ClassVar[str] = "draw-revealed"

    check_id: Name
    """The check."""
    subject: JudgedTree = "candidate"
    """Whose tree was judged: a control execution has a draw of its own."""
    inventory: Body | None
    """The tests that it must have, as JSON; null if the contract names none."""
    twins: Body | None
    """Wrong-expectation copies of tests with the names that were drawn, as JSON; null if none were made."""
    wrong: tuple[str, ...] = ()
    """Tests of the author's that had a wrong expectation in a mixed suite."""
