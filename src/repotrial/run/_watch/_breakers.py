"""Carries out what the breakers decide, as events that can be checked against the rules (P12, P19, P20).

Every event of the trace passes by in its order, and a breaker is a pure function of those before. What it
decides is put on record as an alert, then as an intervention that points at it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Protocol, Self, TypeAlias

import msgspec

from repotrial._core.errors import EvidenceError, RepoTrialError
from repotrial._core.words import TerminationCategory
from repotrial.policy import BodyReader, BreakerState, Decision, decide
from repotrial.run._watch._inbox import Answer, Inbox
from repotrial.trace import (
    BlobStore,
    Body,
    Event,
    Intervention,
    InterventionAction,
    Justification,
    OnAlert,
    OnDecision,
    OperatorDecision,
    Pause,
    Quarantine,
    Resume,
    RollBack,
    SuspendWrites,
    Terminate,
    Throttle,
    TraceWriter,
    iter_events,
)

GRACE_SECONDS: Final = 5.0
"""Between the decision to end a run for want of resources and the end of everything inside: agents report."""
_PATIENCE_SECONDS: Final = 60.0
_MOST_PROBLEMS: Final = 100
_MOST_TEXT: Final = 500
_Item: TypeAlias = "Event | _Barrier | None"
_NO_TREE: Final = "sha256:" + "0" * 64


class RunEnding(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to end a run."""

    category: TerminationCategory
    nature: Literal["safety", "resource", "none"]
    code: str
    """Stable kebab-case reason."""
    rationale: str
    evidence: tuple[int, ...] = ()
    """The events that it rests on."""


