"""The breakers as one fold over a trace, live and recomputed by the same code (P19, ADR 0012)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal, TypeAlias

import msgspec

from repotrial._core.canonical import Count
from repotrial.policy._breaker_facts import (
    BREAKERS,
    BodyReader,
    CallFacts,
    Decision,
    TreeView,
    read_call,
    read_inline,
)
from repotrial.policy._breaker_guards import AlertRules, SpendingRules
from repotrial.policy._breaker_rules import LoopRules, PaceRules, WorkRules
from repotrial.policy._joined_calls import JoinedCall, join_calls
from repotrial.policy._program_tree import ProgramTree
from repotrial.policy._thresholds import BreakerSettings
from repotrial.shell import find_installs, load_programs, parse_shell
from repotrial.trace import (
    ByIntervention,
    BySetup,
    Event,
    Intervention,
    MonitorAlert,
    OnAlert,
    OperatorDecision,
    PhaseChanged,
    ProgramStart,
    Prompt,
    Response,
    TimedOut,
    ToolInvocation,
    WorkspaceMutation,
)

_PROGRAM_START = "execve"
"""The tool under which runs of the first release recorded program starts."""
_WITH_PROGRAMS = 2
"""From this version on, calls are read together with the programs that ran for them."""
_CHECKS_ARE_MILESTONES = 3
"""From this version on, a milestone is a check that passes and did not before (B15)."""


class BreakerState:
    """What the breakers remember of a run; changed by `decide` alone."""

    def __init__(self, settings: BreakerSettings, *, read: BodyReader = read_inline) -> None:
        self.settings = settings
        self._read = read
        self._tree = TreeView()
        self._loops = LoopRules(settings)
        self._work = WorkRules(settings)
        self._pace = PaceRules(settings)
        self._spending = SpendingRules(settings)
        self._alerts = AlertRules(settings)
        self._seen_trees = {self._tree.digest}
        self._is_acting = False
        self._programs = ProgramTree() if settings.thresholds.rules >= _WITH_PROGRAMS else None
        self._takes_trees = settings.thresholds.rules < _CHECKS_ARE_MILESTONES
        self._passing: set[str] = set()

    @property
    def failed_checks(self) -> int:
        """Failing checks of the agent so far."""
        return self._work.failed

    def take(self, event: Event) -> Iterator[Decision]:
        """Follow one event."""
        if self._programs is not None:
            self._programs.take(event)
        if isinstance(event.payload, PhaseChanged):
            self._is_acting = event.payload.phase == "act"
            if self._is_acting:
                self._spending.begin(event.t)
        elif self._is_acting:
            yield from self._take_work(event)

    def _take_work(self, event: Event) -> Iterator[Decision]:
        payload = event.payload
        match payload:
            case ProgramStart() | ToolInvocation(source="sandbox"):
                yield from self._take_program(_find_started(payload), event)
            case ToolInvocation():
                yield from self._take_call(payload, event)
            case WorkspaceMutation():
                yield from self._take_tree(payload, event)
            case Response():
                self._spending.take_response(payload)
                yield from self._loops.take_turn(payload.tool_calls, event.seq)
                yield from self._take_sign(event)
            case Prompt():
                yield from self._take_sign(event)
            case MonitorAlert(monitor=monitor) if monitor != BREAKERS:
                yield from self._alerts.take(payload, event.seq, self._spending.fired)
            case _:
                return

    def _take_sign(self, event: Event) -> Iterator[Decision]:
        yield from self._pace.take_sign(event.seq, event.t)
        yield from self._spending.judge(event.seq, event.t)

    def _take_call(self, invocation: ToolInvocation, event: Event) -> Iterator[Decision]:
        call = read_call(invocation, seq=event.seq, at_us=event.t, read=self._read)
        if self._programs is not None:
            (joined,) = join_calls((call,), self._programs)
            call = _correct(call, joined)
        yield from self._spending.take_call(call, is_milestone=self._is_milestone(call))
        yield from self._loops.take_call(call)
        yield from self._work.take_call(call)
        yield from self._pace.take_call(call)
        yield from self._take_sign(event)

    def _is_milestone(self, call: CallFacts) -> bool:
        """Whether a check passes on a changed tree; from version 3 on, one that did not pass before."""
        if call.result == "failed":
            self._passing.discard(call.identity)
        if call.result != "passed":
            return False
        is_new = call.identity not in self._passing
        self._passing.add(call.identity)
        return len(self._seen_trees) > 1 and (is_new or self._takes_trees)

    def _take_tree(self, mutation: WorkspaceMutation, event: Event) -> Iterator[Decision]:
        before = self._tree.digest
        tree = self._tree.take(mutation, event.seq)
        if isinstance(mutation.cause, BySetup | ByIntervention) or tree.digest == before:
            return
        if tree.digest not in self._seen_trees:
            self._seen_trees.add(tree.digest)
            if self._takes_trees:
                self._spending.take_milestone(event.seq, event.t)
        self._loops.take_tree()
        self._pace.take_tree()
        yield from self._work.take_tree(tree)

    def _take_program(self, argv: tuple[str, ...], event: Event) -> Iterator[Decision]:
        """Programs that the witness saw start: installs that no tool call shows."""
        if not argv:
            return
        name = argv[0].rpartition("/")[2]
        # A shell's own line is followed by the programs that it starts.
        if name in load_programs().names.shells or name in load_programs().wrappers:
            return
        line = " ".join("'" + word.replace("'", "'\\''") + "'" for word in argv[:50])
        installs = find_installs(parse_shell(line))
        yield from self._loops.take_installs(installs, source="programs", seq=event.seq)


def _correct(call: CallFacts, joined: JoinedCall) -> CallFacts:
    """A call as its programs tell it; those that may be another call's say nothing."""
    if joined.basis != "words":
        return call
    is_over = call.is_over_ceiling or isinstance(joined.exit, TimedOut)
    return msgspec.structs.replace(
        call, result=joined.checks, wall_us=joined.wall_us, is_over_ceiling=is_over
    )


