"""The lifecycle of a run (P1): bind → set up → brief → act → accept → seal, in this order and no other."""

from __future__ import annotations

from typing import Final

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.words import LifecyclePhase
from repotrial.run._progress import RunListener
from repotrial.trace import PhaseChanged, Termination, TraceWriter

PHASES: Final[tuple[LifecyclePhase, ...]] = ("bind", "set-up", "brief", "act", "accept", "seal")


PHASE_ORDER = ErrorCode(
    "phase-order",
    UsageError,
    "A phase was entered out of order.",
    hint="enter the phases of a run in order: bind, set-up, brief, act, accept, seal",
)


class Lifecycle:
    """Where a run is. A phase may be left out only for sealing: a run that broke is sealed as it is."""

    def __init__(self, writer: TraceWriter, listener: RunListener) -> None:
        self._writer = writer
        self._listener = listener
        self.phase: LifecyclePhase | None = None
        self.has_termination = False

    def terminate(self, termination: Termination) -> None:
        """Say how acting ended; only once."""
        self._writer.append(termination, actor="harness")
        self.has_termination = True

    def enter(self, phase: LifecyclePhase) -> None:
        """Go on to a phase; the trace has it on disk before anything of the phase happens.

        Raises:
            PHASE_ORDER: it is not the next one.
        """
        expected = PHASES[0] if self.phase is None else _find_next(self.phase)
        if phase not in (expected, "seal"):
            raise PHASE_ORDER.error(f"expected the phase {expected or 'none'}, found {phase}")
        if self.phase == "seal":
            raise PHASE_ORDER.error(f"expected nothing after sealing, found {phase}")
        self._writer.append(PhaseChanged(phase=phase, previous=self.phase), actor="harness")
        self._writer.flush()
        self.phase = phase
        self._listener.on_phase(phase)


def _find_next(phase: LifecyclePhase) -> LifecyclePhase | None:
    place = PHASES.index(phase) + 1
    return PHASES[place] if place < len(PHASES) else None
