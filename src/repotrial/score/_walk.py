"""One pass over a trace that keeps what verdicts need: memory grows with checks and alerts, not with work."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.errors import EvidenceError
from repotrial._core.words import LifecyclePhase
from repotrial.policy import read_tool_use
from repotrial.score._evidence import (
    Alert,
    CheckExecution,
    NumberedIntervention,
    NumberedPatch,
    NumberedTermination,
    TestReport,
    TraceFacts,
    Trigger,
    WorkHistory,
    WorkspaceEdit,
)
from repotrial.score._taxonomy import find_mode, log_patterns
from repotrial.shell import is_test_command
from repotrial.trace import (
    AcceptanceExecution,
    BlobRef,
    BlobStore,
    Body,
    BuildCheck,
    Event,
    Exited,
    Intervention,
    MonitorAlert,
    Passed,
    PatchApplication,
    PhaseChanged,
    Response,
    Segment,
    StaticCheck,
    Termination,
    ToolInvocation,
    TraceTruncated,
    WorkspaceMutation,
)

_MAX_KEPT = 10_000
"""Of interventions and overflows each."""
_MAX_ALERTS_OF_KIND = 1000
_MAX_LOG_BYTES = 4 * 1024 * 1024
_MAX_LOGS = 20
_MAX_SEGMENT_CHARACTERS = 4096
_RECENT_EDITS = 5
_PATHS_SHOWN = 10
_MAX_NAMES = 100


def collect_facts(events: Iterable[Event], blobs: BlobStore) -> TraceFacts:
    """Walk the events once.

    Raises:
        EvidenceError: a line is not an event.
    """
    walk = _Walk(blobs)
    for event in events:
        walk.take(event)
    return walk.facts()


class _Walk:
    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs
        self._executions: list[CheckExecution] = []
        self._patches: list[NumberedPatch] = []
        self._terminations: list[NumberedTermination] = []
        self._alerts: list[Alert] = []
        self._interventions: list[NumberedIntervention] = []
        self._overflows: list[int] = []
        self._alert_kinds: Counter[tuple[str, str, str, str]] = Counter()
        self._counts: Counter[str] = Counter()
        self._phases: dict[LifecyclePhase, int] = {}
        self._dropped = 0
        self._tool_us = self._tool_calls = self._test_cycles = 0
        self._edits: deque[WorkspaceEdit] = deque(maxlen=_RECENT_EDITS)
        self._largest: WorkspaceEdit | None = None
        self._green: int | None = None
        self._red: int | None = None
        mode = find_mode("context-overflow")
        self._full = frozenset(mode.signature.stop_reasons if mode is not None else ())

    def take(self, event: Event) -> None:
        self._counts[event.type] += 1
        match event.payload:
            case AcceptanceExecution() | BuildCheck() | StaticCheck() as check:
                self._executions.append(self._build_execution(check, event.seq))
            case PatchApplication() as patch:
                self._patches.append(NumberedPatch(seq=event.seq, event=patch))
            case Termination() as termination:
                self._terminations.append(NumberedTermination(seq=event.seq, event=termination))
            case PhaseChanged(phase=phase):
                self._phases[phase] = event.t
            case TraceTruncated(dropped=dropped):
                self._dropped = sum(item.events for item in dropped)
            case _:
                self._take_work(event)

    def _take_work(self, event: Event) -> None:
        match event.payload:
            case MonitorAlert() as alert:
                self._take_alert(alert, event.seq)
            case Intervention() as intervention if len(self._interventions) < _MAX_KEPT:
                self._interventions.append(NumberedIntervention(seq=event.seq, event=intervention))
            case Response(stop_reason=str() as reason) if reason in self._full:
                self._overflows.append(event.seq)
            case ToolInvocation() as tool:
                self._take_tool(tool, event.seq)
            case WorkspaceMutation(changes=changes):
                self._take_edit(sorted(change.path for change in changes), event.seq)
            case _:
                return

    def _take_alert(self, alert: MonitorAlert, seq: int) -> None:
        # Of every kind some are kept: a flood of one must not hide another.
        kind = (alert.monitor, alert.rule, alert.severity, alert.phase)
        self._alert_kinds[kind] += 1
        if self._alert_kinds[kind] <= _MAX_ALERTS_OF_KIND:
            self._alerts.append(self._build_alert(alert, seq))

    def _take_tool(self, tool: ToolInvocation, seq: int) -> None:
        self._tool_calls += 1
        self._tool_us += tool.wall_us
        if not isinstance(tool.exit, Exited) or not _runs_tests(tool):
            return
        self._test_cycles += 1
        if tool.exit.code == 0:
            self._green, self._red = seq, None
        elif self._red is None:
            self._red = seq

    def _take_edit(self, paths: list[str], seq: int) -> None:
        if "act" not in self._phases or "accept" in self._phases:
            return
        edit = WorkspaceEdit(
            seq=seq, paths=tuple(paths[:_PATHS_SHOWN]), path_count=len(paths), last_green=self._green
        )
        self._edits.append(edit)
        if self._largest is None or edit.path_count > self._largest.path_count:
            self._largest = edit

    def _build_execution(
        self, check: AcceptanceExecution | BuildCheck | StaticCheck, seq: int
    ) -> CheckExecution:
        # A wrong expectation may ask for a name that is nowhere.
        is_doubt = isinstance(check, AcceptanceExecution) and check.variant == "twins"
        needs_names = check.subject == "candidate" and not is_doubt and not isinstance(check.outcome, Passed)
        execution = CheckExecution(
            seq=seq,
            type=check.event_type,
            check_id=check.check_id,
            gate=check.gate,
            attempt=check.attempt,
            subject=check.subject,
            outcome=check.outcome,
            command=check.command,
            exit=check.exit,
            cause=check.cause,
            started_at_us=check.started_at_us,
            ended_at_us=check.ended_at_us,
            collisions=check.collisions,
            removed=check.removed,
            unresolved=self._find_unresolved(check) if needs_names else (),
        )
        if not isinstance(check, AcceptanceExecution):
            return execution
        tests = TestReport(failing=check.failing, missing=check.missing)
        return msgspec.structs.replace(execution, variant=check.variant, tests=tests, twins=check.twins)

    def _find_unresolved(self, check: AcceptanceExecution | BuildCheck | StaticCheck) -> tuple[str, ...]:
        names: set[str] = set()
        for text in self._iter_texts(check):
            for pattern in log_patterns("dependency-hallucination"):
                names.update(match[1] for match in pattern.finditer(text))
        return tuple(sorted(names)[:_MAX_NAMES])

    def _iter_texts(self, check: AcceptanceExecution | BuildCheck | StaticCheck) -> Iterator[str]:
        """What it printed and the files that it left, each up to a bound."""
        for output in (check.stdout, check.stderr):
            yield self._read(output.prefix if output.log is None else output.log)
        for log in check.logs[:_MAX_LOGS]:
            yield self._read(log.blob)

    def _read(self, source: Body | BlobRef) -> str:
        try:
            if not isinstance(source, BlobRef):
                return source.load(self._blobs).decode(errors="replace")
            if source.size_bytes <= _MAX_LOG_BYTES:
                return self._blobs.read(source).decode(errors="replace")
        except EvidenceError:  # a lost log is a finding of completeness, not of this rule
            return ""
        return ""

    def _build_alert(self, alert: MonitorAlert, seq: int) -> Alert:
        return Alert(
            seq=seq,
            monitor=alert.monitor,
            rule=alert.rule,
            severity=alert.severity,
            phase=alert.phase,
            evidence=alert.evidence,
            trigger=None if alert.segment is None else self._build_trigger(alert.segment),
        )

    def _build_trigger(self, segment: Segment) -> Trigger:
        text: str | Unknown
        try:
            data = segment.body.load(self._blobs)
            text = data.decode(errors="backslashreplace")[:_MAX_SEGMENT_CHARACTERS]
        except EvidenceError as error:
            text = Unknown(reason=error.message)
        return Trigger(
            format=segment.format,
            event=segment.event,
            offset_bytes=segment.offset_bytes,
            digest=segment.body.digest,
            text=text,
        )

    def _span(self, first: LifecyclePhase, last: LifecyclePhase) -> int | None:
        if first not in self._phases or last not in self._phases:
            return None
        return self._phases[last] - self._phases[first]

    def _count_alerts(self) -> dict[str, int]:
        counts: Counter[str] = Counter()
        for (_, rule, _, _), count in self._alert_kinds.items():
            counts[rule] += count
        return dict(sorted(counts.items()))

    def facts(self) -> TraceFacts:
        return TraceFacts(
            executions=tuple(self._executions),
            patches=tuple(self._patches),
            terminations=tuple(self._terminations),
            alerts=tuple(self._alerts),
            alert_counts=self._count_alerts(),
            interventions=tuple(self._interventions),
            overflows=tuple(self._overflows[:_MAX_KEPT]),
            history=WorkHistory(
                recent_edits=tuple(self._edits),
                largest_edit=self._largest,
                last_green=self._green,
                first_red_after_green=self._red,
            ),
            event_counts=dict(sorted(self._counts.items())),
            has_briefing="briefing" in self._counts,
            is_ended="seal" in self._phases,
            dropped_events=self._dropped,
            acting_us=self._span("act", "accept"),
            accepting_us=self._span("accept", "seal"),
            tool_us=self._tool_us,
            tool_calls=self._tool_calls,
            test_cycles=self._test_cycles,
        )


def _runs_tests(tool: ToolInvocation) -> bool:
    if tool.command is not None:
        return is_test_command(tool.command.argv)
    return any(is_test_command(text) for text in read_tool_use(tool.tool, _text_of(tool.arguments)).commands)


def _text_of(body: Body) -> str:
    text = getattr(body, "text", "")
    return text if isinstance(text, str) else ""
