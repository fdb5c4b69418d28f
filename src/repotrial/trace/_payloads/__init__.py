"""What can happen in a run: one typed payload per event type (P14, S12)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias, get_args

import msgspec

from repotrial.trace._payloads.actions import (
    AgentTranscript,
    Prompt,
    Response,
    ToolInvocation,
    WorkspaceMutation,
)
from repotrial.trace._payloads.agent import AgentConfiguration
from repotrial.trace._payloads.checks import AcceptanceExecution, BuildCheck, PatchApplication, StaticCheck
from repotrial.trace._payloads.common import EventPayload
from repotrial.trace._payloads.course import (
    Briefing,
    Intervention,
    MonitorAlert,
    OperatorDecision,
    PhaseChanged,
    RunOpened,
    StageTransition,
    Termination,
    TraceTruncated,
)
from repotrial.trace._payloads.harness import (
    ChangeTaken,
    DrawRevealed,
    HarnessExecution,
    ManifestBound,
    MonitorReport,
)
from repotrial.trace._payloads.programs import ProgramEnd, ProgramsFolded, ProgramStart, WitnessReport

DroppablePayload: TypeAlias = (
    Prompt | Response | ToolInvocation | AgentTranscript | ProgramStart | ProgramEnd | ProgramsFolded
)
"""What an agent can produce without end: the byte budget may drop such an event, visibly."""

KeptPayload: TypeAlias = (
    RunOpened
    | ManifestBound
    | HarnessExecution
    | PhaseChanged
    | Briefing
    | AgentConfiguration
    | WorkspaceMutation
    | ChangeTaken
    | PatchApplication
    | BuildCheck
    | StaticCheck
    | AcceptanceExecution
    | DrawRevealed
    | MonitorReport
    | MonitorAlert
    | Intervention
    | StageTransition
    | Termination
    | OperatorDecision
    | WitnessReport
    | TraceTruncated
)
"""What a verdict rests on: never dropped, whatever the budget says (P15)."""

Payload: TypeAlias = DroppablePayload | KeptPayload
"""Every payload; match it exhaustively."""

PAYLOAD_TYPES: dict[str, type[EventPayload]] = {cls.event_type: cls for cls in get_args(Payload)}
"""From the envelope's `type` to the payload's class."""

DROPPABLE_TYPES: frozenset[str] = frozenset(cls.event_type for cls in get_args(DroppablePayload))


class PayloadType(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of event types in the documentation."""

    name: str
    """The envelope's `type`."""
    payload: type[EventPayload]
    """Its class."""
    summary: str
    """The first line of the class's docstring."""
    droppable: bool
    """Whether the byte budget may drop it."""


def iter_payload_types() -> Iterator[PayloadType]:
    """All event types, by name."""
    for name, payload in sorted(PAYLOAD_TYPES.items()):
        summary = (payload.__doc__ or "").strip().partition("\n")[0]
        yield PayloadType(name=name, payload=payload, summary=summary, droppable=name in DROPPABLE_TYPES)
