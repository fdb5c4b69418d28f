"""What a record from opening to seal must hold (P15, Q5, Q8): each kind of event, by name.

Each rule compares two things that come from different places in the harness, so that an event that was not
written is missed by name. They hold for runs whose first event undertakes to meet them; older runs do not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from repotrial._core.absence import Unknown
from repotrial._core.digest import Digest, digest_bytes
from repotrial._core.errors import EvidenceError
from repotrial._core.words import LifecyclePhase
from repotrial.trace._demands_programs import ProgramDemands
from repotrial.trace._event import Event
from repotrial.trace._files import open_regular
from repotrial.trace._manifest import Manifest
from repotrial.trace._net_change import NetChange
from repotrial.trace._payloads.actions import (
    AgentTranscript,
    Prompt,
    Response,
    ToolInvocation,
    WorkspaceMutation,
)
from repotrial.trace._payloads.checks import AcceptanceExecution, BuildCheck, PatchApplication, StaticCheck
from repotrial.trace._payloads.common import NotStarted
from repotrial.trace._payloads.course import (
    Briefing,
    Enforced,
    Intervention,
    MonitorAlert,
    OnAlert,
    OperatorDecision,
    PhaseChanged,
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
from repotrial.trace._rundir import RunPaths

_OF_AGENT: frozenset[LifecyclePhase] = frozenset({"act"})


WITNESSED = 3
"""From these rules on, programs, witnesses and what was handed in are demanded as well."""


class Demands:
    """Walks the events once, then says what is missing.

    Args:
        rules: Which the record undertakes to meet.
    """

    def __init__(self, rules: int) -> None:
        self._programs = ProgramDemands() if rules >= WITNESSED else None
        self._counts: Counter[str] = Counter()
        self._phases: set[LifecyclePhase] = set()
        self._net = NetChange()
        self._taken: list[ChangeTaken] = []
        self._steps: set[int] = set()
        self._drawn: set[str] = set()
        self._revealed: set[str] = set()
        self._starts: dict[int, Counter[str]] = {}
        """By the report with which monitors began: what they had counted until then."""
        self._seen: Counter[str] = Counter()
        self._watched: Counter[str] = Counter()
        self._ended: set[LifecyclePhase] = set()
        self._has_watched_agent = False
        self._prompts: set[int] = set()
        self._tools: dict[int, Digest] = {}
        """By event: digest of what it was called with."""
        self._interventions: set[int] = set()
        self._alerts: set[int] = set()
        self._decisions: set[int] = set()
        self._open_endings = 0
        self._termination: Termination | None = None
        self._is_truncated = False

    def take(self, event: Event) -> Iterator[str]:
        """One event; what it shows to be missing before it."""
        self._counts[event.type] += 1
        if self._programs is not None:
            missing = self._programs.take(event)
            yield from missing if not self._is_truncated else ()
        match event.payload:
            case PhaseChanged(phase=phase):
                self._phases.add(phase)
            case WorkspaceMutation(changes=changes):
                for change in changes:
                    self._net.take(change)
            case ChangeTaken() as taken:
                self._taken.append(taken)
            case HarnessExecution(purpose="set-up", step=int(step)):
                self._steps.add(step)
            case DrawRevealed(check_id=check_id):
                self._revealed.add(check_id)
            case BuildCheck() | StaticCheck() | AcceptanceExecution() as check:
                yield from self._take_check(check)
            case MonitorReport() as report:
                yield from self._take_report(report, event.seq)
            case _:
                yield from self._take_course(event)

    def _take_course(self, event: Event) -> Iterator[str]:
        match event.payload:
            case MonitorAlert(monitor=monitor):
                self._alerts.add(event.seq)
                self._seen[monitor] += 1
            case StageTransition(status=Enforced()):
                self._seen[event.type] += 1
            case AgentTranscript():
                self._seen[event.type] += 1
            case Intervention(basis=basis):
                self._interventions.add(event.seq)
                self._open_endings += 1 if isinstance(basis, OnAlert) else 0
            case OperatorDecision():
                self._decisions.add(event.seq)
            case ToolInvocation(arguments=arguments):
                self._tools[event.seq] = arguments.digest
            case Prompt() | Response() as said:
                yield from self._take_dialogue(said, event.seq)
            case Termination() as termination:
                self._termination = termination
                yield from self._check_termination(termination)
            case TraceTruncated():
                self._is_truncated = True
            case _:
                pass

    def _take_dialogue(self, said: Prompt | Response, seq: int) -> Iterator[str]:
        if isinstance(said, Prompt):
            self._prompts.add(seq)
        elif said.prompt is not None and said.prompt not in self._prompts:
            yield f"expected event {said.prompt} to be the prompt that this response answers, found none"

    def _take_report(self, report: MonitorReport, seq: int) -> Iterator[str]:
        if self._programs is not None:
            self._seen[_WITNESSES] = self._programs.reports[report.phase]
        if report.moment == "start":
            self._starts[seq] = self._seen.copy()
            return
        before = self._starts.pop(report.begun, None) if report.begun is not None else None
        if before is None:
            yield "expected monitor-report at the start of what monitors report the end of, found none"
            return
        self._ended.add(report.phase)
        is_seen = self._programs is None or self._seen[_WITNESSES] > before[_WITNESSES]
        if not is_seen and any(state.watches and state.monitor == _CALLS for state in report.monitors):
            yield f"expected witness-report at the start and the end of {report.phase}, found none"
        if report.check_id is not None:
            self._watched[report.check_id] += 1
        for state in report.monitors:
            if report.phase in _OF_AGENT and state.watches:
                self._has_watched_agent = True
            found = self._seen[state.monitor] - before[state.monitor]
            if state.alerts is not None and found < state.alerts and not self._is_truncated:
                is_own = state.monitor in (StageTransition.event_type, AgentTranscript.event_type)
                kind = state.monitor if is_own else f"monitor-alert of {state.monitor}"
                yield f"expected events of {kind}: {state.alerts}, found {found}"

    def _take_check(self, check: BuildCheck | StaticCheck | AcceptanceExecution) -> Iterator[str]:
        if isinstance(check, AcceptanceExecution) and check.variant == "twins":
            self._drawn.add(check.check_id)
        if isinstance(check.exit, NotStarted) and not check.runners:
            return
        if not check.runners:
            yield f"check {check.check_id}: expected the evidence of its commands, found none"
        if not self._watched.pop(check.check_id, 0):
            yield f"check {check.check_id}: expected monitor-report at its start and end, found none"
        ended = sum(runner.cause not in ("ended", "sandbox-lost") for runner in check.runners)
        if self._open_endings < ended:
            text = "expected an intervention for each command that was ended, found none"
            yield f"check {check.check_id}: {text}"
        self._open_endings = 0

    def _check_termination(self, termination: Termination) -> Iterator[str]:
        signs = self._alerts | self._interventions | self._decisions
        for seq in termination.evidence:
            if seq not in signs:
                yield f"expected event {seq} to be an alert, an intervention or a decision, found another"
        if termination.category in ("circuit-breaker", "run-timeout") and not (
            self._interventions & {*termination.evidence}
        ):
            yield f"expected the intervention that led to {termination.category}, found none"
        self._open_endings = 0

    def iter_missing(
        self, paths: RunPaths, manifest: Manifest | None, *, gone: frozenset[str] = frozenset()
    ) -> Iterator[str]:
        """What the whole of it lacks, but for files that are accounted for."""
        if self._counts[ManifestBound.event_type] != 1:
            found = self._counts[ManifestBound.event_type]
            yield f"expected one manifest-bound event, found {found}"
        yield from self._iter_missing_phases()
        if "brief" in self._phases and self._counts[Briefing.event_type] != 1:
            yield f"expected one briefing event, found {self._counts[Briefing.event_type]}"
        yield from self._iter_missing_steps(manifest)
        yield from self._iter_missing_of_acting()
        if "accept" in self._phases:
            yield from self._iter_missing_of_change(paths, is_gone=paths.change.name in gone)
            if self._counts[PatchApplication.event_type] != 1:
                found = self._counts[PatchApplication.event_type]
                yield f"expected one patch-application event, found {found}"
            for check_id in sorted(self._drawn - self._revealed):
                yield f"check {check_id}: expected draw-revealed after its twins, found none"
        if self._programs is not None:
            yield from self._programs.iter_missing(is_truncated=self._is_truncated)
        if self._starts:
            yield "expected monitor-report at the end of what monitors began to watch, found none"

    def _iter_missing_phases(self) -> Iterator[str]:
        wanted: tuple[LifecyclePhase, ...] = ("bind", "seal")
        termination = self._termination
        if termination is not None and termination.category not in ("harness-fault", "operator-abort"):
            wanted = ("bind", "set-up", "brief", "act", "accept", "seal")
        for phase in wanted:
            if phase not in self._phases:
                yield f"expected a phase-changed event into {phase}, found none"

    def _iter_missing_steps(self, manifest: Manifest | None) -> Iterator[str]:
        if manifest is None or isinstance(manifest.harness.entry_points.install, Unknown):
            return
        if "brief" not in self._phases:
            return
        for step in range(len(manifest.harness.entry_points.install)):
            if step not in self._steps:
                yield f"expected a harness-execution event of step {step} of Setup, found none"

    def _iter_missing_of_acting(self) -> Iterator[str]:
        if "accept" in self._phases and "act" not in self._ended:
            yield "expected monitor-report at the start and the end of acting, found none"
        if self._is_truncated:
            return  # the byte budget may have dropped any of the others, and says how many
        if self._has_watched_agent and not self._counts[ToolInvocation.event_type]:
            yield "expected a tool-invocation event of the agent's own program, found none"
        signals = {} if self._termination is None else {s.name: s.value for s in self._termination.signals}
        has_asked = signals.get("tokens", 0) not in (0, "0")
        for kind in (Prompt.event_type, Response.event_type) if has_asked else ():
            if not self._counts[kind]:
                yield f"expected {kind} events of the tokens that were consumed, found none"

    def _compare_handed_in(self, taken: ChangeTaken, seq: int) -> Iterator[str]:
        given = self._tools.get(seq)
        if given is None:
            yield f"expected event {seq} to be the tool-invocation that handed it in, found none"
        elif self._programs is not None and given != (taken.restated_from or taken.patch_digest):
            yield f"event {seq}: expected the change that was taken to be what was handed in, found another"

    def _iter_missing_of_change(self, paths: RunPaths, *, is_gone: bool) -> Iterator[str]:
        if len(self._taken) != 1:
            yield f"expected one change-taken event, found {len(self._taken)}"
            return
        taken = self._taken[0]
        try:
            found = taken.patch_digest if is_gone else _digest_change(paths, taken)
        except EvidenceError as error:
            yield error.message
            return
        if found != taken.patch_digest:
            yield f"{paths.change.name}: expected {taken.patch_digest} as in change-taken, found {found}"
        if taken.handed_in is not None:
            yield from self._compare_handed_in(taken, taken.handed_in)
        if taken.handed_in is None:
            yield from (f"workspace-mutation: {text}" for text in self._net.iter_differences(taken))


_WITNESSES = "witness-report"
_CALLS = "system-calls"
"""The monitor that is told by what witnesses programs, too."""


def _digest_change(paths: RunPaths, taken: ChangeTaken) -> Digest:
    with open_regular(paths.change) as stream:
        return digest_bytes(stream.read(taken.patch_bytes + 1))