def _find_started(payload: ProgramStart | ToolInvocation) -> tuple[str, ...]:
    """The words of a program that started; none where the event is about something else."""
    if isinstance(payload, ProgramStart):
        return payload.argv
    if payload.tool != _PROGRAM_START or payload.command is None:
        return ()
    return payload.command.argv


def decide(state: BreakerState, event: Event) -> tuple[Decision, ...]:
    """Follow one event of the trace and say what the rules decide at it; the state is changed."""
    return tuple(state.take(event))


RecomputedStatus: TypeAlias = Literal[
    "agrees", "alert-missing", "alert-extra", "intervention-missing", "intervention-extra", "after-end"
]
"""`after-end`: the rules decide something after the run was told to end, and nothing had to be done."""


class Recomputed(msgspec.Struct, frozen=True, kw_only=True):
    """A decision of the rules, a record of the trace, or both."""

    status: RecomputedStatus
    """Whether the two agree."""
    rule: str
    """Which rule."""
    decision: Decision | None = None
    """What the rules decide; None if only the trace says so."""
    alert: Count | None = None
    """The alert on record."""
    intervention: Count | None = None
    """The intervention on record."""

    @property
    def is_agreed(self) -> bool:
        return self.status in {"agrees", "after-end"}


class _Record:
    """Alerts of breakers and interventions on any alert, as a trace has them."""

    def __init__(self) -> None:
        self.alerts: list[tuple[int, MonitorAlert]] = []
        self.interventions: dict[int, list[tuple[int, str]]] = {}
        self.aborted: set[int] = set()
        self.abort_seq: int | None = None
        self.rules: dict[int, str] = {}
        self.monitors: dict[int, str] = {}

    def take(self, event: Event) -> None:
        match event.payload:
            case MonitorAlert() as alert:
                self.rules[event.seq] = alert.rule
                self.monitors[event.seq] = alert.monitor
                if alert.monitor == BREAKERS:
                    self.alerts.append((event.seq, alert))
            case Intervention(basis=OnAlert(alert=basis), action=action):
                kind = str(action.__struct_config__.tag)
                self.interventions.setdefault(basis, []).append((event.seq, kind))
            case OperatorDecision(decision="abort", answers=answers):
                if answers is not None:
                    self.aborted.add(answers)
                elif self.abort_seq is None:
                    self.abort_seq = event.seq
            case _:
                pass

    def is_ended_by(self, found: Recomputed) -> bool:
        """Whether nothing more had to be done after a decision: it ended the run, or a person did."""
        decision = found.decision
        ends = decision is not None and decision.action == "terminate"
        return ends or (found.intervention is not None and found.intervention in self.aborted)

    def find_alert(self, decision: Decision) -> int | None:
        """Take the alert that says the same."""
        for index, (seq, alert) in enumerate(self.alerts):
            # The stage is a fact of the moment, which no rule decides.
            if seq > decision.at and msgspec.structs.replace(alert, stage=None) == decision.build_alert():
                del self.alerts[index]
                return seq
        return None

    def find_intervention(self, alert: int, kind: str) -> int | None:
        """Take an intervention of a kind on an alert."""
        for index, (seq, found) in enumerate(self.interventions.get(alert, [])):
            if found == kind:
                del self.interventions[alert][index]
                return seq
        return None


def recompute_decisions(
    events: Iterable[Event], settings: BreakerSettings, *, read: BodyReader = read_inline
) -> tuple[Recomputed, ...]:
    """Derive every decision anew: each alert and intervention of a breaker is among them, none beside."""
    record = _Record()
    state = BreakerState(settings, read=read)
    decisions: list[Decision] = []
    for event in events:
        record.take(event)
        decisions.extend(decide(state, event))
    found: list[Recomputed] = []
    has_ended = False
    for decision in decisions:
        is_late = record.abort_seq is not None and decision.at > record.abort_seq
        compared = _compare(decision, record, has_ended=has_ended or is_late)
        found.append(compared)
        has_ended = has_ended or record.is_ended_by(compared)
    found.extend(_list_rest(record))
    return tuple(found)


def _compare(decision: Decision, record: _Record, *, has_ended: bool) -> Recomputed:
    alert = decision.alert if decision.alert is not None else record.find_alert(decision)
    if alert is None:
        status: RecomputedStatus = "after-end" if has_ended else "alert-missing"
        return Recomputed(status=status, rule=decision.rule, decision=decision)
    intervention = None
    if decision.action is not None:
        intervention = record.find_intervention(alert, decision.action)
        if intervention is None:
            status = "after-end" if has_ended else "intervention-missing"
            return Recomputed(status=status, rule=decision.rule, decision=decision, alert=alert)
    return Recomputed(
        status="agrees", rule=decision.rule, decision=decision, alert=alert, intervention=intervention
    )


def _list_rest(record: _Record) -> list[Recomputed]:
    """What the trace has and the rules do not."""
    rest = [Recomputed(status="alert-extra", rule=alert.rule, alert=seq) for seq, alert in record.alerts]
    for alert, interventions in record.interventions.items():
        if record.monitors.get(alert) == BREAKERS:
            rest += [
                Recomputed(
                    status="intervention-extra",
                    rule=record.rules.get(alert, "unknown"),
                    alert=alert,
                    intervention=seq,
                )
                for seq, kind in interventions
                if kind != "resume"
            ]
    return rest
