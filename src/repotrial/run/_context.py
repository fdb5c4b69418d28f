"""What the phases of one run share, and their order (P1): bind, set up, brief, act, accept, seal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from msgspec import UnsetType

from repotrial._core.errors import ErrorCode, UsageError
from repotrial._core.words import LifecyclePhase
from repotrial.environment import Installation
from repotrial.isolation import watch_servers
from repotrial.run._books import RunBooks
from repotrial.run._request import PlannedRun, RunSettings
from repotrial.trace import (
    CheckOutcome,
    Command,
    ExitStatus,
    Manifest,
    PhaseChanged,
    RunPaths,
    Termination,
    TraceWriter,
    WatchedCommand,
)

PHASES: Final[tuple[LifecyclePhase, ...]] = ("bind", "set-up", "brief", "act", "accept", "seal")
PHASE_ORDER = ErrorCode(
    "phase-order",
    UsageError,
    "A phase was entered out of order.",
    hint="enter the phases of a run in order: bind, set-up, brief, act, accept, seal",
)


class RunListener(Protocol):
    """Called by the thread that conducts the run; must return at once."""

    def on_phase(self, phase: LifecyclePhase) -> None:
        """A phase began."""
        ...

    def on_check(self, check_id: str, outcome: CheckOutcome) -> None:
        """One attempt of a check on the candidate ended; what its twins say is in the outcome."""
        ...


class SilentListener:
    """Ignores everything."""

    def on_phase(self, phase: LifecyclePhase) -> None:
        """Ignored."""

    def on_check(self, check_id: str, outcome: CheckOutcome) -> None:
        """Ignored."""


class Lifecycle:
    """Where a run is. A phase may be left out only for sealing: a run that broke is sealed as it is."""

    def __init__(self, writer: TraceWriter, listener: RunListener) -> None:
        self._writer = writer
        self._listener = listener
        self.phase: LifecyclePhase | None = None
        self.has_termination = False
        self.is_doubtful = False
        """Whether something ended for want of time, or had to be tried on the reference."""

    def terminate(self, termination: Termination) -> None:
        """Say how acting ended; only once."""
        self._writer.append(termination, actor="harness")
        self.has_termination = True
        self.is_doubtful = self.is_doubtful or termination.category == "run-timeout"

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


@dataclass(frozen=True, kw_only=True)
class BoundRun:
    """A run with its record open and its environment ready."""

    plan: PlannedRun
    settings: RunSettings
    paths: RunPaths
    manifest: Manifest
    writer: TraceWriter
    lifecycle: Lifecycle
    listener: RunListener
    installation: Installation
    books: RunBooks
    check_servers: Callable[[], None] = field(default_factory=watch_servers)
    """Raises if a process that sandboxes depend on was lost since the run began: never the agent's doing."""

    watched: list[WatchedCommand] = field(default_factory=list)
    """What ran since the monitors of this sandbox began to watch (S12)."""

    def note_watched(self, argv: tuple[str, ...], exit_status: ExitStatus, *, cwd: str) -> None:
        """A command of the harness's own has ended under their eyes."""
        self.watched.append(WatchedCommand(command=Command(argv=argv, cwd=cwd), exit=exit_status))

    @property
    def agent_seed(self) -> dict[str, str]:
        """Variables that seed the agent (P10)."""
        variables = self.manifest.seeds.agent_variables
        return {} if isinstance(variables, UnsetType) else variables
