"""What ran: programs that started and ended in a sandbox, as a witness saw them, and what it did not."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER, Count
from repotrial._core.words import LifecyclePhase
from repotrial.trace._payloads.common import (
    Alternative,
    EventPayload,
    EventSeq,
    Exited,
    ExitUnknown,
    Instant,
    Name,
    Signaled,
    TimedOut,
)

ProgramNumber = Annotated[int, msgspec.Meta(ge=1, le=MAX_SAFE_INTEGER)]
"""Numbers the starts of one sandbox, from 1; with the witness's report it names one program."""


class ProgramStart(EventPayload, frozen=True, kw_only=True):
    """A program started in the sandbox; a try that failed is not one (P14, P18)."""

    event_type: ClassVar[str] = "program-start"

    witness: EventSeq
    """The report with which this witness began: numbers count within it."""
    phase: LifecyclePhase
    """What the sandbox was opened for."""
    number: ProgramNumber
    """Its number."""
    parent: ProgramNumber | None
    """The program that started it; null if the harness did."""
    replaces: ProgramNumber | None = None
    """The program that became this one in the same process; null if it began in a process of its own."""
    command: ProgramNumber | None
    """The first program below the agent's own that it descends from, or is; null for the agent's own."""
    argv: tuple[str, ...]
    """Program and arguments: of what the kernel started where that is confirmed, else as the caller said."""
    truncated: bool = False
    """Whether there was more of the arguments than is kept, or some could not be read."""
    path: str
    """The file that the caller named; empty where it named an open descriptor or could not be read."""
    exe: str | None
    """The file that the kernel started, for a script its interpreter; null where that was not seen."""
    copies: tuple[str, ...] = ()
    """Programs of the system with the same bytes, where the file lies in a place that can be written (C7)."""
    cwd: str
    """Working directory; empty where it could not be read."""
    pid: Count
    """The process, as the host counts."""
    started_at_us: Instant
    """When it was asked for."""
    confirmed: bool
    """Whether the kernel was seen to run it; false for a program without a C library."""


class Replaced(Alternative, frozen=True, kw_only=True, tag="replaced"):
    """The process went on as another program."""

    by: ProgramNumber
    """That program."""


ProgramExit: TypeAlias = Exited | Signaled | TimedOut | Replaced | ExitUnknown
"""How a program ended."""


class ProgramEnd(EventPayload, frozen=True, kw_only=True):
    """A program of the sandbox ended (P14, P18)."""

    event_type: ClassVar[str] = "program-end"

    witness: EventSeq
    """The report with which this witness began."""
    number: ProgramNumber
    """Which program."""
    exit: ProgramExit
    """How it ended."""
    ended_at_us: Instant
    """When the harness heard of it."""
    wall_us: Count
    """From its start to then."""
    cpu_us: Count | None = None
    """Processor time of all its threads, without its children; null if it was never read."""
    cpu_is_lower_bound: bool = False
    """Whether it may have used more: the last reading came before its end."""


class FoldedPrograms(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Programs of one file below one command, counted."""

    exe: str
    """The file; empty for all files beyond those that are counted by name."""
    command: ProgramNumber | None
    """The command they belong to; null where they are counted for several, or are the agent's own."""
    started: Count
    """How many started."""
    ended: Count
    """How many of them ended."""
    failed: Count
    """How many ended with another code than 0, by a signal or at a ceiling."""
    wall_us: Count
    """Of those that ended, together."""
    cpu_us: Count
    """Of those that ended, together, as far as it was read."""
    from_us: Instant
    """When the first of them started."""
    to_us: Instant
    """When the last of them started or ended."""


class ProgramsFolded(EventPayload, frozen=True, kw_only=True):
    """Programs beyond the bound: counted by file, so that a large build stays small (P14)."""

    event_type: ClassVar[str] = "programs-folded"

    witness: EventSeq
    """The report with which this witness began."""
    groups: tuple[FoldedPrograms, ...]
    """All of them, each program in one group."""


class Sight(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One thing that a witness sees."""

    subject: Literal["starts", "arguments", "parents", "ends", "exit-statuses", "processor-time"]
    """What it sees."""
    means: Name
    """By which means: `seccomp-notify`, `inherited-number`, `pidfd-info`, `perf`, `sample`."""


class BlindSpot(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """One thing that a witness cannot see."""

    name: Name
    """Stable kebab-case name: `fork-without-exec`, `no-c-library`, `exit-statuses`."""
    reason: Name
    """Why not, in a sentence."""


class WitnessCounts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What a witness counted from its beginning to its end."""

    started: Count = 0
    """Programs that started, folded ones included."""
    ended: Count = 0
    """Programs whose end was seen, folded ones included."""
    folded: Count = 0
    """Programs without events of their own."""
    told: Count | None = None
    """Programs with a `program-start` event; null in earlier records."""
    told_ends: Count | None = None
    """Programs with a `program-end` event; null in earlier records."""
    unconfirmed: Count = 0
    """Programs that may have started: the kernel was not seen to run them."""
    failed_tries: Count = 0
    """Tries that started nothing: no such file, no permission."""
    unknown_exits: Count = 0
    """Programs that ended without their exit status being seen."""
    withdrawn: Count = 0
    """Held calls whose caller was gone before the answer: it was killed, or its call returned EINTR."""
    unread: Count = 0
    """Starts that came too fast to be read; they have no number."""


class WitnessReport(EventPayload, frozen=True, kw_only=True):
    """What the witness of one sandbox sees, by which means, and what it cannot see (P18)."""

    event_type: ClassVar[str] = "witness-report"

    moment: Literal["start", "end"]
    """Before the first program, or after the last."""
    phase: LifecyclePhase
    """What the sandbox was opened for."""
    witness: EventSeq | None = None
    """The report with which this witness began; null in that report itself."""
    sees: tuple[Sight, ...]
    """What it sees; nothing where this kind of sandbox has no witness."""
    blind: tuple[BlindSpot, ...]
    """What it cannot see, by name."""
    counts: WitnessCounts | None = None
    """What it counted; null at the start."""
