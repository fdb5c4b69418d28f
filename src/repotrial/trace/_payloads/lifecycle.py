"""From opening to termination: the frame of a run."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial.trace._body import Body
from repotrial.trace._payloads.common import EventPayload, EventSeq, Name, Phase, Signal

TRACE_SCHEMA = "repotrial/trace@1"
"""What this release writes. The number is the major version: it changes when old readers would misread."""

RunId = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}(?!\n)$", description="the id of a run")
]
"""Safe in file names and URLs."""

TerminationCategory: TypeAlias = Literal[
    "completed", "agent-exit", "circuit-breaker", "operator-abort", "run-timeout", "harness-fault"
]
"""Why acting ended. Only the breaker, the operator and the timeout end a run early (P12)."""

TerminationNature: TypeAlias = Literal["safety", "resource", "none"]
"""A safety termination is unscorable for success; a resource termination is never an acceptance failure."""


class RunOpened(EventPayload, frozen=True, kw_only=True):
    """The first event of every trace: binds the chain to one run and one manifest."""

    event_type: ClassVar[str] = "run-opened"

    schema: Annotated[str, msgspec.Meta(pattern=r"^repotrial/trace@[1-9][0-9]*(?!\n)$")] = TRACE_SCHEMA
    """Format and major version of this trace."""
    run_id: RunId
    """The run that this trace records; the chain starts from it."""
    manifest_digest: Digest
    """Digest of `manifest.json`, written before the first action (P2)."""
    redaction_rules_id: Name
    """Which redaction rules were in force (P27)."""
    harness_version: Name
    """Version of the program that wrote the trace."""


class PhaseChanged(EventPayload, frozen=True, kw_only=True):
    """The run entered a phase of its lifecycle (P1)."""

    event_type: ClassVar[str] = "phase-changed"

    phase: Phase
    """The phase that begins."""
    previous: Phase | None
    """The phase that ended; null at the first."""


class Briefing(EventPayload, frozen=True, kw_only=True):
    """What the agent was told, verbatim, issue and obligations kept apart (P6)."""

    event_type: ClassVar[str] = "briefing"

    issue: Body
    """The issue text."""
    obligations: tuple[Body, ...]
    """What acceptance demands, one body per obligation."""
    hints: tuple[Body, ...] = ()
    """Hints about tools and the environment."""
    delivered: Body
    """The briefing as one piece, exactly as the agent received it."""


class Termination(EventPayload, frozen=True, kw_only=True):
    """Why and how acting ended (P12, B3, B16)."""

    event_type: ClassVar[str] = "termination"

    category: TerminationCategory
    """Who or what ended it."""
    nature: TerminationNature
    """Safety, resource, or neither."""
    code: Name
    """Stable kebab-case reason: `cost-cap`, `identical-calls`, `prohibited-operation`."""
    rationale: str
    """The reason in a sentence."""
    evidence: tuple[EventSeq, ...] = ()
    """Alerts, interventions and decisions that it rests on."""
    signals: tuple[Signal, ...] = ()
    """Consumption at the end against its caps: tokens, wall time, tool calls, failed check cycles (B2)."""


class DroppedOfType(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """What the byte budget cost one event type."""

    type: Name
    """The event type; `unassigned` for bodies that were made for no declared type."""
    bodies: Count
    """Bodies of which only the digest was kept."""
    body_bytes: Count
    """Their original length, together."""
    events: Count
    """Events that were not recorded at all."""
    event_bytes: Count
    """Length of the lines that they would have had."""


class TraceTruncated(EventPayload, frozen=True, kw_only=True):
    """The byte budget was reached: says what is missing, so that nothing is lost silently."""

    event_type: ClassVar[str] = "trace-truncated"

    reason: Literal["run-budget", "type-budget"]
    """Which budget was reached first."""
    limit_bytes: Count
    """That budget."""
    dropped: tuple[DroppedOfType, ...]
    """What has been dropped since the run was opened, by type."""
    final: bool
    """True in the closing count; false when dropping begins."""
