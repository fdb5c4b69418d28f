"""A trace as people read it: one row per event, as data; the caller decides how it is printed.

Everything in a summary may come from an agent. Characters that move the cursor, color the terminal, reorder
or hide text are shown as escapes, never passed on.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Final

import msgspec

from repotrial._core.canonical import Count
from repotrial._core.display import neutralize
from repotrial.trace._blobs import BlobStore
from repotrial.trace._body import BinaryBody, BlobBody, Body, OmittedBody, TextBody, WithdrawnBody
from repotrial.trace._event import Actor, Event, UnknownPayload
from repotrial.trace._payloads import Payload
from repotrial.trace._payloads.actions import (
    AgentTranscript,
    Prompt,
    Response,
    ToolInvocation,
    WorkspaceMutation,
)
from repotrial.trace._payloads.agent import AgentConfiguration, describe_configuration
from repotrial.trace._payloads.checks import (
    AcceptanceExecution,
    BuildCheck,
    CheckOutcome,
    Errored,
    Failed,
    Passed,
    PatchApplication,
    StaticCheck,
)
from repotrial.trace._payloads.common import (
    Command,
    Exited,
    ExitStatus,
    ExitUnknown,
    NotStarted,
    Signal,
    Signaled,
    TimedOut,
)
from repotrial.trace._payloads.course import (
    Briefing,
    Enforced,
    Intervention,
    MonitorAlert,
    OnAlert,
    OnDecision,
    OperatorDecision,
    PhaseChanged,
    Refused,
    Requested,
    RunOpened,
    StageTransition,
    Termination,
    TraceTruncated,
)
from repotrial.trace._payloads.harness import HarnessPayload
from repotrial.trace._payloads.programs import (
    ProgramEnd,
    ProgramsFolded,
    ProgramStart,
    Replaced,
    WitnessReport,
)
from repotrial.trace._reader import iter_events, iter_with_moot
from repotrial.trace._rundir import RunPaths
from repotrial.trace._said import read_said
from repotrial.trace._timeline_harness import describe_harness

MAX_SUMMARY_CHARACTERS = 200
MAX_SAID_CHARACTERS = 400
"""Of what was said to a model and by it."""


_FIRST_ERROR: Final = 400


class Marker(Enum):
    """What makes a row stand out."""

    PLAIN = "plain"
    ALERT = "alert"
    INTERVENTION = "intervention"
    PASSED = "passed"
    FAILED = "failed"
    ERRORED = "errored"
    GAP = "gap"
    """Something is missing or was not understood."""
    END = "end"


class TimelineRow(msgspec.Struct, frozen=True, kw_only=True):
    """One event in one line."""

    seq: Count
    elapsed_us: int
    """Since the first event."""
    actor: Actor
    type: str
    summary: str
    """Printable characters only, at most `MAX_SUMMARY_CHARACTERS` of them, or `MAX_SAID_CHARACTERS`."""
    marker: Marker


def iter_timeline(paths: RunPaths, *, first: int = 0, offset: int = 0) -> Iterator[TimelineRow]:
    """The complete events from `first` on, whose line begins at `offset`, streamed; truth is not checked.

    Raises:
        EvidenceError: the trace cannot be read, or a line is not an event.
    """
    blobs = BlobStore(paths.blobs)
    opened_at_us = next((event.t for event in iter_events(paths.trace, allow_torn_tail=True)), 0)
    events = iter_events(paths.trace, allow_torn_tail=True, first=first, offset=offset)
    for event, is_moot in iter_with_moot(events):
        yield _build_row(event, event.t - opened_at_us, blobs, is_moot=is_moot)


def _build_row(event: Event, elapsed_us: int, blobs: BlobStore, *, is_moot: bool) -> TimelineRow:
    is_said = isinstance(event.payload, Prompt | Response)
    limit = MAX_SAID_CHARACTERS if is_said else MAX_SUMMARY_CHARACTERS
    return TimelineRow(
        seq=event.seq,
        elapsed_us=elapsed_us,
        actor=event.actor,
        type=neutralize(event.type, max_characters=60),
        summary=neutralize(_summary(event.payload, blobs, is_moot=is_moot), max_characters=limit),
        marker=Marker.PLAIN if is_moot else _marker(event.payload),
    )


def _summary(payload: Payload | UnknownPayload, blobs: BlobStore, *, is_moot: bool) -> str:
    match payload:
        case Prompt() | Response() | AgentConfiguration():
            return _dialogue(payload, blobs)
        case Briefing():
            return f"{len(payload.obligations)} obligation(s): {_body(payload.issue)}"
        case ToolInvocation() | WorkspaceMutation() | AgentTranscript():
            return _action(payload)
        case ProgramStart() | ProgramEnd() | ProgramsFolded() | WitnessReport():
            return _program(payload)
        case PatchApplication() | BuildCheck() | StaticCheck() | AcceptanceExecution():
            return _execution(payload, is_moot=is_moot)
        case MonitorAlert() | Intervention() | OperatorDecision() | StageTransition():
            return _oversight(payload)
        case RunOpened() | PhaseChanged() | Termination() | TraceTruncated():
            return _lifecycle(payload)
        case HarnessPayload():
            return describe_harness(payload)
        case UnknownPayload():
            return f"an event type that this release does not know ({len(payload.data)} bytes)"


def _dialogue(payload: Prompt | Response | AgentConfiguration, blobs: BlobStore) -> str:
    match payload:
        case AgentConfiguration():
            return describe_configuration(payload)
        case Prompt():
            repeated = f", {payload.repeats.messages} repeated" if payload.repeats else ""
            last = f": {_said(payload.messages[-1].body, blobs)}" if payload.messages else ""
            return f"#{payload.index} to {payload.model}, {len(payload.messages)} message(s){repeated}{last}"
        case Response():
            tokens = payload.usage.output_tokens
            counted = "" if tokens is None else f", {tokens} output tokens"
            refused = f", HTTP {payload.status}" if (payload.status or 0) >= _FIRST_ERROR else ""
            return f"#{payload.index} from {payload.model}{refused}{counted}: {_said(payload.body, blobs)}"


def _action(payload: ToolInvocation | WorkspaceMutation | AgentTranscript) -> str:
    match payload:
        case AgentTranscript():
            return f"{payload.path}, {payload.body.length_bytes} bytes, as the agent wrote it"
        case ToolInvocation():
            called = _command(payload.command) if payload.command else _body(payload.arguments)
            # Of most calls of tools only their words are seen, and that is no news.
            ended = "" if isinstance(payload.exit, ExitUnknown) else f" → {describe_exit(payload.exit)}"
            return f"{payload.tool}{ended}: {called}"
        case WorkspaceMutation():
            paths = ", ".join(f"{_tag(change)} {change.path}" for change in payload.changes[:5])
            more = f" and {len(payload.changes) - 5} more" if len(payload.changes) > 5 else ""  # noqa: PLR2004 -- as above
            return f"{len(payload.changes)} path(s): {paths}{more}"


def _program(payload: ProgramStart | ProgramEnd | ProgramsFolded | WitnessReport) -> str:
    match payload:
        case ProgramStart():
            parent = "the harness" if payload.parent is None else f"program {payload.parent}"
            doubt = "" if payload.confirmed else " (perhaps)"
            return f"program {payload.number} of {parent}{doubt}: {' '.join(payload.argv) or payload.path}"
        case ProgramEnd(exit=status):
            ended = (
                f"became program {status.by}"
                if isinstance(status, Replaced)
                else f"→ {describe_exit(status)}"
            )
            return f"program {payload.number} {ended}"
        case ProgramsFolded(groups=groups):
            return f"{sum(group.started for group in groups)} more program(s), counted by file"
        case WitnessReport():
            seen = ", ".join(sight.subject for sight in payload.sees) or "nothing"
            counted = "" if payload.counts is None else f"; {payload.counts.started} program(s) started"
            return f"{payload.moment} of {payload.phase}: sees {seen}{counted}"


def _execution(
    payload: PatchApplication | BuildCheck | StaticCheck | AcceptanceExecution, *, is_moot: bool
) -> str:
    ended = f"{describe_outcome(payload.outcome)} ({describe_exit(payload.exit)})"
    match payload:
        case PatchApplication():
            refused = len(payload.rejected_paths) + len(payload.conflict_paths)
            return f"{ended}; {refused} path(s) refused" if refused else ended
        case BuildCheck():
            return f"{payload.check_id} #{payload.attempt} {ended}"
        case StaticCheck():
            counted = "" if payload.findings is None else f"; {payload.findings} finding(s)"
            return f"{payload.check_id} #{payload.attempt} {ended}{counted}"
        case AcceptanceExecution(variant="twins"):
            return _doubt(payload, is_moot=is_moot)
        case AcceptanceExecution():
            on = "" if payload.subject == "candidate" else f" on the {payload.subject}"
            failed, missing = payload.failing.count, payload.missing.count
            counts = f"{payload.passed_count} passed, {failed} failed, {missing} missing"
            return f"{payload.check_id} #{payload.attempt}{on} {ended}; {counts}"


def _doubt(payload: AcceptanceExecution, *, is_moot: bool) -> str:
    """A twin run in words that differ from a verdict: in it, most tests should fail."""
    mixed = "" if payload.twins is None else f"{payload.twins.mixed_in} "
    name = f"{payload.check_id} #{payload.attempt}, twin run with {mixed}wrong expectations mixed in"
    return f"{name}: {describe_doubt(payload.outcome, is_moot=is_moot)} ({describe_exit(payload.exit)})"


def _oversight(payload: MonitorAlert | Intervention | OperatorDecision | StageTransition) -> str:
    match payload:
        case MonitorAlert():
            measured = ", ".join(map(_signal, payload.signals))
            quoted = f": {_body(payload.segment.body)}" if payload.segment else ""
            return f"{payload.severity} {payload.monitor}/{payload.rule} {measured}{quoted}"
        case Intervention():
            effect = "" if payload.effective else " (without effect)"
            why = f"{_tag(payload.action)} because of {_basis(payload.basis)}"
            return f"{why}{effect} {payload.detail}".rstrip()
        case OperatorDecision():
            return f"{payload.decision} by {payload.operator} ({payload.justification.reason})"
        case StageTransition():
            return f"{payload.before} → {payload.after}: {_transition(payload.status)}"


def _lifecycle(payload: RunOpened | PhaseChanged | Termination | TraceTruncated) -> str:
    match payload:
        case RunOpened():
            return f"run {payload.run_id}, harness {payload.harness_version}"
        case PhaseChanged():
            return payload.phase if payload.previous is None else f"{payload.previous} → {payload.phase}"
        case Termination():
            nature = "" if payload.nature == "none" else f", {payload.nature}"
            return f"{payload.category}{nature} ({payload.code}): {payload.rationale}"
        case TraceTruncated():
            events = sum(dropped.events for dropped in payload.dropped)
            bodies = sum(dropped.bodies for dropped in payload.dropped)
            lost = f"{events} event(s) and {bodies} body(ies) not kept"
            return f"byte budget reached ({payload.reason}): {lost}"


def _marker(payload: Payload | UnknownPayload) -> Marker:
    match payload:
        case PatchApplication() | BuildCheck() | StaticCheck() | AcceptanceExecution():
            return _OUTCOME_MARKERS[type(payload.outcome)]
        case MonitorAlert():
            return Marker.ALERT
        case Intervention() | OperatorDecision():
            return Marker.INTERVENTION
        case TraceTruncated() | UnknownPayload():
            return Marker.GAP
        case Termination():
            return Marker.END
        case (
            Prompt()
            | Response()
            | AgentConfiguration()
            | AgentTranscript()
            | Briefing()
            | ToolInvocation()
            | WorkspaceMutation()
            | StageTransition()
            | RunOpened()
            | PhaseChanged()
            | ProgramStart()
            | ProgramEnd()
            | ProgramsFolded()
            | WitnessReport()
            | HarnessPayload()
        ):
            return Marker.PLAIN


_OUTCOME_MARKERS: dict[type[CheckOutcome], Marker] = {
    Passed: Marker.PASSED,
    Failed: Marker.FAILED,
    Errored: Marker.ERRORED,
}


def _said(body: Body, blobs: BlobStore) -> str:
    """What was said rather than how it was sent, where that can be read."""
    return read_said(body, blobs) or _body(body)


def _body(body: Body) -> str:
    match body:
        case TextBody():
            return body.text[: MAX_SUMMARY_CHARACTERS + 1]
        case BinaryBody():
            return f"({body.length_bytes} bytes, not text)"
        case BlobBody():
            return f"({body.length_bytes} bytes in a blob)"
        case OmittedBody():
            return f"({body.length_bytes} bytes, not kept)"
        case WithdrawnBody():
            return f"({body.length_bytes} bytes, taken out after the run)"


def _command(command: Command) -> str:
    return " ".join(command.argv)


def describe_exit(status: ExitStatus) -> str:
    """How a program ended, in words; they may quote untrusted text."""
    match status:
        case Exited():
            return f"exit {status.code}"
        case Signaled():
            return f"signal {status.signal}"
        case TimedOut():
            return "timed out"
        case NotStarted():
            return f"not started: {status.reason}"
        case ExitUnknown():
            return "exit unknown"


def describe_outcome(outcome: CheckOutcome) -> str:
    """What a check says, in words; they may quote untrusted text."""
    match outcome:
        case Passed():
            return "pass"
        case Failed():
            return f"fail: {outcome.summary}"
        case Errored():
            return f"error: {outcome.reason}"


def describe_doubt(outcome: CheckOutcome, *, is_moot: bool) -> str:
    """What a twin run says, in words; they may quote untrusted text."""
    if is_moot:
        return "moot, since the plain run does not pass"
    match outcome:
        case Passed():
            return "held, exactly they failed"
        case Failed():
            return f"not held: {outcome.summary}"
        case Errored():
            return f"error: {outcome.reason}"


def _basis(basis: OnAlert | OnDecision) -> str:
    match basis:
        case OnAlert():
            return f"alert {basis.alert}"
        case OnDecision():
            return f"decision {basis.decision}"


def _transition(status: Requested | Enforced | Refused) -> str:
    match status:
        case Requested():
            return "requested"
        case Enforced():
            return f"enforced by {status.mechanism}"
        case Refused():
            return f"refused: {status.reason}"


def _signal(signal: Signal) -> str:
    return f"{signal.name}={signal.value}" + ("" if signal.threshold is None else f"/{signal.threshold}")


def _tag(part: msgspec.Struct) -> str:
    return str(part.__struct_config__.tag)
