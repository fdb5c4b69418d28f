"""The breakers as one fold over a trace: live use and recomputation are the same code (ADR 0012)."""

from __future__ import annotations

from collections.abc import Iterator

from repotrial.policy._breakers._facts import BodyReader, TreeView, read_call, read_inline
from repotrial.policy._breakers._guards import AlertRules, SpendingRules
from repotrial.policy._breakers._model import BREAKERS, Decision
from repotrial.policy._breakers._rules import LoopRules, PaceRules, WorkRules
from repotrial.policy._breakers._thresholds import BreakerSettings
from repotrial.shell import find_installs, load_programs, parse_shell
from repotrial.trace import (
    ByIntervention,
    BySetup,
    Event,
    MonitorAlert,
    PhaseChanged,
    Prompt,
    Response,
    ToolInvocation,
    WorkspaceMutation,
)

_PROGRAM_START = "execve"


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

    def take(self, event: Event) -> Iterator[Decision]:
        """Follow one event."""
        payload = event.payload
        if isinstance(payload, PhaseChanged):
            self._is_acting = payload.phase == "act"
            if self._is_acting:
                self._spending.begin(event.t)
            return
        if not self._is_acting:
            return
        match payload:
            case ToolInvocation(source="sandbox"):
                yield from self._take_program(payload, event)
            case ToolInvocation():
                yield from self._take_call(payload, event)
            case WorkspaceMutation():
                yield from self._take_tree(payload, event)
            case Response():
                self._spending.take_response(payload)
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
        is_milestone = call.result == "passed" and len(self._seen_trees) > 1
        yield from self._spending.take_call(call, is_milestone=is_milestone)
        yield from self._loops.take_call(call)
        yield from self._work.take_call(call)
        yield from self._pace.take_call(call)
        yield from self._take_sign(event)

    def _take_tree(self, mutation: WorkspaceMutation, event: Event) -> Iterator[Decision]:
        before = self._tree.digest
        tree = self._tree.take(mutation, event.seq)
        if isinstance(mutation.cause, BySetup | ByIntervention) or tree.digest == before:
            return
        if tree.digest not in self._seen_trees:
            self._seen_trees.add(tree.digest)
            self._spending.take_milestone(event.seq, event.t)
        self._loops.take_tree()
        self._pace.take_tree()
        yield from self._work.take_tree(tree)

    def _take_program(self, invocation: ToolInvocation, event: Event) -> Iterator[Decision]:
        """Programs that the supervisor saw start: installs that no tool call shows."""
        command = invocation.command
        if invocation.tool != _PROGRAM_START or command is None:
            return
        name = command.argv[0].rpartition("/")[2]
        # A shell's own line is followed by the programs that it starts.
        if name in load_programs().names.shells or name in load_programs().wrappers:
            return
        line = " ".join("'" + word.replace("'", "'\\''") + "'" for word in command.argv[:50])
        installs = find_installs(parse_shell(line))
        yield from self._loops.take_installs(installs, source="programs", seq=event.seq)


def decide(state: BreakerState, event: Event) -> tuple[Decision, ...]:
    """Follow one event of the trace and say what the rules decide at it; the state is changed."""
    return tuple(state.take(event))
