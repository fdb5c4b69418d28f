"""Monitors, interventions, stages and operators: who watched, and what they did about it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.digest import Digest
from repotrial.trace._body import Body
from repotrial.trace._payloads.common import EventPayload, EventSeq, Name, Part, Phase, Signal

Severity: TypeAlias = Literal["info", "warning", "critical"]
"""How grave an alert is."""

Stage: TypeAlias = Literal["read", "write", "test"]
"""Staged privileges, in this order (P7)."""


TextFormat: TypeAlias = Literal["natural-language", "code", "command"]
"""What kind of text a rule matched."""


class Segment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The exact piece of output that a rule matched (S10, P17)."""

    format: TextFormat
    """What kind of text it is."""
    body: Body
    """The piece itself."""
    event: EventSeq
    """The event in which it stands."""
    offset_bytes: Count | None = None
    """Where in that event's body; null where the piece is no part of a body."""


class MonitorAlert(EventPayload, frozen=True, kw_only=True):
    """A monitor's rule was met (P14, P18); what is done about it is an event of its own."""

    event_type: ClassVar[str] = "monitor-alert"

    monitor: Name
    """Which monitor."""
    rule: Name
    """Which of its rules."""
    severity: Severity
    """How grave it is."""
    phase: Phase
    """The phase it was seen in: monitors watch acting and acceptance alike."""
    signals: tuple[Signal, ...] = ()
    """The values from which the alert can be computed again (P19)."""
    segment: Segment | None = None
    """The text that triggered it; null where a measure did."""
    evidence: tuple[EventSeq, ...] = ()
    """Events that it rests on."""


class OnAlert(Part, frozen=True, kw_only=True, tag="alert"):
    """An alert asked for it."""

    alert: EventSeq
    """The alert."""


class OnDecision(Part, frozen=True, kw_only=True, tag="decision"):
    """An operator decided it."""

    decision: EventSeq
    """The operator's decision."""


InterventionBasis: TypeAlias = OnAlert | OnDecision
"""What an intervention answers."""


class Pause(Part, frozen=True, kw_only=True, tag="pause"):
    """The run waits for an operator (P20)."""


class Resume(Part, frozen=True, kw_only=True, tag="resume"):
    """The run goes on."""


class SuspendWrites(Part, frozen=True, kw_only=True, tag="suspend-writes"):
    """The workspace became read-only (P19)."""


class RollBack(Part, frozen=True, kw_only=True, tag="roll-back"):
    """The workspace was set back."""

    tree_digest: Digest
    """The tree that it was set back to."""


class Quarantine(Part, frozen=True, kw_only=True, tag="quarantine"):
    """The workspace was set aside as evidence (P19)."""

    tree_digest: Digest | None = None
    """The tree that was set aside; null where it could not be read."""


class Throttle(Part, frozen=True, kw_only=True, tag="throttle"):
    """The agent had to wait (P22, P24)."""

    wait_us: Count
    """How long."""


class Terminate(Part, frozen=True, kw_only=True, tag="terminate"):
    """Acting was ended; a termination event follows (P12)."""


InterventionAction: TypeAlias = Pause | Resume | SuspendWrites | RollBack | Quarantine | Throttle | Terminate
"""What the harness can do to a run."""


class Intervention(EventPayload, frozen=True, kw_only=True):
    """The harness acted on a run, because of an alert or a decision (P14, P19, P24)."""

    event_type: ClassVar[str] = "intervention"

    action: InterventionAction
    """What it did."""
    basis: InterventionBasis
    """The alert or the decision that it answers."""
    effective: bool
    """Whether it took effect; false where the sandbox could not do it."""
    detail: str = ""
    """More, for people."""


class Requested(Part, frozen=True, kw_only=True, tag="requested"):
    """Asked for, not yet in force."""


class Enforced(Part, frozen=True, kw_only=True, tag="enforced"):
    """In force: the sandbox made it so before this event was written (P7)."""

    mechanism: Name
    """How: `mount-flip`, `landlock`, `tool-unmask`."""
    took_us: Count
    """How long the switch took."""


class Refused(Part, frozen=True, kw_only=True, tag="refused"):
    """Not granted."""

    reason: Name
    """Why not."""


TransitionStatus: TypeAlias = Requested | Enforced | Refused
"""How far a transition got."""


class StageTransition(EventPayload, frozen=True, kw_only=True):
    """Privileges changed, or were asked to change (P7)."""

    event_type: ClassVar[str] = "stage-transition"

    before: Stage
    """The stage until now."""
    after: Stage
    """The stage asked for."""
    status: TransitionStatus
    """Requested, enforced or refused."""
    evidence: tuple[EventSeq, ...] = ()
    """The events whose signals decided it."""
    signals: tuple[Signal, ...] = ()
    """The values that decided it."""


class Justification(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """Why an operator decided so (P20)."""

    reason: Name
    """Stable kebab-case reason."""
    text: Annotated[str, msgspec.Meta(min_length=1)]
    """In the operator's words."""
    evidence: tuple[EventSeq, ...] = ()
    """Events that the operator relied on."""


class OperatorDecision(EventPayload, frozen=True, kw_only=True):
    """A person answered an escalation or intervened (P20)."""

    event_type: ClassVar[str] = "operator-decision"

    operator: Name
    """Who decided: an account or a role, as the study identifies people."""
    decision: Literal["resume", "abort", "approve", "reject"]
    """What was decided."""
    answers: EventSeq | None = None
    """The alert, intervention or transition that asked; null where the operator acted unasked."""
    justification: Justification
    """Why."""