class EndingSwitch:
    """The first decision counts; after the grace time the sandbox is ended."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end
        self._lock = threading.Lock()
        self._timer: threading.Timer | None = None
        self._is_closed = False
        self.ending: RunEnding | None = None

    def decide(self, ending: RunEnding, *, grace_seconds: float) -> bool:
        """End the run; false if that was decided before."""
        with self._lock:
            if self.ending is not None or self._is_closed:
                return False
            self.ending = ending
            timer = threading.Timer(grace_seconds, self._carry_out)
            timer.daemon = True
            try:
                timer.start()
            except RuntimeError:  # no thread is to be had: without grace rather than not at all
                timer.cancel()
            else:
                self._timer = timer
        if self._timer is None:
            self._carry_out()
        return True

    def _carry_out(self) -> None:
        # The owner of the sandbox closes it, too, and gets the error there.
        with contextlib.suppress(RepoTrialError):
            self._end()

    def close(self) -> None:
        """The agent is done: nothing is left to end."""
        with self._lock:
            self._is_closed = True
            timer = self._timer
        if timer is not None:
            timer.cancel()
            timer.join()


def build_body_reader(blobs: Path) -> BodyReader:
    """Reads a body of a run whose blobs are in this directory; None if its bytes were not kept."""
    store = BlobStore(blobs)

    def read(body: Body) -> str | None:
        try:
            return body.load(store).decode("utf-8", "replace")
        except EvidenceError:
            return None

    return read


class SandboxControls(Protocol):
    """What can be done to a sandbox and its workspace; each says whether it took effect."""

    def freeze(self) -> bool: ...
    def resume(self) -> bool: ...
    def suspend_writes(self, alert: int) -> bool: ...
    def roll_back(self, restore: int | None) -> str | None:
        """Set the workspace back to how it was after an event; the digest of that tree, or None."""
        ...

    def note_restored(self, intervention: int) -> None:
        """Put on record what a roll-back changed."""
        ...

    def set_aside(self) -> str | None:
        """Put what the workspace holds on record; the digest of that tree, or None."""
        ...


class _Barrier:
    def __init__(self) -> None:
        self.passed = threading.Event()


class TraceObserver:
    """Sees every event of a trace from its first: breakers know the past before the agent acts."""

    def __init__(self, writer: TraceWriter, state: BreakerState) -> None:
        self.state = state
        self.queue: queue.SimpleQueue[_Item] = queue.SimpleQueue()
        writer.flush()
        for event in iter_events(writer.paths.trace):
            decide(state, event)
        writer.observe(self.queue.put)


class BreakerExecutor:
    """Watches one run's trace while its agent works, in a thread of its own."""

    def __init__(
        self,
        writer: TraceWriter,
        *,
        observer: TraceObserver,
        switch: EndingSwitch,
        controls: SandboxControls,
        inbox: Inbox,
    ) -> None:
        self._writer = writer
        self._state = observer.state
        self._queue = observer.queue
        self._switch = switch
        self._controls = controls
        self._inbox = inbox
        self._open_again = 0.0
        self._thread = threading.Thread(target=self._watch, name="repotrial-breakers", daemon=True)
        self.problems: list[str] = []

    @property
    def ending(self) -> RunEnding | None:
        """Why the run is to end; None while it goes on."""
        return self._switch.ending

    def settle(self) -> None:
        """Return when everything that is on record by now has been judged and acted upon."""
        if threading.current_thread() is self._thread or not self._thread.is_alive():
            return
        barrier = _Barrier()
        self._queue.put(barrier)
        while not barrier.passed.wait(_PATIENCE_SECONDS) and self._thread.is_alive():
            pass  # an operator may be thinking

    def find_wait_seconds(self) -> float:
        """How long every request has to wait (P24)."""
        return max(0.0, self._open_again - time.monotonic())

    def stop_asking(self) -> None:
        """The agent is done: there is nothing left for a person to decide."""
        self._inbox.close()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_asking()
        self._queue.put(None)
        self._thread.join()
        self._writer.observe(_ignore)

    def _watch(self) -> None:
        while (item := self._queue.get()) is not None:
            if isinstance(item, _Barrier):
                item.passed.set()
                continue
            try:
                for decision in decide(self._state, item):
                    self._carry_out(decision)
            except BaseException as error:  # noqa: BLE001 - a watch that breaks must be known, not silent
                # The thread goes on: a thread in `settle` must not wait for ever.
                self._fail(error)

    def _fail(self, error: BaseException) -> None:
        """Without a watch the run must not go on."""
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.append(f"{type(error).__name__}: {error}"[:_MOST_TEXT])
        self._switch.decide(_build_fault(error), grace_seconds=0)

    def _carry_out(self, decision: Decision) -> None:
        if self.ending is not None:
            return  # the run was told to end: nothing more has to be done
        alert = decision.alert
        if alert is None:
            alert = self._writer.alert(decision.build_alert()).seq
        if decision.action is not None:
            self._intervene(decision, alert)

    def _intervene(self, decision: Decision, alert: int) -> None:
        match decision.action:
            case "throttle":
                wait_us = decision.wait_us or 0
                self._record(Throttle(wait_us=wait_us), alert)
                self._open_again = max(self._open_again, time.monotonic()) + wait_us / 1_000_000
            case "suspend-writes":
                self._record(SuspendWrites(), alert, is_effective=self._controls.suspend_writes(alert))
            case "roll-back":
                self._roll_back(decision, alert)
            case "quarantine":
                is_frozen = self._controls.freeze()
                tree = self._controls.set_aside()
                self._record(Quarantine(tree_digest=tree), alert, is_effective=is_frozen)
            case "pause":
                self._ask(decision, alert)
            case "terminate":
                self._end(decision, alert)
            case None:
                pass

    def _roll_back(self, decision: Decision, alert: int) -> None:
        tree = self._controls.roll_back(decision.restore)
        done = self._record(RollBack(tree_digest=tree or _NO_TREE), alert, is_effective=tree is not None)
        self._controls.note_restored(done)

    def _end(self, decision: Decision, alert: int) -> None:
        ending = decision.ending
        done = self._record(Terminate(), alert)
        self._switch.decide(
            RunEnding(
                category="circuit-breaker" if ending is None else ending.category,
                nature="resource" if ending is None else ending.nature,
                code=decision.rule if ending is None else ending.code,
                rationale=decision.rule if ending is None else ending.rationale,
                evidence=(alert, done),
            ),
            grace_seconds=GRACE_SECONDS if ending is None or ending.nature == "resource" else 0,
        )

    def _ask(self, decision: Decision, alert: int) -> None:
        """Everything stands still until a person has decided, or the time for it is over (P20)."""
        is_frozen = self._controls.freeze()
        pause = self._record(Pause(), alert, is_effective=is_frozen)
        answer = self._inbox.wait()
        if answer is None:
            return
        decided = self._writer.append(_build_decision(answer, pause), actor="operator").seq
        basis = OnDecision(decision=decided)
        if answer.is_allowed:
            is_effective = self._controls.resume()
            self._writer.append(
                Intervention(action=Resume(), basis=basis, effective=is_effective), actor="harness"
            )
            return
        done = self._writer.append(
            Intervention(action=Terminate(), basis=basis, effective=True), actor="harness"
        )
        self._switch.decide(
            RunEnding(
                category="operator-abort",
                nature="safety",
                code=decision.rule,
                rationale=answer.text,
                evidence=(alert, decided, done.seq),
            ),
            grace_seconds=0,
        )

    def _record(self, action: InterventionAction, alert: int, *, is_effective: bool = True) -> int:
        done = Intervention(action=action, basis=OnAlert(alert=alert), effective=is_effective)
        return self._writer.append(done, actor="harness").seq


def _build_decision(answer: Answer, pause: int) -> OperatorDecision:
    return OperatorDecision(
        operator=answer.operator,
        decision="resume" if answer.is_allowed else "abort",
        answers=pause,
        justification=Justification(reason=answer.reason, text=answer.text, evidence=(pause,)),
    )


def _build_fault(error: BaseException) -> RunEnding:
    return RunEnding(
        category="harness-fault",
        nature="none",
        code="overseer-failed",
        rationale=f"the watch over the run failed: {type(error).__name__}: {error}"[:_MOST_TEXT],
    )


def _ignore(_: Event) -> None:
    """The observer of a trace whose agent is done."""
