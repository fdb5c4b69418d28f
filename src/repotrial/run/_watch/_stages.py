"""Staged privileges (P7): the rule decides, the sandbox enforces, then it is on record."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Final

from repotrial._core.errors import RepoTrialError
from repotrial._core.words import Stage
from repotrial.isolation import Sandbox
from repotrial.trace import Enforced, Refused, Requested, Signal, StageTransition, TraceWriter

ORDER: Final[tuple[Stage, ...]] = ("read", "write", "test")
"""Privileges grow in this order and are taken back only by an intervention."""

_MECHANISMS: Final[dict[Stage, str]] = {"read": "mount-flip", "write": "mount-flip", "test": "tool-unmask"}


class StageKeeper:
    """The stage of one sandbox. Safe from every thread."""

    def __init__(self, writer: TraceWriter, sandbox: Sandbox, *, stage: Stage) -> None:
        self._writer = writer
        self._sandbox = sandbox
        self._lock = threading.Lock()
        self._stage: Stage = stage
        self._most: Stage = "test"

    @property
    def stage(self) -> Stage:
        return self._stage

    def advance(self, wanted: Stage, *, evidence: Sequence[int] = (), signals: Sequence[Signal] = ()) -> bool:
        """Go up to a stage, step by step; false where it was refused. What is reached already stays."""
        with self._lock:
            while ORDER.index(self._stage) < ORDER.index(wanted):
                following = ORDER[ORDER.index(self._stage) + 1]
                if not self._switch(following, tuple(evidence), tuple(signals)):
                    return False
        return True

    def suspend(self, *, evidence: Sequence[int] = ()) -> bool:
        """Take writing away, for good (P19)."""
        with self._lock:
            self._most = "read"
            return self._stage == "read" or self._switch("read", tuple(evidence), ())

    def _switch(self, after: Stage, evidence: tuple[int, ...], signals: tuple[Signal, ...]) -> bool:
        before = self._stage

        def record(status: Requested | Enforced | Refused) -> None:
            transition = StageTransition(
                before=before, after=after, status=status, evidence=evidence, signals=signals
            )
            self._writer.append(transition, actor="harness")

        record(Requested())
        if ORDER.index(after) > ORDER.index(self._most):
            record(Refused(reason="writes-suspended"))
            return False
        started_ns = time.monotonic_ns()
        try:
            self._sandbox.enter_stage(after)
        except RepoTrialError as error:
            record(Refused(reason=error.code))
            return False
        took_us = (time.monotonic_ns() - started_ns) // 1000
        self._stage = after
        record(Enforced(mechanism=_MECHANISMS[after], took_us=took_us))
        return True
