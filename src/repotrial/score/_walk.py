"""One pass over a trace that keeps what verdicts need: memory grows with checks and alerts, not with work."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator

import msgspec

from repotrial._core.absence import Unknown
from repotrial._core.digest import digest_bytes
from repotrial._core.errors import EvidenceError
from repotrial._core.words import LifecyclePhase
from repotrial.judging import Supply, judge_supply
from repotrial.policy import POLICY, check_deed
from repotrial.score._evidence import (
    Alert,
    EditDiff,
    MonitorWatch,
    NumberedIntervention,
    NumberedPatch,
    NumberedTermination,
    ScoredExecution,
    StreamPointer,
    TestReport,
    TraceFacts,
    Trigger,
    WorkHistory,
    WorkspaceEdit,
)
from repotrial.score._fragments import FRAGMENTS, find_fragments
from repotrial.score._programs import WRITES_COUNT, ProgramFold
from repotrial.score._provider_walk import PROVIDER, ProviderWalk
from repotrial.score._taxonomy import find_mode, log_patterns
from repotrial.score._work import WorkFold
from repotrial.trace import (
    AcceptanceExecution,
    BlobRef,
    BlobStore,
    Body,
    BuildCheck,
    Event,
    ExitStatus,
    FileChange,
    Intervention,
    MonitorAlert,
    MonitorReport,
    Output,
    Passed,
    PatchApplication,
    PatchContent,
    PhaseChanged,
    ProgramStart,
    Response,
    RunOpened,
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
_DIFFS_SHOWN = 5
_DIFF_CHARACTERS = 2000
_MAX_NAMES = 100


def collect_facts(events: Iterable[Event], blobs: BlobStore, *, places: tuple[str, ...] = ()) -> TraceFacts:
    """Walk the events once.

    Args:
        events: All of them, in their order.
        blobs: Where long bodies are.
        places: What the contract gives to write in.

    Raises:
        EvidenceError: a line is not an event.
    """
    walk = _Walk(blobs, places)
    for event in events:
        walk.take(event)
    return walk.facts()


class _Walk:
    def __init__(self, blobs: BlobStore, places: tuple[str, ...]) -> None:
        self._blobs = blobs
        self._given = places
        self._places: tuple[str, ...] = ()
        self._executions: list[ScoredExecution] = []
        self._patches: list[NumberedPatch] = []
        self._terminations: list[NumberedTermination] = []
        self._alerts: list[Alert] = []
        self._interventions: list[NumberedIntervention] = []
        self._overflows: list[int] = []
        self._must_report = self._keeps_fragments = False
        self._fragments: dict[int, tuple[StreamPointer, ...]] = {}
        self._begun: set[int] = set()
        self._watches: list[MonitorWatch] = []
        self._alert_kinds: Counter[tuple[str, str, str, str]] = Counter()
        self._deeds: dict[tuple[str, int], Alert] = {}
        self._counts: Counter[str] = Counter()
        self._phases: dict[LifecyclePhase, int] = {}
        self._dropped = 0
        self._work = WorkFold(blobs)
        self._programs = ProgramFold(places)
        self._edits: deque[WorkspaceEdit] = deque(maxlen=_RECENT_EDITS)
        self._edited: deque[tuple[FileChange, ...]] = deque(maxlen=_RECENT_EDITS)
        self._largest: WorkspaceEdit | None = None
        self._provider = ProviderWalk()
        self._program_exit: ExitStatus | None = None
        self._program_supply: Supply = "unclear"
        mode = find_mode("context-overflow")
        self._full = frozenset(mode.signature.stop_reasons if mode is not None else ())

    def take(self, event: Event) -> None:
        self._counts[event.type] += 1
        self._work.take(event)
        self._programs.take(event)
        if self._keeps_fragments:
            self._take_fragments(event)
        match event.payload:
            case AcceptanceExecution() | BuildCheck() | StaticCheck() as check:
                self._executions.append(self._build_execution(check, event.seq))
            case PatchApplication() as patch:
                self._patches.append(NumberedPatch(seq=event.seq, event=patch))
            case Termination() as termination:
                self._terminations.append(NumberedTermination(seq=event.seq, event=termination))
            case PhaseChanged(phase=phase):
                self._phases[phase] = event.t
            case RunOpened(completeness_rules=rules, policy_rules=policy):
                self._must_report = rules > 1
                self._keeps_fragments = rules >= FRAGMENTS
                self._places = self._given if policy >= WRITES_COUNT else ()
            case MonitorReport() as report:
                self._take_report(report, event.seq)
            case TraceTruncated(dropped=dropped):
                self._dropped = sum(item.events for item in dropped)
            case _:
                self._take_work(event)

    def _take_fragments(self, event: Event) -> None:
        # A flood of alerts must not hide what a check printed.
        is_alert = isinstance(event.payload, MonitorAlert)
        if is_alert and len(self._fragments) >= _MAX_ALERTS_OF_KIND:
            return
        if found := find_fragments(event, self._blobs):
            self._fragments[event.seq] = found

    def _take_work(self, event: Event) -> None:
        match event.payload:
            case MonitorAlert() as alert:
                self._take_alert(alert, event.seq)
                if alert.monitor == PROVIDER:
                    self._provider.take_alert(event, alert)
            case Intervention() as intervention if len(self._interventions) < _MAX_KEPT:
                self._interventions.append(NumberedIntervention(seq=event.seq, event=intervention))
            case Response() as response:
                self._provider.take_response(event, response)
                if response.stop_reason in self._full:
                    self._overflows.append(event.seq)
            case ToolInvocation(source="sandbox", stdout=Output()) as started:
                self._program_exit = started.exit
                self._program_supply = judge_supply([started.pressure])
            case ProgramStart(phase="act" | "accept") as program:
                self._take_program(program, event.seq)
            case WorkspaceMutation(changes=changes):
                self._take_edit(changes, event.seq)
            case _:
                return

    def _take_alert(self, alert: MonitorAlert, seq: int) -> None:
        # Of every kind some are kept: a flood of one must not hide another.
        kind = (alert.monitor, alert.rule, alert.severity, alert.phase)
        self._alert_kinds[kind] += 1
        if self._alert_kinds[kind] <= _MAX_ALERTS_OF_KIND:
            self._alerts.append(self._build_alert(alert, seq))

    def _take_program(self, program: ProgramStart, seq: int) -> None:
        """P18: what ran counts whether or not a monitor said so at the time."""
        exe = (*program.copies, program.exe)[0]
        for finding in check_deed(program.argv, cwd=program.cwd, exe=exe, places=self._places):
            if len(self._deeds) < _MAX_KEPT:
                trigger = Trigger(
                    format=finding.format,
                    event=seq,
                    offset_bytes=None,
                    digest=digest_bytes(finding.segment.encode("utf-8", "surrogatepass")),
                    text=finding.segment,
                )
                self._deeds[finding.rule, seq] = Alert(
                    seq=seq,
                    monitor=POLICY,
                    rule=finding.rule,
                    severity=finding.severity,
                    phase=program.phase,
                    evidence=(seq,),
                    trigger=trigger,
                    type=program.event_type,
                )

    def _list_alerts(self) -> tuple[Alert, ...]:
        """Alerts on record, and deeds that none of them is about."""
        told = {
            (alert.rule, seq) for alert in self._alerts if alert.monitor == POLICY for seq in alert.evidence
        }
        untold = [deed for key, deed in self._deeds.items() if key not in told]
        return tuple(sorted([*self._alerts, *untold], key=lambda alert: alert.seq))

    def _take_report(self, report: MonitorReport, seq: int) -> None:
        if report.moment == "start":
            self._begun.add(seq)
        elif report.begun in self._begun and len(self._watches) < _MAX_KEPT:
            blind = tuple(f"{each.monitor}: {each.reason}" for each in report.monitors if not each.watches)
            self._watches.append(
                MonitorWatch(seq=seq, phase=report.phase, check_id=report.check_id, blind=blind)
            )

    def _take_edit(self, changes: tuple[FileChange, ...], seq: int) -> None:
        if "act" not in self._phases or "accept" in self._phases:
            return
        paths = sorted(change.path for change in changes)
        self._edited.append(changes[:_DIFFS_SHOWN])
        edit = WorkspaceEdit(
            seq=seq,
            paths=tuple(paths[:_PATHS_SHOWN]),
            path_count=len(paths),
            last_green=self._work.last_green,
        )
        self._edits.append(edit)
        if self._largest is None or edit.path_count > self._largest.path_count:
            self._largest = edit

    def _build_execution(
        self, check: AcceptanceExecution | BuildCheck | StaticCheck, seq: int
    ) -> ScoredExecution:
        # A wrong expectation may ask for a name that is nowhere.
        is_doubt = isinstance(check, AcceptanceExecution) and check.variant == "twins"
        needs_names = check.subject == "candidate" and not is_doubt and not isinstance(check.outcome, Passed)
        execution = ScoredExecution(
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
            supply=judge_supply(runner.pressure for runner in check.runners),
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

    def _read_diff(self, change: FileChange) -> EditDiff:
        content = getattr(change, "content", None)
        text = f"({change.__struct_config__.tag})"
        if isinstance(content, PatchContent):
            try:
                text = content.patch.load(self._blobs).decode("utf-8", "replace")
            except EvidenceError as error:
                text = f"(not kept: {error.code})"
        elif content is not None:
            text = f"({change.__struct_config__.tag}, {content.__struct_config__.tag})"
        return EditDiff(path=change.path, text=text[:_DIFF_CHARACTERS], is_cut=len(text) > _DIFF_CHARACTERS)

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
            alerts=self._list_alerts(),
            must_report=self._must_report,
            watches=tuple(self._watches),
            alert_counts=self._count_alerts(),
            interventions=tuple(self._interventions),
            provider=self._provider.build(),
            program_exit=self._program_exit,
            program_supply=self._program_supply,
            overflows=tuple(self._overflows[:_MAX_KEPT]),
            history=WorkHistory(
                recent_edits=tuple(
                    msgspec.structs.replace(edit, diffs=tuple(map(self._read_diff, changes)))
                    for edit, changes in zip(self._edits, self._edited, strict=True)
                ),
                largest_edit=self._largest,
            ),
            event_counts=dict(sorted(self._counts.items())),
            has_briefing="briefing" in self._counts,
            is_ended="seal" in self._phases,
            dropped_events=self._dropped,
            acting_us=self._span("act", "accept"),
            accepting_us=self._span("accept", "seal"),
            work=self._work.build(),
            programs=self._programs.facts(),
            fragments=self._fragments,
        )
