"""The course of a run: opening, phases, alerts, interventions, stages, decisions, termination."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal, TypeAlias

import msgspec

from repotrial._core.canonical import MAX_SAFE_INTEGER, Count
from repotrial._core.digest import Digest
from repotrial._core.words import (
    AlertSeverity,
    LifecyclePhase,
    Stage,
    TerminationCategory,
    TerminationNature,
    TextFormat,
)
from repotrial.trace._body import Body
from repotrial.trace._payloads.common import Alternative, EventPayload, EventSeq, Name, Signal

TRACE_VERSION: Final = 2
TRACE_SCHEMA = f"repotrial/trace@{TRACE_VERSION}"
"""What this release writes. The number is the major version: it changes when old readers would misread."""
TRACE_SCHEMAS: Final = {f"repotrial/trace@{version}": version for version in range(1, TRACE_VERSION + 1)}
"""What this release reads."""

RunId = Annotated[
    str, msgspec.Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,199}(?!\n)$", description="the id of a run")
]
"""Safe in file names and URLs."""


class RunOpened(EventPayload, frozen=True, kw_only=True):
    """The first event of every trace: binds the chain to one run and one manifest."""

    event_type: ClassVar[str] = "run-opened"

    schema: Annotated[str, msgspec.Meta(pattern=r"^repotrial/trace@[1-9][0-9]*(?!\n)$")] = TRACE_SCHEMA
    """Format and major version of this trace."""
    run_id: RunId
    """The run that this trace records; the chain starts from it."""
    manifest_digest: Digest | None = None
    """Digest of `manifest.json` in version 1; null since: an event binds it once it is written."""
    redaction_rules_id: Name
    """Which redaction rules were in force (P27)."""
    harness_version: Name
    """Version of the program that wrote the trace."""
    completeness_rules: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """Which rules of completeness the record undertakes to meet (P15): 2 is all from opening to seal."""
    policy_rules: Annotated[int, msgspec.Meta(ge=1, le=1000)] = 1
    """Which rules about programs bind the run (C7): 2 are also tries to write outside of the workspace."""

    @property
    def version(self) -> int:
        """The major version of the format: what a record must have depends on it."""
        return int(self.schema.rpartition("@")[2])


class PhaseChanged(EventPayload, frozen=True, kw_only=True):
    """The run entered a phase of its lifecycle (P1)."""

    event_type: ClassVar[str] = "phase-changed"

    phase: LifecyclePhase
    """The phase that begins."""
    previous: LifecyclePhase | None
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
    """Consumption at the end against its caps (policy choices): tokens, time, calls, failed checks (B2)."""


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


class Segment(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, gc=False):
    """The exact piece of output that a rule matched (S10, P17)."""

    format: TextFormat
    """What kind of text it is."""
    body: Body
    """The piece itself."""
    event: EventSeq
    """The event in which it stands."""
    offset_bytes: Count | None = None
    """Where in that event's body; null if the piece is no part of a body."""


class MonitorAlert(EventPayload, frozen=True, kw_only=True):
    """A monitor's rule was met (P14, P18); what is done about it is an event of its own."""

    event_type: ClassVar[str] = "monitor-alert"

    monitor: Name
    """Which monitor."""
    rule: Name
    """Which of its rules."""
    severity: AlertSeverity
    """How grave it is."""
    phase: LifecyclePhase
    """The phase it was seen in: monitors watch acting and acceptance alike."""
    stage: Stage | None = None
    """The privilege stage in force (P14); null where the agent does not act."""
    signals: tuple[Signal, ...] = ()
    """The values from which the alert can be computed again (P19)."""
    segment: Segment | None = None
    """The text that triggered it; null if a measure did."""
    prompt: Segment | None = None
    """The beginning of the message that the text answers, where a model said it (S10); null else."""
    evidence: tuple[EventSeq, ...] = ()
    """Events that it rests on."""


class OnAlert(Alternative, frozen=True, kw_only=True, tag="alert"):
    """An alert asked for it."""

    alert: EventSeq
    """The alert."""


class OnDecision(Alternative, frozen=True, kw_only=True, tag="decision"):
    """An operator decided it."""

    decision: EventSeq
    """The operator's decision."""


InterventionBasis: TypeAlias = OnAlert | OnDecision
"""What an intervention answers."""


class Pause(Alternative, frozen=True, kw_only=True, tag="pause"):
    """The run waits for an operator (P20)."""


class Resume(Alternative, frozen=True, kw_only=True, tag="resume"):
    """The run goes on."""


class SuspendWrites(Alternative, frozen=True, kw_only=True, tag="suspend-writes"):
    """The workspace became read-only (P19)."""


class RollBack(Alternative, frozen=True, kw_only=True, tag="roll-back"):
    """The workspace was set back."""

    tree_digest: Digest
    """The tree that it was set back to."""


class Quarantine(Alternative, frozen=True, kw_only=True, tag="quarantine"):
    """The workspace was set aside as evidence (P19)."""

    tree_digest: Digest | None = None
    """The tree that was set aside; null if it could not be read."""


class Throttle(Alternative, frozen=True, kw_only=True, tag="throttle"):
    """The agent had to wait (P22, P24)."""

    wait_us: Count
    """How long."""


class Terminate(Alternative, frozen=True, kw_only=True, tag="terminate"):
    """Acting was ended; a termination event follows (P12)."""


class EndCommand(Alternative, frozen=True, kw_only=True, tag="end-command"):
    """One command was ended with everything that it had started; the run goes on (P19)."""

    command: Annotated[int, msgspec.Meta(ge=1, le=MAX_SAFE_INTEGER)] | None = None
    """The number of its first program; null where no witness numbers programs."""
    processes: Count | None = None
    """How many processes were killed; null if they were not counted."""


InterventionAction: TypeAlias = (
    Pause | Resume | SuspendWrites | RollBack | Quarantine | Throttle | EndCommand | Terminate
)
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


class Requested(Alternative, frozen=True, kw_only=True, tag="requested"):
    """Asked for, not yet in force."""


class Enforced(Alternative, frozen=True, kw_only=True, tag="enforced"):
    """In force: the sandbox made it so before this event was written (P7)."""

    mechanism: Name
    """How: `mount-flip`, `landlock`, `tool-unmask`."""
    took_us: Count
    """How long the switch took."""


class Refused(Alternative, frozen=True, kw_only=True, tag="refused"):
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
    """The alert, intervention or transition that asked; null if the operator acted unasked."""
    justification: Justification
    """Why."""
